"""Required pod affinity and anti-affinity as a plugin; the rule is kube.pod_topology.inter_pod_affinity."""

from collections.abc import Iterator
from typing import Final

from binder.assignment.pod_rejection import AFFINITY_REASONS, affinity_rejection
from binder.matching.rejection import Reason, Rejection
from kube.pod_topology.inter_pod_affinity import affinity_verdicts
from scheduler.framework.plugin import NodeRule
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeState
from scheduler.volumes.volumes import PodInfo


class InterPodAffinity:
    """The pods a pod must be near or apart from, and those that must be apart from it."""

    name: Final = "InterPodAffinity"

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        verdicts = affinity_verdicts(info.pod, cluster)
        if not verdicts:
            return None
        among = cluster.index.everything
        for verdict in verdicts:
            among &= verdict.allowed

        def why(state: NodeState) -> Rejection | None:
            refusing = next((verdict for verdict in verdicts if not verdict.allowed >> state.number & 1), None)
            return None if refusing is None else affinity_rejection(refusing, state.name, state.labels)

        def reasons(nodes: int) -> Iterator[tuple[Reason, int]]:
            for verdict in verdicts:
                yield AFFINITY_REASONS[verdict.side], nodes & ~verdict.allowed
                nodes &= verdict.allowed

        return NodeRule(why, among=among, reasons=reasons)
