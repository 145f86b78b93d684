"""Required pod affinity and anti-affinity as a plugin; the rule is kube.rules.inter_pod_affinity."""

from collections.abc import Iterator
from typing import Final

from binder.pod_rejection import AFFINITY_REASONS, affinity_rejection
from binder.rejection import Reason, Rejection
from kube.rules.inter_pod_affinity import affinity_verdicts
from scheduler.cluster import ClusterView
from scheduler.node_state import NodeState
from scheduler.plugin import NodeRule
from scheduler.volumes import PodInfo


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
