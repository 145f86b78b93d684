"""Metrics of claims, reservations and plans: the ports of binder.reporting.observe and binder.solver."""

from itertools import product

from prometheus_client import CollectorRegistry, Counter, Histogram

from binder.matching.rejection import Reason
from binder.reporting.observe import ConflictKind
from binder.reservation.release import Cause
from binder.solver.solver_process import SolverFailure
from prebinder.metrics import buckets
from prebinder.metrics.class_label import ClassLabel


class BindingMetrics:
    """Port of binder.reporting.observe.BindMetrics. `dry_run` tells whether the counted writes were only simulated."""

    def __init__(self, registry: CollectorRegistry, *, dry_run: bool = False) -> None:
        self._dry_run = str(dry_run).lower()
        self._attempts = Counter(
            "pvc_prebinder_reservation_attempts_total",
            "Decisions about claims; success means that volumes were reserved.",
            ["storage_class", "binding_mode", "result", "dry_run"],
            registry=registry,
        )
        self._failures = Counter(
            "pvc_prebinder_reservation_failures_total",
            "Claims for which nothing was reserved, by reason.",
            ["storage_class", "reason"],
            registry=registry,
        )
        self._seconds = Histogram(
            "pvc_prebinder_bind_duration_seconds",
            "Time from the first decision about a claim to its being Bound; success only.",
            ["storage_class", "binding_mode"],
            buckets=buckets.CSI,
            registry=registry,
        )
        self._reserved = Histogram(
            "pvc_prebinder_reservation_duration_seconds",
            "Time from when a pod was first seen to the reservation of a claim's volume; success only.",
            ["storage_class", "binding_mode"],
            buckets=buckets.SCHEDULING,
            registry=registry,
        )
        self._classes = ClassLabel(self._attempts, self._failures, self._seconds, self._reserved)

    def expect_class(self, storage_class: str, binding_mode: str) -> None:
        """Start the class's counters at 0, so that a rate sees the first failure."""
        self._classes.expect(storage_class)
        for result in ("success", "failure"):
            self._attempts.labels(storage_class, binding_mode, result, self._dry_run)
        self._seconds.labels(storage_class, binding_mode)
        self._reserved.labels(storage_class, binding_mode)

    def forget_class(self, storage_class: str) -> None:
        """Drop the series of a class that no longer exists."""
        self._classes.forget(storage_class)

    def attempted(self, storage_class: str, binding_mode: str, *, success: bool) -> None:
        result = "success" if success else "failure"
        self._attempts.labels(self._classes.of(storage_class), binding_mode, result, self._dry_run).inc()

    def failed(self, storage_class: str, reason: Reason) -> None:
        self._failures.labels(self._classes.of(storage_class), reason).inc()

    def reserved_after(self, storage_class: str, binding_mode: str, seconds: float) -> None:
        self._reserved.labels(self._classes.of(storage_class), binding_mode).observe(seconds)

    def bound(self, storage_class: str, binding_mode: str, seconds: float) -> None:
        self._seconds.labels(self._classes.of(storage_class), binding_mode).observe(seconds)


class ReservationInstruments:
    """Port of binder.reporting.observe.ReservationMetrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._created = Counter(
            "pvc_prebinder_reservations_created_total", "Volumes reserved.", ["storage_class"], registry=registry
        )
        self._releases = Counter(
            "pvc_prebinder_reservation_releases_total",
            "Reservations that ended, by cause.",
            ["storage_class", "cause"],
            registry=registry,
        )
        self._held = Histogram(
            "pvc_prebinder_reservation_hold_seconds",
            "How long reservations were held, by cause of their end.",
            ["cause"],
            buckets=buckets.CSI,
            registry=registry,
        )
        self._conflicts = Counter(
            "pvc_prebinder_write_conflicts_total",
            "Writes that failed because another writer was faster.",
            ["resource", "kind"],
            registry=registry,
        )
        self._garbage = Counter(
            "pvc_prebinder_reservation_parse_errors_total",
            "Annotations with our prefix that could not be read, such as an unknown mode on a StorageClass.",
            ["field"],
            registry=registry,
        )
        self._classes = ClassLabel(self._created, self._releases)
        for cause in Cause:
            self._held.labels(cause)
        for resource, kind in product(("persistentvolumes", "persistentvolumeclaims"), ConflictKind):
            self._conflicts.labels(resource, kind)

    def expect_class(self, storage_class: str) -> None:
        """Start the class's counters at 0."""
        self._classes.expect(storage_class)
        self._created.labels(storage_class)
        for cause in Cause:
            self._releases.labels(storage_class, cause)

    def forget_class(self, storage_class: str) -> None:
        """Drop the series of a class that no longer exists."""
        self._classes.forget(storage_class)

    def reserved(self, storage_class: str) -> None:
        self._created.labels(self._classes.of(storage_class)).inc()

    def released(self, storage_class: str, cause: Cause, held_seconds: float | None) -> None:
        self._releases.labels(self._classes.of(storage_class), cause).inc()
        if held_seconds is not None:
            self._held.labels(cause).observe(held_seconds)

    def conflicted(self, resource: str, kind: ConflictKind) -> None:
        self._conflicts.labels(resource, kind).inc()

    def garbage(self, field: str) -> None:
        self._garbage.labels(field).inc()


class SolverInstruments:
    """Port of binder.solver.solver_process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._failures = Counter(
            "pvc_prebinder_solver_failures_total",
            "Passes with too few volumes in which the solver failed and pods got what they found one by one.",
            ["cause"],
            registry=registry,
        )
        for cause in SolverFailure:
            self._failures.labels(cause)

    def solver_failed(self, cause: SolverFailure) -> None:
        self._failures.labels(cause).inc()
