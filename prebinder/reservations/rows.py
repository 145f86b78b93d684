"""The rows of `pvc-prebinder reservations list`. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from binder.model.decision import Mode
from binder.reservation.contract import Annotations, VolumeReservation, format_time
from binder.reservation.pins import Pins, pins_of
from kube.objects.model import Volume, value_of
from kube.rules.duration import age_text
from kube.rules.topology import volume_zone
from kube.store.snapshot import Snapshot

HEADERS: Final = (
    "VOLUME",
    "CLAIM",
    "POD",
    "MODE",
    "ZONE",
    "NODE",
    "SINCE",
    "EXPIRES",
    "HOLDER",
    "HEALTH",
    "STATUS",
)
_SHOWN_NODES: Final = 2
_BOUND: Final = "Bound"


class Status(StrEnum):
    """What became of a reservation. `GONE` is one that was listed before and is no longer on its volume.

    The next three have no end: held for a replica to come, to replace another volume, and replaced by another one.
    """

    HELD = "Held"
    FOR_REPLICA = "HeldForReplica"
    REPLACING = "Replacing"
    KEPT = "Kept"
    BOUND = "Bound"
    EXPIRED = "Expired"
    INVALID = "Invalid"
    GONE = "Gone"


@dataclass(frozen=True, slots=True)
class ReservationRow:
    """A reservation as it is on its volume. Times are None where the annotations cannot be read.

    `mode` is what was written: annotate without a claimRef, prebind with a claimRef that is recorded as the
    controller's, complete with one that is the bind itself. `pods` are the pods that use the claim now.
    """

    volume: str
    claim: str
    pods: tuple[str, ...]
    mode: Mode
    zone: str
    nodes: tuple[str, ...]
    since: datetime | None
    expires: datetime | None
    holder: str
    health: str
    status: Status

    def cells(self, now: datetime) -> Sequence[str]:
        """Return the texts below HEADERS."""
        more = len(self.nodes) - _SHOWN_NODES
        return (
            self.volume,
            self.claim,
            ", ".join(pod.partition("/")[2] for pod in self.pods),
            str(self.mode),
            self.zone,
            ", ".join(self.nodes[:_SHOWN_NODES]) + (f" and {more} more" if more > 0 else ""),
            age_text(now - self.since) if self.since else "",
            self._expiry(now),
            self.holder,
            self.health,
            str(self.status),
        )

    def document(self) -> dict[str, Any]:
        """Return it for JSON and YAML; what is unknown is null."""
        facts = asdict(self) | {
            "pods": list(self.pods),
            "nodes": list(self.nodes),
            "mode": str(self.mode),
            "status": str(self.status),
            "since": format_time(self.since) if self.since else None,
            "expires": format_time(self.expires) if self.expires else None,
        }
        return {name: None if value == "" else value for name, value in facts.items()}

    def gone(self) -> "ReservationRow":
        return replace(self, status=Status.GONE)

    def _expiry(self, now: datetime) -> str:
        if self.expires is None or self.status is Status.BOUND:
            return ""
        left = self.expires - now
        return f"in {age_text(left)}" if left.total_seconds() > 0 else f"{age_text(-left)} ago"


def reservation_rows(
    snapshot: Snapshot, annotations: Annotations, health: dict[str, str], now: datetime, namespace: str = ""
) -> Iterator[ReservationRow]:
    """Yield a row for each volume with a reservation, valid or not, by volume; with a namespace only its claims'.

    `health` is what is known about a volume's health, by name.
    """
    for name, volume in sorted(snapshot.volumes.items()):
        if not is_listed(volume, annotations):
            continue
        pins = pins_of(volume, annotations)
        known = health.get(name, "")
        row = (
            _row(volume, snapshot, annotations, known, now)
            if pins is None
            else _pinned_row(volume, pins, snapshot, known)
        )
        if not namespace or row.claim.startswith(f"{namespace}/"):
            yield row


def is_listed(volume: Volume, annotations: Annotations) -> bool:
    """Whether the volume has a row: it carries a reservation, or is kept for a name."""
    return bool(annotations.keys_on_volume(volume) or annotations.pin_keys(volume))


def _pinned_row(volume: Volume, pins: Pins, snapshot: Snapshot, health: str) -> ReservationRow:
    return ReservationRow(
        volume=volume.name,
        claim=pins.claim,
        pods=tuple(sorted(snapshot.pods_by_claim.get(pins.claim, ()))),
        mode=Mode.PREBIND,
        zone=volume_zone(volume),
        nodes=(),
        since=None,
        expires=None,
        holder=str(pins.hold.holder) if pins.hold is not None else "",
        health=health,
        status=_status_of_pins(volume, pins),
    )


def _status_of_pins(volume: Volume, pins: Pins) -> Status:
    if pins.garbage:
        return Status.INVALID
    if volume.phase == _BOUND:
        return Status.BOUND
    if pins.hold is not None:
        return Status.FOR_REPLICA
    return Status.REPLACING if pins.replacement is not None else Status.KEPT


def _row(volume: Volume, snapshot: Snapshot, annotations: Annotations, health: str, now: datetime) -> ReservationRow:
    kept = annotations.reservation_of(volume)
    claim = kept.claim if kept is not None else value_of(volume.annotations, annotations.reserved_for) or ""
    on_claim = annotations.reservation_of_claim(snapshot.claims[claim]) if claim in snapshot.claims else None
    # Only mode prebind writes the place on the volume; a claim's annotations count if they name this volume.
    place = on_claim if on_claim is not None and on_claim.volume == volume.name else kept
    return ReservationRow(
        volume=volume.name,
        claim=claim,
        pods=tuple(sorted(snapshot.pods_by_claim.get(claim, ()))),
        mode=_mode(volume, annotations),
        zone=place.zone if place is not None else "",
        nodes=place.nodes if place is not None else (),
        since=kept.bound_at if kept is not None else None,
        expires=kept.expires_at if kept is not None else None,
        holder=str(kept.holder) if kept is not None else "",
        health=health,
        status=_status(volume, kept, now),
    )


def _mode(volume: Volume, annotations: Annotations) -> Mode:
    if volume.claim is None:
        return Mode.ANNOTATE
    return Mode.PREBIND if annotations.claim_ref_is_ours(volume) else Mode.COMPLETE


def _status(volume: Volume, kept: VolumeReservation | None, now: datetime) -> Status:
    if volume.phase == _BOUND:
        return Status.BOUND
    if kept is None:
        return Status.INVALID
    return Status.HELD if kept.in_force(now) else Status.EXPIRED
