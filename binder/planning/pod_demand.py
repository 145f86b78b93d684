"""Which claims of which pods are ours to plan, and the result if none is.

The order of the checks is kube-scheduler's (volumebinding PreFilter): a pod whose claims are missing, lost or left to
the PV controller is not delayed by us, and not served by us either.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from binder.assignment.volume_policy import refuse_use
from binder.matching.controller_match import committed_volume
from binder.matching.matching import binding_mode, class_of, controller_refusal, is_mine, requested_refusal
from binder.matching.rejection import Reason, Rejection
from binder.model.decision import Finish, Mode, Placement, Refuse, Wait
from binder.model.demand import MOST_CLAIMS, Demand
from binder.model.ledger import Hold
from binder.model.view import PlanSettings, View
from binder.planning.commitment import finish_of, hint_only, may_commit
from binder.reservation.contract import Annotations
from kube.objects.model import (
    NO_PROVISIONER,
    READ_WRITE_ONCE_POD,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    Claim,
    Pod,
    StorageClass,
    Volume,
    value_of,
)
from kube.store.node_view import used_volume

_WEAKEST_FIRST: Final = (Mode.OFF, Mode.ANNOTATE, Mode.PREBIND, Mode.COMPLETE)
_COMMITTING: Final = frozenset({Mode.PREBIND, Mode.COMPLETE})

_ONE_WRITE: Final = timedelta(seconds=1)
"""When to retry while something is being written for another pod, if its end is not seen before."""


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


Standing = Anchor | Open | Hinted | LeftAlone


def demand_of(view: View, pod: Pod, now: datetime) -> Demand | Finish | Wait | Refuse:
    """Return what the pod needs of us, or why that is nothing.

    A pod has one mode, the weakest of its open claims' classes, because its claims are reserved all or none; claims of
    classes in mode off are not included. If volumes must not be committed now, it is a hint.
    """
    if pod.deleting or pod.finished:
        return Wait(pod, Reason.POD_ENDED)
    if view.settings.annotations.other_gates(pod):
        return Wait(pod, Reason.POD_GATED)
    standings = _standings(view, pod, now)
    if isinstance(standings, Wait | Refuse):
        return standings
    mode, limits = _mode_of_pod(view, pod, standings)
    hints: tuple[tuple[str, Claim], ...] = ()
    if mode in _COMMITTING:
        hints = tuple((hint.anchor.volume.name, hint.claim.claim) for hint in standings if isinstance(hint, Hinted))
        standings = _uncommitted(standings)
    opened = [standing for standing in standings if isinstance(standing, Open)]
    anchors = tuple(_anchors(standings))
    if len(opened) > MOST_CLAIMS:
        return _too_many(pod, len(opened))
    if not opened:
        begun = [Placement(anchor.begun, anchor.volume) for anchor in anchors if anchor.begun is not None]
        return finish_of(view, pod, begun, now) or _nothing_open(pod, anchors, standings)
    in_use = _in_use(view, pod)
    if in_use is not None:
        return Refuse(pod, Reason.VOLUME_IN_USE, (in_use,))
    return Demand(
        pod=pod,
        mode=mode,
        required=tuple(standing.claim for standing in opened if not standing.optional),
        optional=tuple(standing.claim for standing in opened if standing.optional),
        anchors=tuple(anchor.volume for anchor in anchors),
        pins=tuple((standing.claim.key, standing.pin) for standing in opened if standing.pin),
        nodes=_only_nodes(pod, standings),
        hints=hints,
        limits=limits,
        begun=any(standing.begun is not None for standing in standings if isinstance(standing, Anchor)),
        drivers=tuple(_drivers(view, standings)),
    )


def _standings(view: View, pod: Pod, now: datetime) -> Sequence[Standing] | Wait | Refuse:
    standings: list[Standing] = []
    for key, owned in _claims_of(pod):
        standing = _standing(view, pod, key, now, owned=owned)
        if isinstance(standing, Wait | Refuse):
            return standing
        standings.append(standing)
    return standings


def _mode_of_pod(view: View, pod: Pod, standings: Sequence[Standing]) -> tuple[Mode, tuple[str, ...]]:
    """Return the mode, and what of the pod makes it a hint, in words."""
    opened = (standing for standing in _uncommitted(standings) if isinstance(standing, Open))
    mode = min((claim.mode for claim in opened), key=_WEAKEST_FIRST.index, default=Mode.OFF)
    if mode not in _COMMITTING:
        return mode, ()
    if not may_commit(pod, view.snapshot):
        return Mode.ANNOTATE, ()
    limits = hint_only(view, pod, _left_off(standings))
    return (Mode.ANNOTATE if limits else mode), limits


def _uncommitted(standings: Iterable[Standing]) -> list[Standing]:
    """Return the same without the hints: a hinted claim is one to plan for."""
    return [standing.claim if isinstance(standing, Hinted) else standing for standing in standings]


def _anchors(standings: Iterable[Standing]) -> Iterator[Anchor]:
    for standing in standings:
        if isinstance(standing, Hinted):
            yield standing.anchor
        elif isinstance(standing, Anchor):
            yield standing


def mode_of(storage_class: StorageClass, settings: PlanSettings) -> Mode:
    """Return the mode for claims of a class; an unknown value counts as none."""
    word = value_of(storage_class.annotations, settings.annotations.mode)
    return Mode(word) if word in set(Mode) else settings.default_mode


def unknown_mode(storage_class: StorageClass, annotations: Annotations) -> str | None:
    """Return the class's value that is not a mode; None if it has none, or a valid one."""
    word = value_of(storage_class.annotations, annotations.mode)
    return None if word in set(Mode) else word


def _claims_of(pod: Pod) -> Iterator[tuple[str, bool]]:
    """Yield the keys of the pod's claims, each once, and whether it belongs to an ephemeral volume of the pod."""
    ephemeral = {claim.name for claim in pod.claims if claim.ephemeral}
    for key in pod.claim_keys:
        yield key, key.partition("/")[2] in ephemeral


def _standing(view: View, pod: Pod, key: str, now: datetime, *, owned: bool) -> Standing | Wait | Refuse:
    claim = view.snapshot.claims.get(key)
    if claim is None:
        return Wait(pod, Reason.CLAIM_NOT_FOUND)
    if owned and claim.owner != pod.uid:
        # VolumeIsForPod in k8s.io/component-helpers storage/ephemeral/ephemeral.go
        owner = f"owner {claim.owner}" if claim.owner else "no owner"
        evidence = _about(claim, Reason.CLAIM_NOT_OWNED, "a claim created for this pod's ephemeral volume", owner)
        return Refuse(pod, Reason.CLAIM_NOT_OWNED, (evidence,))
    if claim.phase == "Lost":
        return Refuse(
            pod, Reason.CLAIM_LOST, (_about(claim, Reason.CLAIM_LOST, "a claim whose volume exists", "Lost"),)
        )
    if claim.deleting:
        evidence = _about(claim, Reason.CLAIM_DELETING, "a claim not being deleted", "deletionTimestamp is set")
        return Refuse(pod, Reason.CLAIM_DELETING, (evidence,))
    if claim.volume_name:
        return _named(view, pod, claim)
    return _unbound(view, pod, claim, now)


def _named(view: View, pod: Pod, claim: Claim) -> Standing | Wait | Refuse:
    """A claim with spec.volumeName: bound, or requesting one volume, which only the PV controller can grant."""
    volume = view.snapshot.volumes.get(claim.volume_name)
    if volume is None:
        return Wait(pod, Reason.REQUESTED_VOLUME_MISSING)
    if claim.bind_completed:
        return Anchor(volume, bound=True, begun=claim if _is_ours_to_finish(view, claim, volume) else None)
    reason = requested_refusal(claim, volume)
    if reason is None:
        return Wait(pod, Reason.IMMEDIATE_CLAIM)
    evidence = Rejection(reason, volume.name, f"a volume that matches claim {claim.key}, which names it", str(reason))
    return Refuse(pod, Reason.REQUESTED_VOLUME_MISMATCH, (evidence,))


def _unbound(view: View, pod: Pod, claim: Claim, now: datetime) -> Standing | Wait | Refuse:
    classes = view.snapshot.classes
    name = class_of(claim)
    if name and name not in classes:
        return Wait(pod, Reason.CLASS_NOT_FOUND)
    binding = binding_mode(claim, classes)
    if binding is None:
        return Wait(pod, Reason.BINDING_MODE_MISSING)
    if binding != WAIT_FOR_FIRST_CONSUMER:
        return Wait(pod, Reason.IMMEDIATE_CLAIM)
    return (
        _being_written(view, pod, claim, now) or _committed(view, pod, claim) or _free(view, claim, classes[name], now)
    )


def _committed(view: View, pod: Pod, claim: Claim) -> Anchor | Refuse | None:
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
    reasons = ((volume.name, controller_refusal(claim, volume, delayed=True)) for volume in volumes)
    wanted = f"a volume that matches claim {claim.key}, which it names"
    evidence = tuple(Rejection(reason, name, wanted, str(reason)) for name, reason in reasons if reason is not None)
    return Refuse(pod, Reason.REQUESTED_VOLUME_MISMATCH, evidence)


def _is_ours_to_finish(view: View, claim: Claim, volume: Volume) -> bool:
    """Whether mode complete applies to a bind that has begun. A claim that is being provisioned is left alone."""
    storage_class = view.snapshot.classes.get(class_of(claim))
    if storage_class is None or storage_class.binding_mode != WAIT_FOR_FIRST_CONSUMER or claim.phase != "Pending":
        return False
    if storage_class.provisioner != NO_PROVISIONER and value_of(claim.annotations, SELECTED_NODE):
        return False
    return is_mine(claim, volume) and mode_of(storage_class, view.settings) is Mode.COMPLETE


def _being_written(view: View, pod: Pod, claim: Claim, now: datetime) -> Anchor | Wait | None:
    """Return the volume that we reserved for the claim a moment ago for this pod, whatever the watch shows of it.

    What was reserved for another pod and is still being written may fail: until that is known, no gate is removed and
    no other claim is bound because of it.
    """
    for hold, held in _holds(view, claim):
        if not hold.seen:
            return Anchor(held) if hold.pod_key == pod.key else Wait(pod, Reason.PROGRESSING, until=now + _ONE_WRITE)
    return None


def _free(view: View, claim: Claim, storage_class: StorageClass, now: datetime) -> Standing:
    """A claim to which no volume is committed, perhaps with a hint. If volumes may be committed, a hint is not binding:
    no pin.
    """
    opened = _open(view, claim, storage_class, now)
    hint = next((Anchor(held) for _, held in _holds(view, claim) if _keeps_word(view, claim, held, now)), None)
    hint = hint or _reserved(view, claim, now)
    if hint is None:
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
        or not _keeps_word(view, claim, volume, now)
    ):
        return None
    return Anchor(volume, until=reservation.expires_at)


def _keeps_word(view: View, claim: Claim, volume: Volume, now: datetime) -> bool:
    kept = view.settings.annotations.reservation_of(volume)
    return (
        kept is not None
        and kept.holds(now, claim)
        and volume.claim is None
        and volume.phase == "Available"
        and refuse_use(view, volume, now, claim) is None
    )


def _open(view: View, claim: Claim, storage_class: StorageClass, now: datetime) -> Open | LeftAlone:
    mode = mode_of(storage_class, view.settings)
    if mode is Mode.OFF:
        return LeftAlone(claim, Reason.MODE_OFF, value_of(claim.annotations, SELECTED_NODE))
    selected = value_of(claim.annotations, SELECTED_NODE)
    dynamic = storage_class.provisioner != NO_PROVISIONER
    if dynamic and selected:
        return LeftAlone(claim, Reason.DYNAMIC_CLASS, selected)
    return Open(claim, mode, optional=dynamic, pin=_half_reserved(view, claim, now), node=selected or None)


def _half_reserved(view: View, claim: Claim, now: datetime) -> str:
    """Return the volume that is reserved for the claim while the claim has no annotations, as after a crash in
    between.
    """
    snapshot = view.snapshot
    for name in sorted(snapshot.volumes_reserved_for.get(claim.key, ())):
        if name in snapshot.volumes and _keeps_word(view, claim, snapshot.volumes[name], now):
            return name
    return ""


def _left_off(standings: Iterable[Standing]) -> tuple[Claim, ...]:
    """Return the claims for which kube-scheduler chooses among existing volumes, because no hint of ours exists."""
    return tuple(
        standing.claim
        for standing in standings
        if isinstance(standing, LeftAlone) and standing.reason is Reason.MODE_OFF
    )


def _drivers(view: View, standings: Iterable[Standing]) -> Iterator[tuple[str, str]]:
    """Yield the claims that need no existing volume, and what each counts as until it has one (NodeVolumeLimits)."""
    for standing in standings:
        if isinstance(standing, LeftAlone) or (isinstance(standing, Open) and standing.optional):
            used = used_volume(view.snapshot, standing.claim)
            if used is not None:
                yield standing.claim.key, used[0]


def _in_use(view: View, pod: Pod) -> Rejection | None:
    """Return which ReadWriteOncePod claim a pod on a node uses: this one cannot run beside it (VolumeRestrictions)."""
    snapshot = view.snapshot
    for key in pod.claim_keys:
        claim = snapshot.claims.get(key)
        if claim is None or READ_WRITE_ONCE_POD not in claim.access_modes:
            continue
        for user in snapshot.pods_by_claim.get(key, ()):
            if user != pod.key and snapshot.pods[user].node_name:
                wanted = f"exclusive use of claim {key} ({READ_WRITE_ONCE_POD})"
                return Rejection(Reason.VOLUME_IN_USE, pod.key, wanted, f"in use by pod {user}")
    return None


def _only_nodes(pod: Pod, standings: Iterable[Standing]) -> frozenset[str] | None:
    """A pod assigned to a node by hand, or a claim with a selected node, allows no other node."""
    selected = (standing.node for standing in standings if isinstance(standing, Open | LeftAlone))
    named = {node for node in selected if node} | ({pod.node_name} if pod.node_name else set())
    if not named:
        return None
    return frozenset(named) if len(named) == 1 else frozenset()


def _nothing_open(pod: Pod, anchors: tuple[Anchor, ...], standings: Sequence[Standing]) -> Wait:
    unfinished = [anchor for anchor in anchors if not anchor.bound]
    if unfinished:
        until = min((anchor.until for anchor in unfinished if anchor.until), default=None)
        return Wait(pod, Reason.ALREADY_RESERVED, until)
    left = [standing.reason for standing in standings if isinstance(standing, LeftAlone)]
    return Wait(pod, left[0] if left else Reason.NO_UNBOUND_CLAIM)


def _too_many(pod: Pod, count: int) -> Refuse:
    wanted, offered = f"at most {MOST_CLAIMS} unbound claims in a pod", f"{count} claims to reserve volumes for"
    return Refuse(pod, Reason.TOO_MANY_CLAIMS, (Rejection(Reason.TOO_MANY_CLAIMS, pod.key, wanted, offered),))


def _about(claim: Claim, reason: Reason, wanted: str, offered: str) -> Rejection:
    return Rejection(reason, claim.key, wanted, offered)
