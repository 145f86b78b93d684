"""Filters that look at a node alone, whatever runs on it. Each is answered for all nodes at once by the node index."""

from typing import Final

from binder.matching.evidence import affinity_text
from binder.matching.node_fit import refuse_labels, refuse_taints
from binder.matching.rejection import Reason, Rejection
from kube.rules.selectors import pod_node_affinity_matches
from scheduler.framework.plugin import NodeRule
from scheduler.framework.profile import Thresholds
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeState
from scheduler.volumes.volumes import PodInfo


class TaintToleration:
    """A taint, or a cordon, that the pod does not tolerate keeps it away.

    A node that is not ready is kept from pods by nothing else: node lifecycle taints it, and a pod may tolerate that.
    Source: plugins/tainttoleration/taint_toleration.go and plugins/nodeunschedulable/node_unschedulable.go.
    """

    name: Final = "TaintToleration"

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        if not cluster.index.taints:
            return None
        among = cluster.index.tolerated(info.pod.tolerations)
        return NodeRule(lambda state: refuse_taints(info.pod, state.node), among=among)


class EnforcedNodeAffinity:
    """The node must fulfil what the profile asks of nodes for all its pods (`addedAffinity`).

    Source: plugins/nodeaffinity/node_affinity.go, NodeAffinityArgs.
    """

    name: Final = "EnforcedNodeAffinity"

    def __init__(self, thresholds: Thresholds) -> None:
        self._required = thresholds.added_affinity.required

    def rule(self, _: PodInfo, cluster: ClusterView) -> NodeRule | None:
        required = self._required
        if required is None:
            return None

        def why(state: NodeState) -> Rejection | None:
            if pod_node_affinity_matches(required, state.labels, state.name):
                return None
            wanted = affinity_text(required)
            return Rejection(Reason.ENFORCED_NODE_AFFINITY, state.name, wanted, "labels that do not match")

        return NodeRule(why, among=cluster.index.selected((), required))


class NodeAffinity:
    """The node must fulfil the pod's node selector and its required node affinity, all operators of both.

    Source: plugins/nodeaffinity/node_affinity.go and component-helpers/scheduling/corev1/nodeaffinity.
    """

    name: Final = "NodeAffinity"

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        pod = info.pod
        if not pod.node_selector and pod.node_affinity is None:
            return None
        among = cluster.index.selected(pod.node_selector, pod.node_affinity)
        return NodeRule(lambda state: refuse_labels(pod, state.node), among=among)
