"""Checks before a pod is assigned that it still fits: binding its volumes took time, and other schedulers are at work
too.

Only a kubelet can reject a pod for which there is no room (OutOfcpu): the API server accepts every Binding. So two
schedulers can overcommit a node between a decision and its Binding. That window is kept short, and where it is long,
because volumes had to be bound, the node is checked again.
"""

from typing import Final, Protocol

from binder.matching.node_fit import reject_resources
from binder.matching.rejection import Reason, Rejection
from kube.clock import Clock
from kube.store.snapshot import Snapshot
from scheduler.framework.plugin import ScheduleResult
from scheduler.plugins.resource_fit import reject_disks, reject_ports
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo, state_without_pod


class CurrentCluster(Protocol):
    """Provides the present state of the cluster (scheduler.standalone.cache.SchedulerCache)."""

    async def current(self, clock: Clock) -> ClusterView: ...


class StillFits:
    """A Bind plugin that assigns nothing: it runs before the one that does, and rejects."""

    name: Final = "StillFits"

    def __init__(self, cluster: CurrentCluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    async def bind(self, placement: ScheduleResult) -> Rejection | None:
        """Return why the node has no room left. Pods without claims were decided a moment ago and are not checked."""
        if not placement.pod.claims:
            return None
        view = await self._cluster.current(self._clock)
        return reject_taken(placement, view.node(placement.node), view.storage.snapshot)


def reject_taken(placement: ScheduleResult, node: NodeInfo | None, snapshot: Snapshot) -> Rejection | None:
    """Return what other pods have taken of the node since the pod was counted there, None if it still fits."""
    pod = placement.pod
    if node is None:
        return Rejection(Reason.NODE_MISSING, placement.node, "a node", "deleted")
    others = state_without_pod(node, pod, snapshot) or node
    return reject_resources(pod, node.name, others.free) or reject_ports(pod, others) or reject_disks(pod, others)
