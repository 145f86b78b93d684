"""Which changes may help a pod that was refused because of the pods that are, or are not, elsewhere.

Sources: isSchedulableAfterPodChange and isSchedulableAfterNodeChange (KEP-4247) of plugins/podtopologyspread and
plugins/interpodaffinity. Wider than there: a pod that leaves can make this one the first of its series, a node that
goes takes its pods along. Selectors of namespaces count as fulfilled, as their labels are not looked up here.
"""

from collections.abc import Iterable

from kube.objects.constraints import DO_NOT_SCHEDULE, HONOR, NO_CONSTRAINTS, PodTerm
from kube.objects.model import Namespace, Node, Pod, value_of
from kube.pod_topology.topology_spread import constraints_of, selector_of
from kube.rules.selectors import matches_labels
from scheduler.framework.cluster_event import Change, Wanted


def spread_eased(pod: Pod, change: Change, _: Wanted | None) -> bool:
    """A pod that is counted came or went, or a node with one of the topology keys changed."""
    if isinstance(change.old, Node) or isinstance(change.new, Node):
        return _spread_nodes_changed(pod, change)
    return any(_is_counted(pod, one) for one in _changed_pods(change))


def neighbours_eased(pod: Pod, change: Change, wanted: Wanted | None) -> bool:
    """A pod came to be near to, one left to be apart from, or a node moved into another topology domain."""
    if not neighbours_may_be_eased(pod, change, wanted):
        return False
    old, new = change.old, change.new
    if not isinstance(old, Pod) or (isinstance(new, Pod) and _wants_near(pod, new)):
        return True
    apart = (pod.constraints or NO_CONSTRAINTS).anti_affinity
    kept_off = (old.constraints or NO_CONSTRAINTS).anti_affinity
    if any(_may_mean(term, pod, old) for term in apart) or any(_may_mean(term, old, pod) for term in kept_off):
        return True
    # When nobody else is left that all terms mean, this one may be the first of its series.
    return _wants_near(pod, old) and _wants_near(pod, pod)


def neighbours_may_be_eased(pod: Pod, change: Change, _: Wanted | None) -> bool:
    """The same, whatever the labels of the pod."""
    old, new = change.old, change.new
    if isinstance(old, Node) or isinstance(new, Node):
        return _labels_of(old) != _labels_of(new)
    if isinstance(old, Namespace) or isinstance(new, Namespace):
        return True
    changed = _changed_pods(change)
    if any(_wants_near(pod, one) for one in changed):
        return True
    left = [one for one in changed if one is old]
    apart = (pod.constraints or NO_CONSTRAINTS).anti_affinity
    return any(
        (one.constraints or NO_CONSTRAINTS).anti_affinity or any(_may_mean(term, pod, one) for term in apart)
        for one in left
    )


def _changed_pods(change: Change) -> Iterable[Pod]:
    """Return the pod before and after, nothing if it is alike to selectors."""
    old, new = change.old, change.new
    if isinstance(old, Pod) and isinstance(new, Pod) and _seen(old) == _seen(new):
        return ()
    return [one for one in (old, new) if isinstance(one, Pod)]


def _seen(pod: Pod) -> tuple[object, ...]:
    """Return what others can see of a pod."""
    return pod.labels, pod.deleting


def _is_counted(pod: Pod, other: Pod) -> bool:
    if other.namespace != pod.namespace:
        return False
    selectors = (selector_of(one, pod) for one in constraints_of(pod, DO_NOT_SCHEDULE))
    return any(selector is not None and matches_labels(selector, other.labels) for selector in selectors)


def _spread_nodes_changed(pod: Pod, change: Change) -> bool:
    hard = constraints_of(pod, DO_NOT_SCHEDULE)
    keys = {one.topology_key for one in hard}
    nodes = [one for one in (change.old, change.new) if isinstance(one, Node)]
    if not any(value_of(node.labels, key) is not None for node in nodes for key in keys):
        return False
    if len(nodes) == 1 or nodes[0].labels != nodes[1].labels:
        return True
    taints = {(node.taints, node.unschedulable) for node in nodes}
    return len(taints) > 1 and any(one.node_taints_policy == HONOR for one in hard)


def _labels_of(node: object) -> object:
    return node.labels if isinstance(node, Node) else None


def _wants_near(pod: Pod, other: Pod) -> bool:
    terms = (pod.constraints or NO_CONSTRAINTS).affinity
    return bool(terms) and all(_may_mean(term, pod, other) for term in terms)


def _may_mean(term: PodTerm, owner: Pod, other: Pod) -> bool:
    if term.selector is None or not matches_labels(term.selector, other.labels):
        return False
    if term.namespace_selector is not None:
        return True
    return other.namespace in (term.namespaces or (owner.namespace,))
