"""What the controllers count of claims and reservations.

Label values are bounded: existing classes, binding modes, closed vocabularies; never a pod, claim, volume or node.
`storage_class` is empty for a claim without one.
"""

from enum import StrEnum
from itertools import product
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics import MetricWrapperBase

from binder.matching.rejection import Reason
from binder.reservation.release import Cause
from kube.metrics import CSI, SCHEDULING

OTHER: Final = "other"
"""Stands for all classes without a StorageClass."""


class ClassLabel:
    """Bounds the label `storage_class` of some metrics to existing StorageClasses, which only administrators create.

    A claim may name any class, in up to 4,000 characters.

    Their series are dropped with the class; one that is created again starts at 0.
    """

    def __init__(self, *metrics: MetricWrapperBase) -> None:
        self._metrics = metrics
        self._known: set[str] = set()

    def expect(self, storage_class: str) -> None:
        """The StorageClass exists."""
        self._known.add(storage_class)

    def forget(self, storage_class: str) -> None:
        """The StorageClass was deleted."""
        self._known.discard(storage_class)
        for metric in self._metrics:
            metric.remove_by_labels({"storage_class": storage_class})

    def of(self, storage_class: str) -> str:
        """Return the label's value for a claim's class; empty for a claim without one."""
        return storage_class if not storage_class or storage_class in self._known else OTHER


class ConflictKind(StrEnum):
    """How another writer was faster: the object changed, it was taken, or a claim was found to hold two volumes."""

    RESOURCE_VERSION = "resource_version"
    ALREADY_CLAIMED = "already_claimed"
    DOUBLE_RESERVED = "double_reserved"


class BindingMetrics:
    """Decisions about claims, and their results. `dry_run` tells whether the counted writes were only simulated."""

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
            buckets=CSI,
            registry=registry,
        )
        self._reserved = Histogram(
            "pvc_prebinder_reservation_duration_seconds",
            "Time from when a pod was first seen to the reservation of a claim's volume; success only.",
            ["storage_class", "binding_mode"],
            buckets=SCHEDULING,
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
        """Count a claim that was decided on, and whether volumes were reserved for it."""
        result = "success" if success else "failure"
        self._attempts.labels(self._classes.of(storage_class), binding_mode, result, self._dry_run).inc()

    def failed(self, storage_class: str, reason: Reason) -> None:
        """Count a claim that got nothing, and why."""
        self._failures.labels(self._classes.of(storage_class), reason).inc()

    def reserved_after(self, storage_class: str, binding_mode: str, seconds: float) -> None:
        """Record the time from when a pod was first seen to the reservation of a volume for a claim of it."""
        self._reserved.labels(self._classes.of(storage_class), binding_mode).observe(seconds)

    def bound(self, storage_class: str, binding_mode: str, seconds: float) -> None:
        """Record the time from the first decision about a claim to its being Bound."""
        self._seconds.labels(self._classes.of(storage_class), binding_mode).observe(seconds)


class ReservationMetrics:
    """Reservations made and ended, and what came in between."""

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
            buckets=CSI,
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
        """Count a volume that was reserved, or bound at once in mode complete."""
        self._created.labels(self._classes.of(storage_class)).inc()

    def released(self, storage_class: str, cause: Cause, held_seconds: float | None) -> None:
        """Count a reservation that ended; None if its beginning is not recorded."""
        self._releases.labels(self._classes.of(storage_class), cause).inc()
        if held_seconds is not None:
            self._held.labels(cause).observe(held_seconds)

    def conflicted(self, resource: str, kind: ConflictKind) -> None:
        """Count a write that came too late. `resource` is the plural name of the kind."""
        self._conflicts.labels(resource, kind).inc()

    def garbage(self, field: str) -> None:
        """Count an annotation of ours that could not be parsed. `field` is the key without prefix."""
        self._garbage.labels(field).inc()
