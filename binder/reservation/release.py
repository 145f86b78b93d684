"""When a reservation has to end, and what may be rolled back. Pure.

The safe rule: a claimRef is cleared only while it is ours (the volume records that we wrote it for the claim that it
names, or the attempt that rolls it back wrote it), the volume is neither Bound nor Released, and no claim of that name
names this volume as its own. What Kubernetes completed is never undone.

The considerate rule: while a bind of the volume or of the claim is in progress, a reservation ends only by expiry. The
binder writes volume and claim as it last saw them, so that a write of ours in between makes its next one fail: the PV
controller would start over, with one more of its few requests a second.

Garbage: annotations that a user broke hold nothing. They are removed; the claimRef beside them is removed only if the
record can still be parsed. Otherwise it stays, for it may be an administrator's own, or kube-scheduler's.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from binder.reservation.contract import Annotations, ClaimReservation, VolumeReservation
from kube.objects.model import Claim, Volume
from kube.rules.selectors import node_matches
from kube.store.snapshot import Snapshot

UNUSED_PHASES = frozenset(("", "Pending", "Available"))


class Cause(StrEnum):
    """Why a reservation ended. `BOUND`: it was fulfilled, so that its annotations block nothing."""

    BOUND = "bound"
    EXPIRED = "expired"
    POD_DELETED = "pod_deleted"
    CLAIM_DELETED = "claim_deleted"
    SUPERSEDED = "superseded"
    NODE_GONE = "node_gone"
    LOST = "lost"
    MALFORMED = "malformed"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class Release:
    """Remove the annotations from the claim, then release the volume; None if there is nothing to remove.

    `clear_reference`: the volume's claimRef is ours and is removed too, if the claim, read again, still allows it; also
    of a Released volume if that was `never_bound` in this very version.
    `since` is when the reservation was made, None if that cannot be parsed. `until` is when it ended, if not now.
    """

    cause: Cause
    volume: Volume | None = None
    claim: Claim | None = None
    clear_reference: bool = False
    never_bound: bool = False
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReleaseContext:
    """The input of a release: the cluster, the time, and the prefix of our annotations.

    `never_bound`: the Released volume that is looked at is proven never to have been bound to the claim that it names.
    """

    snapshot: Snapshot
    now: datetime
    annotations: Annotations
    never_bound: bool = False


def release_of_volume(name: str, context: ReleaseContext) -> Release | None:
    """Return the release if the volume's reservation has to end now; None if it stays, or there is none."""
    volume = context.snapshot.volumes.get(name)
    if volume is None or not context.annotations.keys_on_volume(volume):
        return None
    reservation = context.annotations.reservation_of(volume)
    if reservation is None:
        return Release(Cause.MALFORMED, volume, clear_reference=_may_be_cleared(volume, context))
    claim = context.snapshot.claims.get(reservation.claim)
    cause = _cause(volume, reservation, claim, context)
    if cause is None:
        return None
    annotated = claim if claim is not None and _names(claim, name, context.annotations) else None
    clear = cause is not Cause.BOUND and _may_be_cleared(volume, context)
    return Release(cause, volume, annotated, clear, context.never_bound, reservation.bound_at)


def release_of_claim(key: str, context: ReleaseContext) -> Release | None:
    """Return the release if the claim's annotations have to be removed because no volume is held for it any more."""
    claim = context.snapshot.claims.get(key)
    if claim is None or not context.annotations.keys_on_claim(claim):
        return None
    reservation = context.annotations.reservation_of_claim(claim)
    if reservation is None:
        return Release(Cause.MALFORMED, claim=claim)
    volume = context.snapshot.volumes.get(reservation.volume)
    held = context.annotations.reservation_of(volume) if volume is not None else None
    if held is not None and held.is_for(claim):
        return None
    if reservation.in_force(context.now) and _is_being_bound(claim, context.snapshot, reservation.volume):
        return None
    return Release(_cause_on_claim(claim, reservation, context.now), claim=claim, since=reservation.bound_at)


def doubles(claim: Claim, snapshot: Snapshot, annotations: Annotations) -> tuple[Release, ...]:
    """Return the releases that leave the claim with one reserved volume: the one that it is bound to, else the
    oldest.
    """
    held = sorted(_held_for(claim, snapshot, annotations), key=lambda pair: _seniority(claim, *pair))
    return tuple(_given_up(volume, claim, Cause.SUPERSEDED, annotations) for volume, _ in held[1:])


def former_reservations(
    claim: Claim, chosen: Volume, snapshot: Snapshot, annotations: Annotations
) -> tuple[Release, ...]:
    """Return the releases of all that is reserved for the claim but the volume now chosen, oldest last."""
    now = snapshot.claims.get(claim.key, claim)
    held = sorted(_held_for(claim, snapshot, annotations), key=lambda pair: _seniority(now, *pair), reverse=True)
    return tuple(
        _given_up(volume, now, Cause.SUPERSEDED, annotations) for volume, _ in held if volume.name != chosen.name
    )


def take_back(
    name: str, claim: Claim, snapshot: Snapshot, annotations: Annotations, *, written: bool = False
) -> Release | None:
    """Return the release of the volume's reservation for the claim; None if there is none of ours any more, or if it is
    held for a claim recreated under the name: a claimRef without uid would name that one too. A volume that is kept for
    a name is never taken back.

    `written`: the attempt that is rolled back wrote the claimRef, which therefore needs no record.
    """
    volume = snapshot.volumes.get(name)
    if volume is None or annotations.pin_keys(volume):
        return None
    reservation = annotations.reservation_of(volume)
    reserved = reservation is not None and reservation.is_for(claim)
    present = snapshot.claims.get(claim.key, claim)
    if reservation is not None and not reserved and reservation.is_for(present):
        return None
    clear = (written or annotations.claim_ref_is_ours(volume)) and reference_is_ours(volume, claim.key, claim.uid)
    if not reserved and not clear:
        return None
    release = _given_up(volume, present, Cause.LOST, annotations)
    return replace(release, clear_reference=clear)


def expiry_of_volume(name: str, snapshot: Snapshot, annotations: Annotations) -> datetime | None:
    """Return when the volume's reservation expires; None if it has none."""
    volume = snapshot.volumes.get(name)
    reservation = annotations.reservation_of(volume) if volume is not None else None
    return reservation.expires_at if reservation is not None else None


def may_clear(volume: Volume, claim: Claim | None, *, never_bound: bool = False) -> bool:
    """Whether a claimRef known to be ours may be removed, checked with the claim as just read, right before the
    write. `never_bound`: so the volume is proven to be, if it is Released.
    """
    unused = volume.phase in UNUSED_PHASES or (never_bound and volume.phase == "Released")
    return unused and _claim_allows(volume, claim)


def names(volume: Volume, claim: Claim) -> bool:
    """Whether the volume's claimRef names exactly this claim, its uid included."""
    reference = volume.claim
    return reference is not None and (reference.namespace, reference.name, reference.uid) == (
        claim.namespace,
        claim.name,
        claim.uid,
    )


def reference_is_ours(volume: Volume, claim_key: str, claim_uid: str) -> bool:
    """Whether the volume's claimRef names that claim and has had no effect yet."""
    reference = volume.claim
    if reference is None or volume.phase not in UNUSED_PHASES:
        return False
    return reference.key == claim_key and reference.uid in {"", claim_uid}


def _given_up(volume: Volume, claim: Claim, cause: Cause, annotations: Annotations) -> Release:
    reservation = annotations.reservation_of(volume)
    return Release(
        cause,
        volume,
        claim if _names(claim, volume.name, annotations) else None,
        annotations.claim_ref_is_ours(volume) and may_clear(volume, claim),
        since=reservation.bound_at if reservation is not None else None,
    )


def _cause(
    volume: Volume, reservation: VolumeReservation, claim: Claim | None, context: ReleaseContext
) -> Cause | None:
    """Return the most specific cause; the order is from what is final to what may change again."""
    if claim is None or claim.uid != reservation.claim_uid or claim.deleting:
        return Cause.CLAIM_DELETED
    if reservation.in_force(context.now) and _is_under_way(volume, claim, context.snapshot):
        return None
    if claim.volume_name == volume.name and _bound(claim, volume):
        return Cause.BOUND
    if claim.volume_name not in {"", volume.name} or _taken_by_other(volume, reservation):
        return Cause.LOST
    if not reservation.in_force(context.now):
        return Cause.EXPIRED
    if claim.volume_name:
        return None
    if any(double.volume == volume for double in doubles(claim, context.snapshot, context.annotations)):
        return Cause.SUPERSEDED
    if not _has_consumer(claim, context.snapshot):
        return Cause.POD_DELETED
    if _reachable(volume, claim, context) or _is_ahead_of_node(volume, claim, context):
        return None
    return Cause.NODE_GONE


def _is_ahead_of_node(volume: Volume, claim: Claim, context: ReleaseContext) -> bool:
    """Whether the volume was committed for a node that does not exist yet, to a pod that still uses the claim."""
    users = (context.snapshot.pods[key] for key in context.snapshot.pods_by_claim.get(claim.key, ()))
    return any(context.annotations.awaits_node_since(volume, user) is not None for user in users)


def _cause_on_claim(claim: Claim, reservation: ClaimReservation, now: datetime) -> Cause:
    if claim.volume_name == reservation.volume:
        return Cause.BOUND
    return Cause.LOST if reservation.in_force(now) else Cause.EXPIRED


def _bound(claim: Claim, volume: Volume) -> bool:
    return volume.phase == "Bound" and claim.bind_completed


def _is_under_way(volume: Volume, claim: Claim, snapshot: Snapshot) -> bool:
    """Whether a bind of the claim, or of the volume to another claim, is in progress."""
    reference = volume.claim
    other = snapshot.claims.get(reference.key) if reference is not None and reference.uid else None
    given_away = other is not None and other.key != claim.key and names(volume, other)
    return (given_away and volume.phase in UNUSED_PHASES) or _is_being_bound(claim, snapshot, volume.name)


def _is_being_bound(claim: Claim, snapshot: Snapshot, reserved: str) -> bool:
    """Whether the claim's status is still to be written, or another volume than the reserved one names the claim."""
    if claim.volume_name:
        return claim.bind_completed and not claim.bind_finished
    others = snapshot.volumes_by_claim.get(claim.key, ())
    return any(name != reserved and names(snapshot.volumes[name], claim) for name in others)


def _taken_by_other(volume: Volume, reservation: VolumeReservation) -> bool:
    reference = volume.claim
    if volume.deleting or volume.phase == "Failed":
        return True
    if reference is None:
        return False
    named = reference.key == reservation.claim
    return not named or reference.uid not in {"", reservation.claim_uid}


def _claim_allows(volume: Volume, claim: Claim | None) -> bool:
    """Whether no claim of that name, this one or a recreated one, names the volume as its own.

    A claim with bind-completed and no volume does not count: the PV controller writes both in one update, and considers
    such a claim Lost (syncBoundClaim in pv_controller.go).
    """
    return claim is None or claim.volume_name != volume.name


def _may_be_cleared(volume: Volume, context: ReleaseContext) -> bool:
    if volume.claim is None or not context.annotations.claim_ref_is_ours(volume):
        return False
    return may_clear(volume, context.snapshot.claims.get(volume.claim.key), never_bound=context.never_bound)


def _names(claim: Claim, volume_name: str, annotations: Annotations) -> bool:
    reservation = annotations.reservation_of_claim(claim)
    return reservation is not None and reservation.volume == volume_name


def _held_for(claim: Claim, snapshot: Snapshot, annotations: Annotations) -> Iterator[tuple[Volume, VolumeReservation]]:
    for name in snapshot.volumes_reserved_for.get(claim.key, ()):
        volume = snapshot.volumes[name]
        reservation = annotations.reservation_of(volume)
        if reservation is not None and reservation.is_for(claim):
            yield volume, reservation


def _seniority(claim: Claim, volume: Volume, reservation: VolumeReservation) -> tuple[object, ...]:
    return volume.name != claim.volume_name, volume.phase != "Bound", reservation.bound_at, volume.name


def _has_consumer(claim: Claim, snapshot: Snapshot) -> bool:
    pods = (snapshot.pods.get(key) for key in snapshot.pods_by_claim.get(claim.key, ()))
    return any(pod is not None and not pod.finished and not pod.deleting for pod in pods)


def _reachable(volume: Volume, claim: Claim, context: ReleaseContext) -> bool:
    """Whether a node is left from which the volume is accessible. The nodes named on the claim avoid a search."""
    reservation = context.annotations.held_for(claim, context.snapshot)
    if volume.node_affinity is None or any(
        node in context.snapshot.nodes for node in (reservation.nodes if reservation else ())
    ):
        return True
    return any(node_matches(volume.node_affinity, dict(node.labels)) for node in context.snapshot.nodes.values())
