"""Gauges of the standalone scheduler, computed at each scrape: pods by queue, and how full the nodes are."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from prebinder.metrics.state import cache_gauges
from scheduler.state.node_info import NodeInfo

_RESOURCES: Final = ("cpu", "memory", "pods")


@dataclass(frozen=True, slots=True)
class SchedulerState:
    """What is looked at. `queues` and `nodes` are the leader's alone, or sums over replicas would double."""

    synced: Mapping[str, bool] = field(default_factory=dict)
    loop_lag: float = 0.0
    queues: Mapping[str, int] = field(default_factory=dict)
    """Where pods wait -> how many."""
    nodes: Sequence[NodeInfo] = ()


class SchedulerStateCollector(Collector):
    """Hands out the gauges of the state it was last given."""

    def __init__(self) -> None:
        self.state = SchedulerState()

    def describe(self) -> Iterable[Metric]:
        """Say nothing: names are known without counting anything."""
        return ()

    def collect(self) -> Iterator[Metric]:
        state = self.state
        yield from cache_gauges(state.loop_lag, state.synced)
        pending = GaugeMetricFamily(
            "scheduler_pending_pods",
            "Pods without a node: to be scheduled next (active), after a pause (backoff) or a change that may "
            "help (unschedulable); with scheduling gates (gated); rejected as invalid (invalid); being scheduled "
            "(in_work).",
            labels=["queue"],
        )
        for queue, pods in state.queues.items():
            pending.add_metric([queue], pods)
        yield pending
        yield _requested(state.nodes)


def _requested(nodes: Sequence[NodeInfo]) -> Metric:
    family = GaugeMetricFamily(
        "pvc_prebinder_scheduler_node_requested_ratio",
        "Share of a node's allocatable resources that its pods request: minimum, mean and maximum over the "
        "nodes of a zone.",
        labels=["zone", "resource", "stat"],
    )
    shares: dict[tuple[str, str], list[float]] = {}
    for node in nodes:
        for resource in _RESOURCES:
            offered = node.allocatable.get(resource, 0)
            if offered > 0:
                requested = offered - node.free.get(resource, 0)
                shares.setdefault((node.zone, resource), []).append(requested / offered)
    for (zone, resource), ratios in shares.items():
        stats = {"min": min(ratios), "mean": sum(ratios) / len(ratios), "max": max(ratios)}
        for stat, value in stats.items():
            family.add_metric([zone, resource, stat], value)
    return family
