"""The summary of a simulation: how fast, how full, how balanced, and what did not fit."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from kube.rules.resource_fit import PODS
from scheduler.simulator.simulation import SimulationOutcome
from scheduler.state.cluster import ClusterView

_RESOURCES: Final = ("cpu", "memory", PODS)
_SECOND: Final = 1_000_000


class Latency(Struct, frozen=True):
    """Milliseconds of simulated time from a pod's creation to its bind; each is the latency of a real pod."""

    p50: float
    p90: float
    p99: float


class Use(Struct, frozen=True):
    """Shares of what nodes offer, from 0 to 1: of all together, and of the emptiest and the fullest one."""

    mean: float
    least: float
    most: float


class Summary(Struct, frozen=True, rename="camel"):
    """The result. `pods_by_zone` counts pods placed in the run or before; `zone_skew` is its maximum minus its
    minimum.
    """

    nodes: int
    pods: int
    placed: int
    failed: int
    failures: dict[str, int]
    pods_per_second: float
    seconds: float
    latency_milliseconds: Latency
    decisions: int
    revisions: int
    conflicts: int
    utilisation: dict[str, Use]
    pods_by_zone: dict[str, int]
    zone_skew: int
    volumes_bound: int


def summarise(outcome: SimulationOutcome, pods: int, view: ClusterView) -> Summary:
    """Return the summary of a run over that many pods that ended with this cluster."""
    seconds = outcome.duration / _SECOND
    zones = Counter({state.zone or "(none)": 0 for state in view.nodes})
    for state in view.nodes:
        zones[state.zone or "(none)"] += len(state.pods)
    return Summary(
        nodes=len(view.nodes),
        pods=pods,
        placed=len(outcome.latencies),
        failed=len(outcome.failed),
        failures={str(reason): count for reason, count in sorted(outcome.failures.items())},
        pods_per_second=round(len(outcome.latencies) / seconds, 1) if seconds else 0.0,
        seconds=round(seconds, 3),
        latency_milliseconds=_latency(sorted(outcome.latencies)),
        decisions=outcome.decisions,
        revisions=outcome.revisions,
        conflicts=outcome.conflicts,
        utilisation=_utilisation(view),
        pods_by_zone=dict(sorted(zones.items())),
        zone_skew=max(zones.values(), default=0) - min(zones.values(), default=0),
        volumes_bound=sum(volume.phase == "Bound" for volume in view.storage.snapshot.volumes.values()),
    )


def _latency(ordered: Sequence[int]) -> Latency:
    return Latency(*(round(_percentile(ordered, percent) / 1000, 1) for percent in (50, 90, 99)))


def _percentile(ordered: Sequence[int], percent: int) -> int:
    """Return the smallest value that so many percent do not exceed (nearest rank); 0 if there are none."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else 0


def _utilisation(view: ClusterView) -> dict[str, Use]:
    return {
        resource: _use(resource, [(state.allocatable, state.free) for state in view.nodes]) for resource in _RESOURCES
    }


def _use(resource: str, nodes: Iterable[tuple[Mapping[str, int], Mapping[str, int]]]) -> Use:
    offered = [(there.get(resource, 0), there.get(resource, 0) - free.get(resource, 0)) for there, free in nodes]
    shares = [used / there for there, used in offered if there]
    whole = sum(there for there, _ in offered)
    if not whole:
        return Use(0.0, 0.0, 0.0)
    return Use(round(sum(used for _, used in offered) / whole, 4), round(min(shares), 4), round(max(shares), 4))
