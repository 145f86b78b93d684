"""The single steps of a replacement, as values: each write, deletion and eviction with the version that it rests on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from binder.replacement.situation import Situation
from binder.replacement.turn import Swap, Turn, format_turn
from binder.reservation.contract import Annotations
from binder.reservation.pins import KeptVolume, Replacement, for_kept, for_replacement
from binder.reservation.writes import Patch, name_reference
from kube.objects.api_resource import CLAIMS, STATEFUL_SETS, VOLUMES, Resource
from kube.objects.model import BOUND_BY_CONTROLLER, Claim, Pod, Volume, value_of


@dataclass(frozen=True, slots=True)
class Write:
    """A merge patch of an object that is unchanged since it was read. `what` says what it does."""

    resource: Resource
    name: str
    namespace: str
    uid: str
    version: int
    body: Patch
    what: str


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Delete the claim if it is unchanged. It goes when its pod has ended."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Evict the pod through the Eviction API, which respects disruption budgets; `dry_run`: change nothing."""

    pod: Pod
    dry_run: bool = False


Step = Write | DeleteClaim | EvictPod


def take_turn(situation: Situation, turn: Turn) -> Step | None:
    """Record the turn; None if nothing can carry it any more."""
    swaps = ", ".join(f"{swap.claim}: {swap.old} by {swap.new or 'a new volume'}" for swap in turn.swaps)
    return _on_owner(situation, format_turn(turn), f"take the turn for {turn.pod} ({swaps})")


def end_turn(situation: Situation) -> Step | None:
    """Remove the turn; None if nothing carries it."""
    return _on_owner(situation, None, "end the turn")


def keep_old(situation: Situation, volume: Volume, swap: Swap) -> Write:
    """Mark the volume that is replaced: no plan gives it to another claim."""
    kept = KeptVolume(f"{situation.namespace}/{swap.claim}", swap.claim_uid, situation.namespace_uid)
    return _of_volume(volume, {"metadata": {"annotations": for_kept(kept, situation.annotations)}}, "keep its data")


def unmark_old(situation: Situation, volume: Volume) -> Write:
    """Undo `keep_old`: the claim stays bound to the volume."""
    ours = situation.annotations
    keys = (ours.was_for, ours.namespace_uid)
    return _of_volume(volume, {"metadata": {"annotations": dict.fromkeys(keys)}}, "its claim stays bound to it")


def reserve_new(situation: Situation, volume: Volume, swap: Swap) -> Write:
    """Reserve the volume for the claim's name; of a volume that is given back, only its claim's uid goes."""
    key = f"{situation.namespace}/{swap.claim}"
    replacement = Replacement(key, swap.claim_uid, swap.old, situation.namespace_uid)
    values: dict[str, str] = for_replacement(replacement, situation.annotations)
    named = name_reference(Claim(situation.namespace, swap.claim, "", 0))
    reference: dict[str, Any] = {**named, "uid": None, "resourceVersion": None}
    body = {"metadata": {"annotations": values}, "spec": {"claimRef": reference}}
    return _of_volume(volume, body, f"reserve it for the next claim {key}, and for no other")


def release_new(situation: Situation, volume: Volume) -> Write:
    """Undo `reserve_new`: a volume that was kept names its earlier claim again, with its uid."""
    ours, kept = situation.annotations, situation.kept_on(volume)
    if kept is not None:
        body: dict[str, Any] = {
            "metadata": {"annotations": {ours.replaces: None}},
            "spec": {"claimRef": {"uid": kept.claim_uid}},
        }
        return _of_volume(volume, body, "keep it as before")
    keys = [ours.replaces, ours.namespace_uid]
    keys += [BOUND_BY_CONTROLLER] if value_of(volume.annotations, BOUND_BY_CONTROLLER) is not None else []
    body = {"metadata": {"annotations": dict.fromkeys(keys)}, "spec": {"claimRef": None}}
    return _of_volume(volume, body, "make it free again")


def finish_new(volume: Volume, annotations: Annotations) -> Write:
    """Remove the marks of a volume whose claim is bound to it."""
    keys = (annotations.replaces, annotations.was_for, annotations.namespace_uid)
    present = [key for key in keys if value_of(volume.annotations, key) is not None]
    return _of_volume(
        volume, {"metadata": {"annotations": dict.fromkeys(present)}}, "its claim is bound: end the marks"
    )


def present_steps(steps: Sequence[Step | None]) -> tuple[Step, ...]:
    """Return the steps without those that there is nothing to do for."""
    return tuple(step for step in steps if step is not None)


def _of_volume(volume: Volume, body: Patch, what: str) -> Write:
    return Write(VOLUMES, volume.name, "", volume.uid, volume.resource_version, body, what)


def _on_owner(situation: Situation, value: str | None, what: str) -> Write | None:
    """Return the write of the turn: to the StatefulSet, of another owner's pod to its first claim that exists."""
    body = {"metadata": {"annotations": {situation.annotations.replaces: value}}}
    owner = situation.replicas
    if owner is not None:
        return Write(STATEFUL_SETS, owner.name, owner.namespace, owner.uid, owner.resource_version, body, what)
    claim = situation.first_claim
    if claim is None:
        return None
    return Write(CLAIMS, claim.name, claim.namespace, claim.uid, claim.resource_version, body, what)
