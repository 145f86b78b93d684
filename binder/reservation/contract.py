"""The reservation contract: annotations that binder writes and the scheduler module reads.

One key per fact, under a configurable prefix. Times are RFC 3339 in UTC. Unknown keys are ignored; a value that cannot
be parsed counts as absent and is named, so that the caller can count it. A reservation that lacks a required key is
none: half of a promise must not hold a volume for ever.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

from kube.objects.model import Claim, Pairs, Pod, Volume, value_of

DEFAULT_PREFIX: Final = "scheduler.cloud.example/"

BOUND_AT: Final = "bound-at"
EXPIRES_AT: Final = "expires-at"
RESERVED_FOR: Final = "reserved-for"
RESERVED_FOR_UID: Final = "reserved-for-uid"
RESERVED_BY: Final = "reserved-by"
CLAIM_REF: Final = "claim-ref"
"""On a volume: the claim for which we wrote its claimRef. Without it a claimRef is somebody else's."""
RESERVED_VOLUME: Final = "reserved-volume"
RESERVED_ZONE: Final = "reserved-zone"
RESERVED_NODES: Final = "reserved-nodes"
MODE: Final = "mode"
"""On a StorageClass: how far we go for claims of the class (binder.model.decision.Mode)."""

GATE: Final = "volumes"
"""On a Pod, as the name of a scheduling gate: do not schedule it before its volumes are held."""

_REQUIRED: Final = (RESERVED_FOR, RESERVED_FOR_UID, BOUND_AT, EXPIRES_AT, RESERVED_BY)
_VOLUME_KEYS: Final = (*_REQUIRED, CLAIM_REF)
_CLAIM_KEYS: Final = (RESERVED_VOLUME, BOUND_AT, EXPIRES_AT, RESERVED_ZONE, RESERVED_NODES)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who reserved: the lease holder's identity and the lease's transition number at that moment."""

    identity: str
    transition: int

    def __str__(self) -> str:
        return f"{self.identity}/{self.transition}"


@dataclass(frozen=True, slots=True)
class VolumeReservation:
    """What a volume says: for which claim (key and uid) it is held, since when, until when, and by whom."""

    claim: str
    claim_uid: str
    bound_at: datetime
    expires_at: datetime
    holder: Holder

    def is_for(self, claim: Claim) -> bool:
        """Whether it names exactly this claim, not an earlier one of the same name, in force or not."""
        return self.claim == claim.key and self.claim_uid == claim.uid

    def in_force(self, now: datetime) -> bool:
        """Whether it holds the volume for anybody now; one that is not counts as absent."""
        return _is_in_force(self.bound_at, self.expires_at, now)

    def holds(self, now: datetime, claim: Claim) -> bool:
        """Whether it holds the volume for this claim now."""
        return self.is_for(claim) and self.in_force(now)

    def excludes(self, now: datetime, *claims: Claim) -> bool:
        """Whether it keeps the volume from all of these claims now."""
        return self.in_force(now) and not any(map(self.is_for, claims))


@dataclass(frozen=True, slots=True)
class ClaimReservation:
    """What a claim says: which volume is held for it, its zone, and the nodes that alone reach it when it is local.

    `zone` is empty when the volume belongs to no zone, `nodes` when it is not local.
    """

    volume: str
    bound_at: datetime
    expires_at: datetime
    zone: str = ""
    nodes: tuple[str, ...] = ()

    def in_force(self, now: datetime) -> bool:
        """Whether it promises the volume now; one that is not counts as absent."""
        return _is_in_force(self.bound_at, self.expires_at, now)


R = TypeVar("R", VolumeReservation, ClaimReservation)


@dataclass(frozen=True, slots=True)
class Parsed(Generic[R]):
    """A reservation, or None, and the keys (without prefix) whose values were unparsable or missing beside others.

    Nothing reserved at all is `Parsed(None, ())`; `garbage` without a reservation is a broken one.
    """

    reservation: R | None
    garbage: tuple[str, ...] = ()


def volume_reservation(annotations: Pairs, prefix: str = DEFAULT_PREFIX) -> Parsed[VolumeReservation]:
    """Read the reservation off a volume's annotations."""
    found = _found(annotations, _VOLUME_KEYS, prefix)
    if not found:
        return Parsed(None)
    claim, holder = _claim_key(found.get(RESERVED_FOR)), _holder(found.get(RESERVED_BY))
    bound_at, expires_at = parse_time(found.get(BOUND_AT)), parse_time(found.get(EXPIRES_AT))
    uid = found.get(RESERVED_FOR_UID) or None
    if claim and uid and bound_at and expires_at and holder:
        return Parsed(VolumeReservation(claim, uid, bound_at, expires_at, holder))
    values = zip(_REQUIRED, (claim, uid, bound_at, expires_at, holder), strict=True)
    return Parsed(None, tuple(key for key, value in values if value is None))


def claim_reservation(annotations: Pairs, prefix: str = DEFAULT_PREFIX) -> Parsed[ClaimReservation]:
    """Read the reservation off a claim's annotations."""
    found = _found(annotations, _CLAIM_KEYS, prefix)
    if not found:
        return Parsed(None)
    volume = found.get(RESERVED_VOLUME) or None
    bound_at, expires_at = parse_time(found.get(BOUND_AT)), parse_time(found.get(EXPIRES_AT))
    if volume and bound_at and expires_at:
        nodes = tuple(node for node in found.get(RESERVED_NODES, "").split(",") if node)
        return Parsed(ClaimReservation(volume, bound_at, expires_at, found.get(RESERVED_ZONE, ""), nodes))
    values = zip((RESERVED_VOLUME, BOUND_AT, EXPIRES_AT), (volume, bound_at, expires_at), strict=True)
    return Parsed(None, tuple(key for key, value in values if value is None))


def reservation_of(volume: Volume, prefix: str = DEFAULT_PREFIX) -> VolumeReservation | None:
    """Return the volume's reservation if it has a whole one, expired or not."""
    return volume_reservation(volume.annotations, prefix).reservation if volume.annotations else None


def reservation_of_claim(claim: Claim, prefix: str = DEFAULT_PREFIX) -> ClaimReservation | None:
    """Return the claim's reservation if it has a whole one, expired or not."""
    return claim_reservation(claim.annotations, prefix).reservation if claim.annotations else None


def claim_ref_record(claim: Claim, prefix: str = DEFAULT_PREFIX) -> dict[str, str]:
    """Return the annotation that says of a claimRef, in the write that makes it, that it is ours."""
    return {prefix + CLAIM_REF: f"{claim.key}/{claim.uid}"}


def claim_ref_is_ours(volume: Volume, prefix: str = DEFAULT_PREFIX) -> bool:
    """Whether the claimRef that the volume has is one that we wrote, as far as it still names the same claim."""
    reference = volume.claim
    if reference is None:
        return False
    written, named = value_of(volume.annotations, prefix + CLAIM_REF) or "", f"{reference.key}/"
    return written == named + reference.uid if reference.uid else written.startswith(named)


def gate_name(prefix: str = DEFAULT_PREFIX) -> str:
    """Return the name of our scheduling gate."""
    return prefix + GATE


def carries_gate(pod: Pod, prefix: str = DEFAULT_PREFIX) -> bool:
    """Whether the pod waits for us before kube-scheduler may look at it."""
    return gate_name(prefix) in pod.scheduling_gates


def other_gates(pod: Pod, prefix: str = DEFAULT_PREFIX) -> tuple[str, ...]:
    """Return the gates that somebody else has to lift."""
    return tuple(gate for gate in pod.scheduling_gates if gate != gate_name(prefix))


def volume_annotations(reservation: VolumeReservation, prefix: str = DEFAULT_PREFIX) -> dict[str, str]:
    """Return the annotations that say it on the volume."""
    return _prefixed(
        {
            RESERVED_FOR: reservation.claim,
            RESERVED_FOR_UID: reservation.claim_uid,
            BOUND_AT: format_time(reservation.bound_at),
            EXPIRES_AT: format_time(reservation.expires_at),
            RESERVED_BY: str(reservation.holder),
        },
        prefix,
    )


def claim_annotations(reservation: ClaimReservation, prefix: str = DEFAULT_PREFIX) -> dict[str, str | None]:
    """Return the annotations that say it on the claim; None removes a key an earlier reservation may have left."""
    return _prefixed(
        {
            RESERVED_VOLUME: reservation.volume,
            BOUND_AT: format_time(reservation.bound_at),
            EXPIRES_AT: format_time(reservation.expires_at),
            RESERVED_ZONE: reservation.zone or None,
            RESERVED_NODES: ",".join(reservation.nodes) or None,
        },
        prefix,
    )


def volume_keys_present(annotations: Pairs, prefix: str = DEFAULT_PREFIX) -> tuple[str, ...]:
    """Return the full keys of a reservation, broken or whole, that a volume carries."""
    return _present(annotations, _VOLUME_KEYS, prefix)


def claim_keys_present(annotations: Pairs, prefix: str = DEFAULT_PREFIX) -> tuple[str, ...]:
    """Return the full keys of a reservation, broken or whole, that a claim carries."""
    return _present(annotations, _CLAIM_KEYS, prefix)


def format_time(moment: datetime) -> str:
    """Write a moment as RFC 3339 in UTC with seconds, as Kubernetes does."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def parse_time(text: str | None) -> datetime | None:
    """Read an RFC 3339 moment with its offset; None when it is not one."""
    try:
        moment = datetime.fromisoformat(text or "")
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _is_in_force(begin: datetime, end: datetime, now: datetime) -> bool:
    """Whether the time from begin to end is not over, nor so far ahead that the clock was set back since.

    Clocks of replicas differ, so being ahead is no reason by itself; but nothing lasts twice as long as it was to.
    """
    return now < end and begin - now <= end - begin


V = TypeVar("V", str, str | None)


def _prefixed(values: Mapping[str, V], prefix: str) -> dict[str, V]:
    return {prefix + key: value for key, value in values.items()}


def _found(annotations: Pairs, keys: Container[str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in annotations
        if name.startswith(prefix) and name.removeprefix(prefix) in keys
    }


def _present(annotations: Pairs, keys: Container[str], prefix: str) -> tuple[str, ...]:
    return tuple(prefix + key for key in _found(annotations, keys, prefix))


def _claim_key(text: str | None) -> str | None:
    namespace, slash, name = (text or "").partition("/")
    return text if namespace and slash and name and "/" not in name else None


def _holder(text: str | None) -> Holder | None:
    identity, slash, transition = (text or "").rpartition("/")
    numeric = transition.isdecimal() and len(transition) < 19
    return Holder(identity, int(transition)) if identity and slash and numeric else None
