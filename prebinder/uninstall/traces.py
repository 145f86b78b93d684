"""What on a pod, claim or volume is ours, and the patch that removes it. Pure.

The rules are those of a release (binder.reservation.release): a claimRef is removed only if the volume records that we
wrote it, it has had no effect, and the claim, read right before the write, does not name the volume.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from binder.health.quarantine import has_placeholder, holds, marks
from binder.reservation.contract import Annotations
from binder.reservation.pins import hold_keys, may_end, pins_of
from binder.reservation.release import may_clear
from binder.reservation.set_aside import is_set_aside, set_aside_keys
from binder.reservation.writes import Patch
from kube.objects.model import BOUND_BY_CONTROLLER, Claim, Pod, Volume, value_of

_BOUND: Final = "Bound"


class Part(StrEnum):
    """What can be removed separately, in the order of removal."""

    GATES = "gates"
    RESERVATIONS = "reservations"
    QUARANTINE = "quarantine"
    HEALTH = "health"


@dataclass(frozen=True, slots=True)
class Removal:
    """A write, and its description."""

    what: str
    body: Patch


def pod_removal(pod: Pod, annotations: Annotations, parts: Collection[Part]) -> Removal | None:
    """Return the write that removes our scheduling gate; None if the pod does not carry it."""
    if Part.GATES not in parts or not annotations.carries_gate(pod):
        return None
    left = [{"name": gate} for gate in annotations.other_gates(pod)]
    return Removal("scheduling gate removed", {"spec": {"schedulingGates": left or None}})


def claim_removal(claim: Claim, annotations: Annotations, parts: Collection[Part]) -> Removal | None:
    """Return the write that removes our annotations from a claim; None if there are none."""
    keys = (*annotations.keys_on_claim(claim), *annotations.provision_keys_on_claim(claim))
    if Part.RESERVATIONS not in parts or not keys:
        return None
    return Removal("annotations removed", {"metadata": {"annotations": dict.fromkeys(keys)}})


def volume_removal(
    volume: Volume, claim: Claim | None, annotations: Annotations, parts: Collection[Part]
) -> Removal | None:
    """Return the write that removes everything of ours from a volume; None if there is nothing.

    `claim` is the one that its claimRef names, as just read; None if there is none of that name.
    """
    keys: list[str] = []
    ends: list[str] = []
    if Part.RESERVATIONS in parts and (pinned := _ended_pins(volume, annotations)):
        keys += pinned
        ends += ["hold ended"] if may_end(volume, claim, annotations) else []
    if Part.RESERVATIONS in parts and (held := annotations.keys_on_volume(volume)):
        keys += held
        if annotations.claim_ref_is_ours(volume) and may_clear(volume, claim):
            ends.append("claimRef cleared")
            keys += [BOUND_BY_CONTROLLER] if value_of(volume.annotations, BOUND_BY_CONTROLLER) is not None else []
    if Part.RESERVATIONS in parts and (aside := set_aside_keys(volume, annotations)):
        keys += aside
        ends += ["set aside no more"] if is_set_aside(volume) else []
    if Part.QUARANTINE in parts and (quarantined := marks(volume, annotations)):
        keys += quarantined
        if holds(volume):
            ends.append("quarantine released")
    if Part.HEALTH in parts:
        keys += health_keys(volume, annotations)
    if not keys:
        return None
    body: dict[str, Any] = {"metadata": {"annotations": dict.fromkeys(keys)}}
    if ends:
        body["spec"] = {"claimRef": None}
    return Removal(", ".join([*ends, "annotations removed"]), body)


def names_claim(volume: Volume, annotations: Annotations) -> bool:
    """Whether the claim that the volume's claimRef names has to be read before anything is removed."""
    return annotations.claim_ref_is_ours(volume) or bool(hold_keys(volume, annotations))


def left_to_people(volume: Volume, annotations: Annotations, parts: Collection[Part]) -> str:
    """Return what on a volume looks like ours and is not removed, and why; empty if there is nothing."""
    if Part.RESERVATIONS in parts and (pinned := _left_pinned(volume, annotations)):
        return pinned
    if Part.RESERVATIONS in parts and is_set_aside(volume) and not set_aside_keys(volume, annotations):
        return (
            "has the claimRef of a volume set aside without its annotations: remove it if no other component wrote it"
        )
    if Part.QUARANTINE not in parts or not has_placeholder(volume):
        return ""
    if marks(volume, annotations):
        return "" if holds(volume) else f"its quarantine's claimRef stays: the volume is {volume.phase}"
    return "has a quarantine's claimRef without its annotations: `pvc-prebinder quarantine release` removes it"


def _ended_pins(volume: Volume, annotations: Annotations) -> list[str]:
    """Return the keys of a hold, and of a replacement that is finished."""
    keys = list(hold_keys(volume, annotations))
    pins = pins_of(volume, annotations)
    if pins is not None and pins.replacement is not None and volume.phase == _BOUND and pins.kept is None:
        keys += [annotations.replaces, annotations.namespace_uid]
    return keys


def _left_pinned(volume: Volume, annotations: Annotations) -> str:
    """Return why a volume stays kept for a name: whose data it holds is for people to decide."""
    pins = pins_of(volume, annotations)
    if pins is None or set(annotations.pin_keys(volume)) <= set(_ended_pins(volume, annotations)):
        return ""
    if pins.replacement is not None and volume.phase != _BOUND:
        return f"a running replacement for claim {pins.claim}: finish it with `pvc-prebinder replace`"
    return f"{pins}: its annotations stay, so that nothing else is written to it"


def health_keys(volume: Volume, annotations: Annotations) -> list[str]:
    keys = (annotations.health, annotations.health_reason, annotations.health_since, annotations.health_source)
    return [key for key in keys if value_of(volume.annotations, key) is not None]
