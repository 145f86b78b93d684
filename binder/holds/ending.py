"""When a hold ends. Each pass judges every held volume from the objects alone, so that a restart changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from binder.assignment.volume_policy import reject_health
from binder.holds.wanted import replica_of, wanted_replicas
from binder.matching.matching import controller_rejection, scheduler_rejection
from binder.matching.rejection import Reason
from binder.model.view import View
from binder.reservation.pins import Pins, ReplicaHold, may_end, pins_of
from binder.reservation.release import UNUSED_PHASES
from kube.objects.model import Claim, Namespace, Volume
from kube.objects.stateful_set import ResourceQuota, StatefulSet
from kube.persistent_map import Map

KEPT_WITHOUT_SET: Final = timedelta(minutes=10)
"""How long holds outlive their StatefulSet: `kubectl delete --cascade=orphan`, and the set is created again."""


class HoldCause(StrEnum):
    """Why a hold ended. `FULFILLED`: its claim is bound to the volume, or the volume was, so that it holds nothing."""

    FULFILLED = "fulfilled"
    BOUND_ELSEWHERE = "bound_elsewhere"
    CLAIM_MISFITS = "claim_misfits"
    NOT_WANTED = "not_wanted"
    SET_GONE = "set_gone"
    NAMESPACE_GONE = "namespace_gone"
    UNHEALTHY = "unhealthy"
    NO_NODE = "no_node"
    HALF_HELD = "half_held"
    DUPLICATE = "duplicate"
    MALFORMED = "malformed"
    CLAIM_REF_CHANGED = "claim_ref_changed"


@dataclass(frozen=True, slots=True)
class HoldEnding:
    """Remove the annotations of a hold, and the claimRef if `clear`, for which the claim is read again before."""

    volume: Volume
    claim: str
    cause: HoldCause
    clear: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Adoption:
    """The set was created again under its name: record the new one's uid on the volume."""

    volume: Volume
    set_uid: str


@dataclass(frozen=True, slots=True)
class HoldWorld:
    """What holds depend on beside the view. Sets by `namespace/name`, those being deleted left out.

    `missing_since`: uid of a set -> since when no set with this uid is seen.
    """

    sets: Mapping[str, StatefulSet]
    namespaces: Mapping[str, Namespace]
    quotas: tuple[ResourceQuota, ...] = ()
    missing_since: Mapping[str, datetime] = Map()


def judge_hold(volume: Volume, view: View, world: HoldWorld, now: datetime) -> HoldEnding | Adoption | None:
    """Return how a volume's hold ends or goes on under another set; None if it stands as it is."""
    annotations = view.settings.annotations
    pins = pins_of(volume, annotations) or Pins()
    claim = view.snapshot.claims.get(volume.claim.key) if volume.claim is not None else None
    judged = _judged(volume, pins.hold, claim, view, world, now)
    if judged is None or isinstance(judged, Adoption):
        return judged
    key = pins.hold.claim if pins.hold is not None else ""
    return HoldEnding(volume, key, judged[0], may_end(volume, claim, annotations), judged[1])


_Judged = tuple[HoldCause, str]


def _judged(
    volume: Volume, hold: ReplicaHold | None, claim: Claim | None, view: View, world: HoldWorld, now: datetime
) -> _Judged | Adoption | None:
    if hold is None:
        return HoldCause.MALFORMED, ""
    if volume.claim is None or volume.claim.key != hold.claim:
        return HoldCause.CLAIM_REF_CHANGED, ""
    if volume.phase not in UNUSED_PHASES:
        return HoldCause.FULFILLED, ""
    if claim is not None:
        return _with_claim(volume, claim)
    health = reject_health(view, volume, now)
    if health is not None and health.reason is not Reason.HEALTH_UNKNOWN:
        return HoldCause.UNHEALTHY, health.offered
    return _without_claim(volume, hold, view, world, now)


def _with_claim(volume: Volume, claim: Claim) -> _Judged | None:
    """The claim has appeared: the PV controller binds it to the volume that names it, unless it cannot."""
    if claim.volume_name == volume.name:
        return None
    if claim.volume_name:
        return HoldCause.BOUND_ELSEWHERE, f"claim {claim.key} has volume {claim.volume_name}"
    misfit = controller_rejection(claim, volume, delayed=True)
    return None if misfit is None else (HoldCause.CLAIM_MISFITS, f"claim {claim.key}: {misfit}")


def _without_claim(
    volume: Volume, hold: ReplicaHold, view: View, world: HoldWorld, now: datetime
) -> _Judged | Adoption | None:
    """The claim is still to come: the hold stands as long as a set of the name wants it, as it is."""
    namespace = world.namespaces.get(hold.claim.partition("/")[0])
    if namespace is None or namespace.deleting:
        return HoldCause.NAMESPACE_GONE, ""
    formed = replica_of(hold.claim, world.sets)
    wanting = formed if formed is not None and formed[0].uid == hold.set_uid else None
    if hold.set_uid not in {owner.uid for owner in world.sets.values()}:
        if formed is not None:  # Another set of the name has taken its place.
            wanted = _is_wanted(volume, formed, view)
            return Adoption(volume, formed[0].uid) if wanted else (HoldCause.NOT_WANTED, "")
        missing = now - world.missing_since.get(hold.set_uid, now)
        return (HoldCause.SET_GONE, "") if missing >= KEPT_WITHOUT_SET else None
    if wanting is None or not _is_wanted(volume, wanting, view):
        return HoldCause.NOT_WANTED, ""
    return None


def _is_wanted(volume: Volume, formed: tuple[StatefulSet, int, Claim], view: View) -> bool:
    owner, ordinal, claim = formed
    wanted = wanted_replicas(owner, view.settings.annotations)
    fits = scheduler_rejection(claim, volume) is None
    return fits and wanted is not None and ordinal in wanted
