"""Required pod affinity and anti-affinity as a plugin; the rule is kube.pod_topology.inter_pod_affinity.

The tally is AddPod and RemovePod, the hint isSchedulableAfterPodChange and isSchedulableAfterNodeChange (KEP-4247) of
plugins/interpodaffinity. The hint is wider than upstream's: a pod that leaves can make this one the first of its
series, a node that is removed takes its pods along, and the terms of other pods count too. Selectors of namespaces
count as matching, because their labels are not looked up.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import ClassVar

from binder.assignment.pod_rejection import AFFINITY_REASONS, affinity_rejection
from binder.matching.rejection import Reason
from kube.objects.constraints import NO_CONSTRAINTS, PodTerm
from kube.objects.labels import Pairs
from kube.objects.model import Namespace, Node, Pod
from kube.pod_topology.inter_pod_affinity import TermVerdict, affinity_verdicts
from kube.pod_topology.placed_pods import groups_meant, means
from kube.pod_topology.pod_groups import PodGroup, group_of
from kube.rules.selectors import matches_labels
from scheduler.framework.cluster_event import ClusterEvent, Wanted
from scheduler.framework.plugin import Counts, Eviction, Filter, NodeRule, rule_of_verdicts
from scheduler.framework.queueing_hint import QueueingHint
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.volumes import PodInfo


def neighbours_eased(pod: Pod, change: ClusterEvent, wanted: Wanted | None) -> bool:
    """A pod to be near appeared, one to be apart from left, or a node moved into another topology domain."""
    if not isinstance(change.old, Pod):
        return neighbours_may_be_eased(pod, change, wanted)
    if _comes_near(pod, change) or _leaves_alone(pod, change):
        return True
    kept_off = (change.old.constraints or NO_CONSTRAINTS).anti_affinity if change.new is None else ()
    if any(_may_mean(term, change.old, pod) for term in kept_off):
        return True
    # If no other pod is left that all terms select, this one may be the first of its series.
    return _goes_away(pod, change) and _wants_near(pod, pod)


def neighbours_may_be_eased(pod: Pod, change: ClusterEvent, wanted: Wanted | None) -> bool:
    """The same, whatever the labels of the pod."""
    old, new = change.old, change.new
    if isinstance(old, Node) or isinstance(new, Node):
        return _node_may_ease(pod, old, new, wanted)
    if isinstance(old, Namespace) or isinstance(new, Namespace):
        return True
    if _comes_near(pod, change) or _leaves_alone(pod, change) or _goes_away(pod, change):
        return True
    return isinstance(old, Pod) and new is None and bool((old.constraints or NO_CONSTRAINTS).anti_affinity)


def _node_may_ease(pod: Pod, old: object, new: object, wanted: Wanted | None) -> bool:
    """Whether a node was added where the pod may be near others, was removed, or is in another domain of some term."""
    constraints = pod.constraints or NO_CONSTRAINTS
    before, after = (dict(node.labels) if isinstance(node, Node) else None for node in (old, new))
    near = {term.topology_key for term in constraints.affinity}
    if before is None or after is None:
        return after is None or all(key in after for key in near)
    moved = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    if wanted is None or wanted.topology_keys is None:
        return bool(moved)
    apart = {term.topology_key for term in constraints.anti_affinity} | wanted.topology_keys
    # Without the label a node is in no domain: nothing is near there, and nothing has to be apart.
    return any(key in after for key in moved & near) or any(key in before for key in moved & apart)


def _comes_near(pod: Pod, change: ClusterEvent) -> bool:
    """Whether a pod is selected by all terms of affinity that was not before."""
    return _is_near(pod, change.new) and not _is_near(pod, change.old)


def _goes_away(pod: Pod, change: ClusterEvent) -> bool:
    """Whether a pod was selected by all terms of affinity that is not any more."""
    return _is_near(pod, change.old) and not _is_near(pod, change.new)


def _leaves_alone(pod: Pod, change: ClusterEvent) -> bool:
    """Whether a term of anti-affinity selected a pod that it does not select any more."""
    old, new = change.old, change.new
    return isinstance(old, Pod) and any(
        _may_mean(term, pod, old) and not (isinstance(new, Pod) and _may_mean(term, pod, new))
        for term in (pod.constraints or NO_CONSTRAINTS).anti_affinity
    )


def _is_near(pod: Pod, other: object) -> bool:
    return isinstance(other, Pod) and _wants_near(pod, other)


def _shape(pod: Pod, wanted: Wanted | None) -> Hashable:
    constraints = pod.constraints or NO_CONSTRAINTS
    keys = None if wanted is None else wanted.topology_keys
    return pod.namespace, constraints.affinity, constraints.anti_affinity, keys


class NeighbourTally:
    """Counts pods that may not be in the node's domain, and for each term of affinity those that have to be.

    For each of these terms it also counts such pods anywhere, because the first pod of a series is exempt.
    """

    def __init__(self, info: PodInfo, cluster: ClusterView) -> None:
        constraints = info.pod.constraints or NO_CONSTRAINTS
        self._namespace = info.pod.namespace
        self._itself = group_of(info.pod)
        self._known: dict[PodGroup, tuple[tuple[str, ...], bool]] = {}
        self._namespaces: Mapping[str, Pairs] = cluster.namespaces
        self._near, self._apart = constraints.affinity, constraints.anti_affinity
        self._is_first = bool(self._near) and self._all_mean(self._itself)
        self._rejecting: dict[str, Counter[str]] = {}
        for term in self._apart:
            for _, places in groups_meant(term, self._namespace, cluster):
                _count(self._rejecting.setdefault(term.topology_key, Counter()), term, places, cluster)
        for group, places in cluster.pod_groups.outspoken_about(self._itself):
            for term in self._unwelcoming(group):
                _count(self._rejecting.setdefault(term.topology_key, Counter()), term, places, cluster)
        self._needed: list[Counter[str]] = [Counter() for _ in self._near]
        for group, places in groups_meant(self._near[0], self._namespace, cluster) if self._near else ():
            if self._all_mean(group):
                for term, counts in zip(self._near, self._needed, strict=True):
                    _count(counts, term, places, cluster)
        self._everywhere = tuple(counts.total() for counts in self._needed)

    def counts(self, state: NodeInfo) -> Counts:
        labels = state.labels
        rejecting = sum(counts[labels[key]] for key, counts in self._rejecting.items() if key in labels)
        near = (
            counts[labels[term.topology_key]] if term.topology_key in labels else 0
            for term, counts in zip(self._near, self._needed, strict=True)
        )
        return (rejecting, *near, *self._everywhere)

    def adds(self, pod: Pod, state: NodeInfo) -> Counts:
        group, labels = group_of(pod), state.labels
        effect = self._known.get(group)
        if effect is None:
            effect = self._known[group] = self._rejecting_keys(group), bool(self._near) and self._all_mean(group)
        rejecting, needed = effect
        near = tuple([int(needed and term.topology_key in labels) for term in self._near])
        return (sum([key in labels for key in rejecting]), *near, *near)

    def allows(self, state: NodeInfo, counts: Counts) -> bool:
        terms = len(self._near)
        near, everywhere = counts[1 : 1 + terms], counts[1 + terms :]
        if counts[0]:
            return False
        if all(near):
            return True
        return self._is_first and not any(everywhere) and all(term.topology_key in state.labels for term in self._near)

    def _rejecting_keys(self, group: PodGroup) -> tuple[str, ...]:
        """Return the topology keys of the terms, on either side, that keep such a pod and this one apart."""
        apart = [term for term in self._apart if means(term, self._namespace, group, self._namespaces)]
        return tuple(term.topology_key for term in (*apart, *self._unwelcoming(group)))

    def _all_mean(self, group: PodGroup) -> bool:
        return all(means(term, self._namespace, group, self._namespaces) for term in self._near)

    def _unwelcoming(self, group: PodGroup) -> list[PodTerm]:
        """Return the terms by which equal pods keep the pod out."""
        constraints = group.constraints or NO_CONSTRAINTS
        return [
            term for term in constraints.anti_affinity if means(term, group.namespace, self._itself, self._namespaces)
        ]


def _count(counts: Counter[str], term: PodTerm, places: Mapping[int, int], cluster: ClusterView) -> None:
    key, nodes = term.topology_key, cluster.nodes
    for number, count in places.items():
        value = nodes[number].labels.get(key)
        if value is not None:
            counts[value] += count


class InterPodAffinity(Filter):
    """The pods that a pod must be near or apart from, and those that must be apart from it."""

    name = "InterPodAffinity"
    messages: ClassVar[Mapping[Reason, str]] = {
        Reason.POD_AFFINITY_MISMATCH: "didn't match pod affinity rules",
        Reason.POD_ANTI_AFFINITY: "didn't match pod anti-affinity rules",
        Reason.EXISTING_POD_ANTI_AFFINITY: "didn't satisfy existing pods anti-affinity rules",
    }
    eviction = Eviction.INCREMENTAL
    unresolvable = frozenset({Reason.POD_AFFINITY_MISMATCH})
    queueing_hint = QueueingHint(
        frozenset({Node, Pod, Namespace}), neighbours_eased, _shape, coarse=neighbours_may_be_eased
    )

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        verdicts = affinity_verdicts(info.pod, cluster)
        return rule_of_verdicts(verdicts, cluster.index.everything, affinity_rejection, _reasons)

    def tally(self, info: PodInfo, cluster: ClusterView) -> NeighbourTally:
        return NeighbourTally(info, cluster)


def _reasons(verdict: TermVerdict, rejected: int) -> Iterable[tuple[Reason, int]]:
    return ((AFFINITY_REASONS[verdict.side], rejected),)


def _wants_near(pod: Pod, other: Pod) -> bool:
    terms = (pod.constraints or NO_CONSTRAINTS).affinity
    return bool(terms) and all(_may_mean(term, pod, other) for term in terms)


def _may_mean(term: PodTerm, owner: Pod, other: Pod) -> bool:
    if term.selector is None or not matches_labels(term.selector, other.labels):
        return False
    if term.namespace_selector is not None:
        return True
    return other.namespace in (term.namespaces or (owner.namespace,))
