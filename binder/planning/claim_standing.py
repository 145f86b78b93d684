"""Where a claim of a pod stands: it has its volume, it is to be planned for, or it is left alone; or its pod waits.

The order of the checks is kube-scheduler's (volumebinding PreFilter): a pod whose claims are missing, lost or left to
the PV controller is not delayed by us, and not served by us either.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from binder.assignment.volume_policy import reject_use
from binder.matching.claim_state import ClaimState, claim_state, state_rejection
from binder.matching.controller_match import committed_volume
from binder.matching.evidence import quantity_text
from binder.matching.matching import (
    class_of,
    controller_rejection,
    is_mine,
    requested_rejection,
    scheduler_rejection,
    selector_too_large,
)
from binder.matching.rejection import Reason, Rejection
from binder.model.decision import Mode, Reject, Wait
from binder.model.ledger import Hold
from binder.model.source_snapshot import SourceSnapshot
from binder.model.view import PlanSettings, View
from binder.reservation.contract import Annotations
from binder.reservation.set_aside import as_offered, set_aside_for, set_aside_keys
from kube.objects.model import (
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    Claim,
    Pod,
    StorageClass,
    Volume,
    value_of,
)
from kube.rules.quantity import NANO, whole_units

_ONE_WRITE: Final = timedelta(seconds=1)
"""When to retry while something is being written for another pod, if its end is not seen before."""

_UNUSABLE: Final = frozenset({ClaimState.LOST, ClaimState.DELETING, ClaimState.NOT_OWNED})

_LEFT_TO_PV_CONTROLLER: Final[Mapping[ClaimState, Reason]] = {
    ClaimState.CLASS_MISSING: Reason.CLASS_NOT_FOUND,
    ClaimState.MODE_MISSING: Reason.BINDING_MODE_MISSING,
    ClaimState.IMMEDIATE: Reason.IMMEDIATE_CLAIM,
}


@dataclass(frozen=True, slots=True)
class Anchor:
    """A claim that has its volume, or a reservation of it that holds until `until` (None: permanently).

    `begun` is the claim if its bind has begun and mode complete applies to it.
    """

    volume: Volume
    bound: bool = False
    until: datetime | None = None
    begun: Claim | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """A claim to plan for."""

    claim: Claim
    mode: Mode
    optional: bool = False
    pin: str = ""
    node: str | None = None


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A claim that is not handled, and why; the pod's other claims are still planned.

    `node` is the one for which its volume is being provisioned, if kube-scheduler has selected one.
    """

    claim: Claim
    reason: Reason
    node: str | None = None


@dataclass(frozen=True, slots=True)
class Hinted:
    """A claim for which a volume is reserved by annotations only: enough, unless the volume may now be committed."""

    anchor: Anchor
    claim: Open


@dataclass(frozen=True, slots=True)
class Made:
    """A claim of a class in mode provision: its volume is to be made, is being made for `node`, or was made and is not
    bound yet. `original` is the volume of which it is to be a copy, `source_node` the only node where its snapshot is.
    """

    claim: Claim
    node: str = ""
    volume: Volume | None = None
    original: Volume | None = None
    source_node: str = ""


Standing = Anchor | Open | Hinted | LeftAlone | Made


def standing_of(view: View, pod: Pod, key: str, now: datetime, *, owned: bool) -> Standing | Wait | Reject:
    """Return where the pod's claim of that key stands, or why the whole pod waits or is rejected because of it.

    `owned`: the claim belongs to an ephemeral volume of the pod.
    """
    claim = view.snapshot.claims.get(key)
    if claim is None:
        return Wait(pod, Reason.CLAIM_NOT_FOUND)
    state = claim_state(claim, view.snapshot.classes, pod.uid if owned else "")
    if state in _UNUSABLE and (rejection := state_rejection(key, claim, state)) is not None:
        return Reject(pod, rejection.reason, (rejection,))
    if claim.volume_name:
        return _named(view, pod, claim)
    return _unbound(view, pod, claim, state, now)


def mode_of(storage_class: StorageClass, settings: PlanSettings) -> Mode:
    """Return the mode for claims of a class; an unknown value, or one that is not for such classes, counts as none."""
    word = value_of(storage_class.annotations, settings.annotations.mode)
    modes = _modes(storage_class) if settings.provision else _modes(storage_class) - {Mode.PROVISION}
    if word is not None and word in modes:
        return Mode(word)
    dynamic = settings.dynamic_mode if storage_class.provisions else None
    return dynamic if dynamic is not None and dynamic in modes else settings.default_mode


def unknown_mode(storage_class: StorageClass, annotations: Annotations) -> str | None:
    """Return the class's value that is not a mode for it; None if it has none, or a valid one."""
    word = value_of(storage_class.annotations, annotations.mode)
    return None if word in _modes(storage_class) else word


def _modes(storage_class: StorageClass) -> Set[str]:
    return set(Mode) if storage_class.provisions else set(Mode) - {Mode.PROVISION}


def _named(view: View, pod: Pod, claim: Claim) -> Standing | Wait | Reject:
    """A claim with spec.volumeName: bound, or requesting one volume, which only the PV controller can grant."""
    volume = view.snapshot.volumes.get(claim.volume_name)
    if volume is None:
        return Wait(pod, Reason.REQUESTED_VOLUME_MISSING)
    if claim.bind_completed:
        return Anchor(volume, bound=True, begun=claim if _is_ours_to_finish(view, claim, volume) else None)
    reason = requested_rejection(claim, volume)
    if reason is None:
        return Wait(pod, Reason.IMMEDIATE_CLAIM)
    evidence = Rejection(reason, volume.name, f"a volume that matches claim {claim.key}, which names it", str(reason))
    return Reject(pod, Reason.REQUESTED_VOLUME_MISMATCH, (evidence,))


def _unbound(view: View, pod: Pod, claim: Claim, state: ClaimState, now: datetime) -> Standing | Wait | Reject:
    if state in _LEFT_TO_PV_CONTROLLER:
        return Wait(pod, _LEFT_TO_PV_CONTROLLER[state])
    storage_class = view.snapshot.classes[class_of(claim)]
    unread = selector_too_large(claim)
    if unread is not None and mode_of(storage_class, view.settings) is not Mode.OFF:
        return Reject(pod, unread.reason, (unread,))
    if state is not ClaimState.HALF_BOUND and mode_of(storage_class, view.settings) is Mode.PROVISION:
        return _made(view, pod, claim)
    return (
        _being_written(view, pod, claim, now) or _committed(view, pod, claim) or _free(view, claim, storage_class, now)
    )


def _made(view: View, pod: Pod, claim: Claim) -> Made | Anchor | LeftAlone | Reject:
    """A claim in mode provision. A volume that names it was made for it, or reserved by a user."""
    node = value_of(claim.annotations, SELECTED_NODE) or view.ledger.node_of(claim.key, claim.uid)
    committed = _committed(view, pod, claim)
    if isinstance(committed, Reject):
        return committed
    # No provisioner makes a volume for a selector, and what fills one from an object looks at the claim itself.
    snapshot = view.sources.get(f"{claim.namespace}/{claim.snapshot}") if claim.snapshot else None
    is_left = claim.selector is not None or (claim.has_data_source and not claim.clone_of and snapshot is None)
    if is_left or pod.node_name or not view.settings.annotations.carries_gate(pod):
        return committed or LeftAlone(claim, Reason.DYNAMIC_CLASS, node or None)
    if committed is not None:
        return Made(claim, node, committed.volume)
    original = _original(view, claim)
    problem = original if isinstance(original, Rejection) else _snapshot_problem(claim, snapshot)
    if problem is not None and not node:
        return Reject(pod, problem.reason, (problem,))
    return Made(
        claim,
        node,
        original=original if isinstance(original, Volume) else None,
        source_node=snapshot.node if snapshot is not None else "",
    )


def _snapshot_problem(claim: Claim, snapshot: SourceSnapshot | None) -> Rejection | None:
    """Return why no volume can be filled from the claim's snapshot yet, or one of its size cannot be."""
    if snapshot is None:
        return None
    if not snapshot.problem and snapshot.least <= whole_units(claim.request):
        return None
    wanted = f"a usable VolumeSnapshot {claim.snapshot}"
    least, requested = quantity_text(snapshot.least * NANO), quantity_text(claim.request)
    offered = snapshot.problem or f"one that needs {least}, and {requested} requested"
    return Rejection(Reason.DATA_SOURCE_NOT_READY, claim.key, wanted, offered)


def _original(view: View, claim: Claim) -> Volume | Rejection | None:
    """Return the volume that is to be copied, or why it cannot be yet; None for a volume without data.

    Source: getPVCSource in external-provisioner's controller.go, which demands a Bound claim.
    """
    if not claim.clone_of:
        return None
    source = view.snapshot.claims.get(f"{claim.namespace}/{claim.clone_of}")
    volume = view.snapshot.volumes.get(source.volume_name) if source is not None and source.bind_finished else None
    if volume is not None:
        return volume
    offered = "no such claim" if source is None else f"a claim that is {source.phase}"
    return Rejection(Reason.DATA_SOURCE_NOT_READY, claim.key, f"a Bound claim {claim.clone_of} to copy", offered)


def _committed(view: View, pod: Pod, claim: Claim) -> Anchor | Reject | None:
    """Return the volume that is committed to the claim; if there are several, the one that the PV controller binds.

    One that it will not bind to the claim, such as one that is too small, does not count.
    """
    names = sorted(view.snapshot.volumes_by_claim.get(claim.key, ()))
    volumes = [volume for volume in (view.snapshot.volumes[name] for name in names) if is_mine(claim, volume)]
    if not volumes:
        return None
    chosen = committed_volume(claim, view.snapshot.classes, volumes)
    if chosen is not None:
        begun = len(volumes) == 1 and _is_ours_to_finish(view, claim, chosen)
        return Anchor(chosen, begun=claim if begun else None)
    reasons = ((volume.name, controller_rejection(claim, volume, delayed=True)) for volume in volumes)
    wanted = f"a volume that matches claim {claim.key}, which it names"
    evidence = tuple(Rejection(reason, name, wanted, str(reason)) for name, reason in reasons if reason is not None)
    return Reject(pod, Reason.REQUESTED_VOLUME_MISMATCH, evidence)


def _is_ours_to_finish(view: View, claim: Claim, volume: Volume) -> bool:
    """Whether mode complete applies to a bind that has begun. A claim that is being provisioned is left alone."""
    storage_class = view.snapshot.classes.get(class_of(claim))
    if storage_class is None or storage_class.binding_mode != WAIT_FOR_FIRST_CONSUMER or claim.phase != "Pending":
        return False
    if storage_class.provisions and value_of(claim.annotations, SELECTED_NODE):
        return False
    return is_mine(claim, volume) and mode_of(storage_class, view.settings) is Mode.COMPLETE


def _being_written(view: View, pod: Pod, claim: Claim, now: datetime) -> Anchor | Wait | None:
    """Return the volume that we reserved for the claim a moment ago for this pod, whatever the watch shows of it.

    What was reserved for another pod and is still being written may fail: until that is known, no gate is removed and
    no other claim is bound because of it.
    """
    for hold, held in _holds(view, claim):
        return Anchor(held) if hold.pod_key == pod.key else Wait(pod, Reason.PROGRESSING, until=now + _ONE_WRITE)
    return None


def _free(view: View, claim: Claim, storage_class: StorageClass, now: datetime) -> Standing:
    """A claim to which no volume is committed, perhaps with a hint. If volumes may be committed, a hint is not binding:
    no pin.
    """
    opened = _open(view, claim, storage_class, now)
    hint = _reserved(view, claim, now)
    if hint is None or (isinstance(opened, Open) and _is_set_aside(view, opened.pin)):
        return opened
    return Hinted(hint, replace(opened, pin="")) if isinstance(opened, Open) else hint


def _holds(view: View, claim: Claim) -> Iterator[tuple[Hold, Volume]]:
    for hold in sorted(view.ledger.of_claim(claim.key), key=lambda hold: hold.volume):
        held = view.snapshot.volumes.get(hold.volume) if hold.claim_uid == claim.uid else None
        if held is not None:
            yield hold, held


def _reserved(view: View, claim: Claim, now: datetime) -> Anchor | None:
    """Return the volume reserved for the claim, if both sides agree and the volume may still be used."""
    reservation = view.settings.annotations.reservation_of_claim(claim)
    volume = view.snapshot.volumes.get(reservation.volume) if reservation else None
    if (
        reservation is None
        or volume is None
        or not reservation.in_force(now)
        or not _reservation_holds(view, claim, volume, now)
    ):
        return None
    return Anchor(volume, until=reservation.expires_at)


def _reservation_holds(view: View, claim: Claim, volume: Volume, now: datetime) -> bool:
    kept = view.settings.annotations.reservation_of(volume)
    return (
        kept is not None
        and kept.holds(now, claim)
        and volume.claim is None
        and volume.phase == "Available"
        and reject_use(view, volume, now, claim) is None
    )


def _open(view: View, claim: Claim, storage_class: StorageClass, now: datetime) -> Open | LeftAlone:
    mode = mode_of(storage_class, view.settings)
    if mode is Mode.OFF:
        return LeftAlone(claim, Reason.MODE_OFF, value_of(claim.annotations, SELECTED_NODE))
    selected = value_of(claim.annotations, SELECTED_NODE)
    dynamic = storage_class.provisions
    if dynamic and selected:
        return LeftAlone(claim, Reason.DYNAMIC_CLASS, selected)
    return Open(claim, mode, optional=dynamic, pin=_half_reserved(view, claim, now), node=selected or None)


def _half_reserved(view: View, claim: Claim, now: datetime) -> str:
    """Return the volume that is reserved for the claim while the claim has no annotations, as after a crash in
    between, or that is set aside for it.
    """
    snapshot = view.snapshot
    for name in sorted(snapshot.volumes_reserved_for.get(claim.key, ())):
        if name in snapshot.volumes and _reservation_holds(view, claim, snapshot.volumes[name], now):
            return name
    aside = set_aside_for(claim, snapshot, view.settings.annotations)
    return aside.name if aside is not None and _may_be_used(view, claim, aside, now) else ""


def _is_set_aside(view: View, name: str) -> bool:
    return bool(name) and bool(set_aside_keys(view.snapshot.volumes[name], view.settings.annotations))


def _may_be_used(view: View, claim: Claim, aside: Volume, now: datetime) -> bool:
    """Whether a volume that was set aside for the claim is one still that it may get."""
    offered = as_offered(aside, claim, view.settings.annotations)
    return scheduler_rejection(claim, offered, None) is None and reject_use(view, offered, now, claim) is None
