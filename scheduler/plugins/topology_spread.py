"""Topology spread constraints that say DoNotSchedule as a plugin; the rule is kube.pod_topology.topology_spread."""

from collections.abc import Iterator
from typing import Final

from binder.assignment.pod_rejection import spread_rejection
from binder.matching.rejection import Reason, Rejection
from kube.pod_topology.topology_spread import spread_verdicts
from scheduler.framework.plugin import NodeRule
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeState
from scheduler.volumes.volumes import PodInfo


class PodTopologySpread:
    """No topology domain may get further ahead of the emptiest one than maxSkew."""

    name: Final = "PodTopologySpread"

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        verdicts = spread_verdicts(info.pod, cluster)
        if not verdicts:
            return None
        among = cluster.index.everything
        for verdict in verdicts:
            among &= verdict.allowed

        def why(state: NodeState) -> Rejection | None:
            refusing = next((verdict for verdict in verdicts if not verdict.allowed >> state.number & 1), None)
            return None if refusing is None else spread_rejection(refusing, state.name, state.labels)

        def reasons(nodes: int) -> Iterator[tuple[Reason, int]]:
            for verdict in verdicts:
                refused = nodes & ~verdict.allowed
                yield Reason.TOPOLOGY_LABEL_MISSING, refused & ~verdict.keyed
                yield Reason.TOPOLOGY_SPREAD, refused & verdict.keyed
                nodes &= verdict.allowed

        return NodeRule(why, among=among, reasons=reasons)
