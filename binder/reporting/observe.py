"""What binder counts. The command binds these ports to its metrics registry.

Label values are bounded: class names, binding modes, the closed vocabularies below; never a pod, claim, volume or node.
`storage_class` is empty for a claim without one.
"""

from enum import StrEnum
from typing import Protocol

from binder.matching.rejection import Reason
from binder.reservation.release import Cause


class ConflictKind(StrEnum):
    """How another writer was faster: the object changed, it was taken, or a claim was found to hold two volumes."""

    RESOURCE_VERSION = "resource_version"
    ALREADY_CLAIMED = "already_claimed"
    DOUBLE_RESERVED = "double_reserved"


class BindMetrics(Protocol):
    """Metrics of claims."""

    def attempted(self, storage_class: str, binding_mode: str, *, success: bool) -> None:
        """Count a claim that was decided on, and whether volumes were reserved for it."""

    def failed(self, storage_class: str, reason: Reason) -> None:
        """Count a claim that got nothing, and why."""

    def reserved_after(self, storage_class: str, binding_mode: str, seconds: float) -> None:
        """Record the time from when a pod was first seen to the reservation of a volume for a claim of it."""

    def bound(self, storage_class: str, binding_mode: str, seconds: float) -> None:
        """Record the time from the first decision about a claim to its being Bound."""


class ReservationMetrics(Protocol):
    """Metrics of reservations."""

    def reserved(self, storage_class: str) -> None:
        """Count a volume that was reserved, or bound at once in mode complete."""

    def released(self, storage_class: str, cause: Cause, held_seconds: float | None) -> None:
        """Count a reservation that ended; None if its beginning is not recorded."""

    def conflicted(self, resource: str, kind: ConflictKind) -> None:
        """Count a write that came too late. `resource` is the plural name of the kind."""

    def garbage(self, field: str) -> None:
        """Count an annotation of ours that could not be parsed. `field` is the key without prefix."""
