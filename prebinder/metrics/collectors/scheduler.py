"""Gauges of the standalone scheduler, pods by queue, and how full the nodes are."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from prebinder.metrics.collectors.gauges import cache_gauges, gauge_family
from scheduler.state.node_info import NodeInfo

_RESOURCES: Final = ("cpu", "memory", "pods")


@dataclass(frozen=True, slots=True)
class SchedulerState:
    """The input of the gauges. `queues` and `nodes` come from the leader only, otherwise sums over replicas would
    double.
    """

    synced: Mapping[str, bool] = field(default_factory=dict)
    loop_lag: float = 0.0
    queues: Mapping[str, int] = field(default_factory=dict)
    """Where pods wait -> how many."""
    nodes: Sequence[NodeInfo] = ()


class SchedulerStateCollector(Collector):
    """Returns the gauges of the state that it was last given."""

    def __init__(self) -> None:
        self.state = SchedulerState()

    def describe(self) -> Iterable[Metric]:
        """Return nothing: names are known without collecting."""
        return ()

    def collect(self) -> Iterator[Metric]:
        state = self.state
        yield from cache_gauges(state.loop_lag, state.synced)
        yield gauge_family(
            "scheduler_pending_pods",
            "Pods without a node: to be scheduled next (active), after a pause (backoff) or a change that may "
            "help (unschedulable); with scheduling gates (gated); rejected as invalid (invalid); being scheduled "
            "(in_work).",
            ["queue"],
            {(queue,): pods for queue, pods in state.queues.items()},
        )
        yield _requested(state.nodes)


def _requested(nodes: Sequence[NodeInfo]) -> Metric:
    shares: dict[tuple[str, str], list[float]] = {}
    for node in nodes:
        for resource in _RESOURCES:
            offered = node.allocatable.get(resource, 0)
            if offered > 0:
                requested = offered - node.free.get(resource, 0)
                shares.setdefault((node.zone, resource), []).append(requested / offered)
    ratios: dict[tuple[str, ...], float] = {
        (*of, stat): ratio
        for of, known in shares.items()
        for stat, ratio in (("min", min(known)), ("mean", sum(known) / len(known)), ("max", max(known)))
    }
    return gauge_family(
        "pvc_prebinder_scheduler_node_requested_ratio",
        "Share of a node's allocatable resources that its pods request: minimum, mean and maximum over the "
        "nodes of a zone.",
        ["zone", "resource", "stat"],
        ratios,
    )
