"""The gauges of the controller, from an immutable snapshot of the cluster and the state of the process."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from binder.matching.rejection import Reason
from binder.reservation.contract import Annotations
from kube.store.snapshot import Snapshot
from prebinder.metrics.collectors.ahead import ahead_gauges
from prebinder.metrics.collectors.available import available_gauges
from prebinder.metrics.collectors.gauges import ZoneLabel, cache_gauges, gauge_family
from prebinder.metrics.collectors.health import HealthView, KnownHealth, health_gauges, quarantine_gauges
from prebinder.metrics.collectors.pending import class_label_of, gated_gauges, pending_gauges


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The input of the gauges. Gauges about the cluster come from the leader only, otherwise sums over replicas would
    double.
    """

    snapshot: Snapshot | None = None
    """None while another replica leads."""
    health: KnownHealth = field(default=lambda _driver, _handle: None)
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    """Claim -> the result of the last attempt for its pod."""
    quarantine: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Class -> volumes in quarantine, volumes kept out by its cap only."""
    not_in_flight: Mapping[str, int] = field(default_factory=dict)
    """Reason -> claims with a selected node and no volume that take no room in pools of storage."""
    annotations: Annotations = field(default_factory=Annotations)
    synced: Mapping[str, bool] = field(default_factory=dict)
    endpoints_up: Mapping[str, bool] = field(default_factory=dict)
    queues: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Queue -> seconds of unfinished work, seconds of the longest."""
    loop_lag: float = 0.0
    leads: bool = True
    """Whether this process does the work; if another replica does, it is the one to report it."""


class StateCollector(Collector):
    """Returns the gauges of the state that it was last given."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.now = datetime.fromtimestamp(0, UTC)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: names are known without collecting."""
        return ()

    def collect(self) -> Iterator[Metric]:
        state = self.state
        yield from cache_gauges(state.loop_lag, state.synced)
        yield _endpoints(state.endpoints_up)
        yield from _queues(state.queues)
        if state.snapshot is not None:
            yield from pending_gauges(state.snapshot, state.reasons, state.annotations, self.now)
            yield from available_gauges(state.snapshot, state.annotations, self.now)
            yield from gated_gauges(state.snapshot, state.annotations, self.now)
            yield from ahead_gauges(state.snapshot, state.annotations, self.now)
            yield _reservations(state.snapshot, state.annotations)
            yield from health_gauges(
                HealthView(state.snapshot, state.health, state.endpoints_up.keys(), state.annotations, self.now)
            )
            yield from quarantine_gauges(state.quarantine)
            yield _not_in_flight(state.not_in_flight)


def _not_in_flight(counts: Mapping[str, int]) -> Metric:
    return gauge_family(
        "pvc_prebinder_claims_not_in_flight",
        "Claims with a selected node and no volume that take no room in pools of storage.",
        ["reason"],
        {(reason,): count for reason, count in counts.items()},
    )


def _endpoints(endpoints_up: Mapping[str, bool]) -> Metric:
    return gauge_family(
        "pvc_prebinder_csi_endpoint_up",
        "1 while the driver answers under its configured name.",
        ["driver_name"],
        {(driver,): int(is_up) for driver, is_up in endpoints_up.items()},
    )


def _queues(queues: Mapping[str, tuple[float, float]]) -> Iterator[Metric]:
    yield gauge_family(
        "workqueue_unfinished_work_seconds",
        "Total time that the keys in progress have been in progress.",
        ["name"],
        {(name,): seconds for name, (seconds, _) in queues.items()},
    )
    yield gauge_family(
        "workqueue_longest_running_processor_seconds",
        "Time since work began on the key that has been in progress longest.",
        ["name"],
        {(name,): seconds for name, (_, seconds) in queues.items()},
    )


def _reservations(snapshot: Snapshot, annotations: Annotations) -> Metric:
    counts: Counter[tuple[str, ...]] = Counter()
    zones = ZoneLabel(snapshot)
    for key in snapshot.volumes_reserved_for:
        claim = snapshot.claims.get(key)
        reservation = annotations.held_for(claim, snapshot) if claim is not None else None
        if claim is not None and reservation is not None and not claim.bind_finished:
            # Any user who may change the claim may write any zone to it.
            counts[zones.of(reservation.zone), class_label_of(claim, snapshot)] += 1
    return gauge_family(
        "pvc_prebinder_reservations",
        "Claims that are not bound yet and for which a volume is reserved.",
        ["zone", "storage_class"],
        counts,
    )
