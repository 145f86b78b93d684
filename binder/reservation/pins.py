"""Volumes kept for a name, without an end: held for a replica to come, or replaced and replacing (docs/holds.md).

Beside reservations and never mixed with them: no rule that ends a reservation, or rolls one back, touches a volume that
carries one of these keys. Only their own writers do: the controller of holds, `pvc-prebinder replace` and `uninstall`.
A value that cannot be parsed, or is too long, withholds the volume all the same: what cannot be read must not give a
disk to another claim.
"""

from dataclasses import dataclass
from typing import Final

from binder.reservation.contract import Annotations, Holder
from binder.reservation.release import UNUSED_PHASES
from kube.objects.model import Claim, Volume, value_of

MAX_NAME: Final = 253
"""Characters of the name of an object, or of a uid, as the API server accepts them at most."""
MAX_HOLDER: Final = 512
"""Characters of a holder: a host's name and what is appended to it."""


@dataclass(frozen=True, slots=True)
class ReplicaHold:
    """The volume is held for a claim that does not exist yet: of which StatefulSet, and by which holder."""

    claim: str
    set_uid: str
    holder: Holder


@dataclass(frozen=True, slots=True)
class Replacement:
    """The volume takes the place of another: for the claim of this name, whose uid was this, with that volume.

    `namespace_uid` is that of the claim's namespace: one created again under the name is another tenant's.
    """

    claim: str
    claim_uid: str
    volume: str
    namespace_uid: str


@dataclass(frozen=True, slots=True)
class KeptVolume:
    """The volume was replaced, and keeps the data of that claim: to be given back to its name, or wiped."""

    claim: str
    claim_uid: str
    namespace_uid: str


@dataclass(frozen=True, slots=True)
class Pins:
    """What a volume's annotations say; `garbage` are keys, without prefix, that are invalid or missing beside others.

    A volume that is given back is kept and replacing at once.
    """

    hold: ReplicaHold | None = None
    replacement: Replacement | None = None
    kept: KeptVolume | None = None
    garbage: tuple[str, ...] = ()

    @property
    def claim(self) -> str:
        """The key of the claim that it is about; empty if that cannot be read."""
        pin = self.hold or self.replacement or self.kept
        return pin.claim if pin is not None else ""

    def __str__(self) -> str:
        whose = f"claim {self.claim}" if self.claim else "a claim that cannot be read"
        if self.hold is not None:
            return f"held for {whose}, which a StatefulSet is to create"
        return f"to replace the volume of {whose}" if self.replacement is not None else f"kept with the data of {whose}"


def pins_of(volume: Volume, annotations: Annotations) -> Pins | None:
    """Return what pins the volume; None if nothing does."""
    keys = annotations.pin_keys(volume)
    if not keys:
        return None
    values = {key: value for key, value in volume.annotations if key in keys}
    namespace_uid = _bounded(values.get(annotations.namespace_uid), MAX_NAME)
    hold = _hold(values, annotations)
    replacement = _replacement(values.get(annotations.replaces), namespace_uid)
    kept = _kept(values.get(annotations.was_for), namespace_uid)
    read: dict[str, object] = {
        **dict.fromkeys((annotations.hold_claim, annotations.hold_set, annotations.hold_holder), hold),
        annotations.replaces: replacement,
        annotations.was_for: kept,
        annotations.namespace_uid: replacement or kept,
    }
    garbage = tuple(key.removeprefix(annotations.prefix) for key in keys if read[key] is None)
    return Pins(hold, replacement, kept, garbage)


def for_hold(hold: ReplicaHold, annotations: Annotations) -> dict[str, str]:
    """Return the annotations of a hold."""
    return {
        annotations.hold_claim: hold.claim,
        annotations.hold_set: hold.set_uid,
        annotations.hold_holder: str(hold.holder),
    }


def for_replacement(replacement: Replacement, annotations: Annotations) -> dict[str, str]:
    """Return the annotations of the volume that takes the place of another."""
    return {
        annotations.replaces: f"{replacement.claim}/{replacement.claim_uid}/{replacement.volume}",
        annotations.namespace_uid: replacement.namespace_uid,
    }


def for_kept(kept: KeptVolume, annotations: Annotations) -> dict[str, str]:
    """Return the annotations of a volume that was replaced."""
    return {annotations.was_for: f"{kept.claim}/{kept.claim_uid}", annotations.namespace_uid: kept.namespace_uid}


def may_end(volume: Volume, claim: Claim | None, annotations: Annotations) -> bool:
    """Whether ending a hold also removes the claimRef: it names the held claim, has had no effect, and that claim, as
    just read, is not bound to the volume.

    What the other keys of the hold say does not matter: the one that names the claim proves that the claimRef is ours.
    """
    reference = volume.claim
    if reference is None or reference.uid or volume.phase not in UNUSED_PHASES:
        return False
    return value_of(volume.annotations, annotations.hold_claim) == reference.key and (
        claim is None or claim.volume_name != volume.name
    )


def hold_keys(volume: Volume, annotations: Annotations) -> tuple[str, ...]:
    """Return the keys of a hold on the volume, valid or not."""
    of_hold = (annotations.hold_claim, annotations.hold_set, annotations.hold_holder)
    return tuple(key for key in annotations.pin_keys(volume) if key in of_hold)


def names_as_pinned(volume: Volume, annotations: Annotations) -> bool:
    """Whether the volume's claimRef names the claim for which it is held, or which it is to get as a replacement."""
    pins = pins_of(volume, annotations)
    if pins is None or volume.claim is None:
        return False
    return volume.claim.key in {pin.claim for pin in (pins.hold, pins.replacement) if pin is not None}


def _hold(values: dict[str, str], annotations: Annotations) -> ReplicaHold | None:
    claim = _claim(values.get(annotations.hold_claim))
    set_uid = _bounded(values.get(annotations.hold_set), MAX_NAME)
    holder = Holder.parse(_bounded(values.get(annotations.hold_holder), MAX_HOLDER))
    return ReplicaHold(claim, set_uid, holder) if claim and set_uid and holder else None


def _replacement(text: str | None, namespace_uid: str) -> Replacement | None:
    parts = (text or "").split("/")
    if len(parts) != 4 or not namespace_uid:
        return None
    claim, uid, volume = _claim("/".join(parts[:2])), _bounded(parts[2], MAX_NAME), _bounded(parts[3], MAX_NAME)
    return Replacement(claim, uid, volume, namespace_uid) if claim and uid and volume else None


def _kept(text: str | None, namespace_uid: str) -> KeptVolume | None:
    claim_key, _, uid = (text or "").rpartition("/")
    claim = _claim(claim_key)
    return KeptVolume(claim, uid, namespace_uid) if claim and _bounded(uid, MAX_NAME) and namespace_uid else None


def _claim(text: str | None) -> str:
    namespace, _, name = (text or "").partition("/")
    valid = _bounded(namespace, MAX_NAME) and _bounded(name, MAX_NAME) and "/" not in name
    return f"{namespace}/{name}" if valid else ""


def _bounded(text: str | None, most: int) -> str:
    """Return the text, empty if there is none or it is longer."""
    return text if text and len(text) <= most else ""
