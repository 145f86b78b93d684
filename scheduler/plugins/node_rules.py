"""Filters that depend on a node alone, whatever runs on it. Each is evaluated for all nodes at once by the node index.

The hints follow the isSchedulableAfter... functions (KEP-4247) of the same plugins: each hint compares an object before
and after, so that every change that can help is seen when it happens.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Final

from binder.matching.evidence import affinity_text
from binder.matching.node_fit import reject_labels, reject_taints
from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Node, Pod
from kube.rules.selectors import named_nodes, pod_node_affinity_matches
from kube.rules.taints import UNSCHEDULABLE, tolerates_unschedulable, untolerated_taint
from kube.store.node_view import effective_taints
from scheduler.framework.cluster_event import ClusterEvent, Kind, Wanted
from scheduler.framework.plugin import Eviction, Filter, NodeRule, PreFilter
from scheduler.framework.profile import Thresholds
from scheduler.framework.queueing_hint import QueueingHint, all_alike
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.volumes import PodInfo

_NODE: Final[frozenset[Kind]] = frozenset({Node})


def now_tolerated(pod: Pod, change: ClusterEvent, _: Wanted | None) -> bool:
    """A node has only taints that the pod tolerates, and had others before."""
    return _turned(change, lambda node: untolerated_taint(effective_taints(node), pod.tolerations) is None)


def now_selected(pod: Pod, change: ClusterEvent, _: Wanted | None) -> bool:
    """A node has the labels that the pod selects, and did not have them before."""
    return _turned(change, lambda node: _selects(pod, node))


def labels_changed(_: Pod, change: ClusterEvent, __: Wanted | None) -> bool:
    """A node has other labels, whatever the profile requires."""
    if not isinstance(change.new, Node):
        return False
    return not isinstance(change.old, Node) or change.old.labels != change.new.labels


class TaintToleration(Filter):
    """Rejects nodes with a taint, or a cordon, that the pod does not tolerate.

    Nodes that are not ready are excluded by nothing else: node lifecycle taints them, and a pod may tolerate that.
    Source: plugins/tainttoleration/taint_toleration.go and plugins/nodeunschedulable/node_unschedulable.go.
    """

    name = "TaintToleration"
    messages: ClassVar[Mapping[Reason, str]] = {
        Reason.NODE_UNSCHEDULABLE: "were unschedulable",
        Reason.TAINT_NOT_TOLERATED: "had untolerated taint(s)",
    }
    eviction = Eviction.UNMOVED
    queueing_hint = QueueingHint(_NODE, now_tolerated, lambda pod, _: pod.tolerations)

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        if not cluster.index.taints:
            return None
        tolerations = info.pod.tolerations
        allowed_nodes = cluster.index.tolerated(tolerations)

        def reasons(nodes: int) -> Iterable[tuple[Reason, int]]:
            rejected = nodes & ~allowed_nodes
            cordoned = 0 if tolerates_unschedulable(tolerations) else cluster.index.taints.get(UNSCHEDULABLE, 0)
            return (Reason.NODE_UNSCHEDULABLE, rejected & cordoned), (Reason.TAINT_NOT_TOLERATED, rejected & ~cordoned)

        return NodeRule(lambda state: reject_taints(info.pod, state.node), allowed_nodes=allowed_nodes, reasons=reasons)


class EnforcedNodeAffinity(Filter):
    """The node must match what the profile requires of nodes for all its pods (`addedAffinity`).

    Source: plugins/nodeaffinity/node_affinity.go, NodeAffinityArgs.
    """

    name = "EnforcedNodeAffinity"
    args = Thresholds
    messages: ClassVar[Mapping[Reason, str]] = {
        Reason.ENFORCED_NODE_AFFINITY: "didn't match scheduler-enforced node affinity"
    }
    eviction = Eviction.UNMOVED
    queueing_hint = QueueingHint(_NODE, labels_changed, all_alike)

    def __init__(self, thresholds: Thresholds) -> None:
        self._required = thresholds.added_affinity.required

    def rule(self, _: PodInfo, cluster: ClusterView) -> NodeRule | None:
        required = self._required
        if required is None:
            return None

        def why(state: NodeInfo) -> Rejection | None:
            if pod_node_affinity_matches(required, state.labels, state.name):
                return None
            wanted = affinity_text(required)
            return Rejection(Reason.ENFORCED_NODE_AFFINITY, state.name, wanted, "labels that do not match")

        return NodeRule(why, allowed_nodes=cluster.index.selected((), required))


class NodeAffinity(PreFilter, Filter):
    """The node must match the pod's node selector and its required node affinity, all operators of both.

    As a PreFilter it excludes all nodes but those that the terms name, if each term names some: so for a DaemonSet.
    Source: plugins/nodeaffinity/node_affinity.go and component-helpers/scheduling/corev1/nodeaffinity.
    """

    name = "NodeAffinity"
    messages: ClassVar[Mapping[Reason, str]] = {
        Reason.NODE_SELECTOR_MISMATCH: "didn't match Pod's node affinity/selector"
    }
    eviction = Eviction.UNMOVED
    queueing_hint = QueueingHint(_NODE, now_selected, lambda pod, _: (pod.node_selector, pod.node_affinity))

    def confine(self, info: PodInfo, cluster: ClusterView) -> int | Rejection | None:
        names = named_nodes(info.pod.node_affinity)
        if names is None:
            return None
        if not names:
            wanted = "terms of node affinity that a node can fulfil"
            return Rejection(Reason.NODE_SELECTOR_MISMATCH, info.pod.key, wanted, "several names in each term")
        return sum(1 << cluster.numbers[name] for name in names if name in cluster.numbers)

    def text(self, _rejection: Rejection, _info: PodInfo, _cluster: ClusterView) -> str:
        return "pod affinity terms conflict"

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        pod = info.pod
        if not pod.node_selector and pod.node_affinity is None:
            return None
        allowed_nodes = cluster.index.selected(pod.node_selector, pod.node_affinity)
        return NodeRule(lambda state: reject_labels(pod, state.node), allowed_nodes=allowed_nodes)


def _turned(change: ClusterEvent, allows: Callable[[Node], bool]) -> bool:
    if not isinstance(change.new, Node) or not allows(change.new):
        return False
    return not isinstance(change.old, Node) or not allows(change.old)


def _selects(pod: Pod, node: Node) -> bool:
    labels = dict(node.labels)
    if any(labels.get(key) != value for key, value in pod.node_selector):
        return False
    return pod_node_affinity_matches(pod.node_affinity, labels, node.name)
