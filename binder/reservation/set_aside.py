"""Volumes set aside: those chosen for a pod whose other volumes are still to be made (mode provision).

A volume that is bound ties its pod to a place for ever, and whether the others can be made there is known only when
they are. Until then a volume is set aside: its claimRef names a placeholder claim that does not exist, without a uid,
as in quarantine (binder.health.quarantine), so that it stays Available, fits no claim, and one conditional write undoes
it, or turns it into the claimRef of mode prebind. Annotations in the same write record for which claim. They are none
of a reservation: nothing here ends by time as long as a volume of the pod is being made.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from binder.reservation.contract import Annotations, format_time, parse_time
from binder.reservation.release import UNUSED_PHASES
from binder.reservation.writes import Patch
from kube.objects.model import SELECTED_NODE, Claim, Pod, Volume, value_of
from kube.store.snapshot import Snapshot

_PLACEHOLDER: Final = "set-aside-"
UNUSED_FOR: Final = timedelta(minutes=1)
"""How long a volume stays set aside while nothing is being made for its pod: a provisioner that gives up removes the
selected node, and the next node is selected within seconds.
"""


@dataclass(frozen=True, slots=True)
class SetAside:
    """For which claim a volume is set aside, and since when."""

    claim: str
    claim_uid: str
    since: datetime

    def is_for(self, claim: Claim) -> bool:
        return self.claim_uid == claim.uid and self.claim == claim.key


def set_aside_keys(volume: Volume, annotations: Annotations) -> tuple[str, ...]:
    """Return the keys of the record on the volume, valid or not."""
    keys = (annotations.set_aside_for, annotations.set_aside_for_uid, annotations.set_aside_at)
    return tuple(key for key in keys if value_of(volume.annotations, key) is not None)


def set_aside_of(volume: Volume, annotations: Annotations) -> SetAside | None:
    """Return for which claim the volume is set aside; None if for none, or another writer has removed the placeholder,
    or the record is incomplete.
    """
    if not set_aside_keys(volume, annotations) or not is_set_aside(volume):
        return None
    claim = value_of(volume.annotations, annotations.set_aside_for)
    uid = value_of(volume.annotations, annotations.set_aside_for_uid)
    since = parse_time(value_of(volume.annotations, annotations.set_aside_at))
    return SetAside(claim, uid, since) if claim and uid and since else None


def is_set_aside(volume: Volume) -> bool:
    """Whether a placeholder withholds the volume from claims, in whatever namespace it was written, without effect."""
    reference = volume.claim
    named = reference is not None and reference.name == _PLACEHOLDER + volume.name and not reference.uid
    return named and volume.phase in UNUSED_PHASES


def set_aside_for(claim: Claim, snapshot: Snapshot, annotations: Annotations) -> Volume | None:
    """Return the volume that is set aside for the claim: the one chosen last, if there are several after a crash."""
    kept_since: list[tuple[datetime, str]] = []
    for name in snapshot.volumes_reserved_for.get(claim.key, ()):
        kept = set_aside_of(snapshot.volumes[name], annotations)
        if kept is not None and kept.is_for(claim):
            kept_since.append((kept.since, name))
    return snapshot.volumes[max(kept_since)[1]] if kept_since else None


def as_offered(volume: Volume, claim: Claim, annotations: Annotations) -> Volume:
    """Return the volume as it was before it was set aside for this claim; as it is, if it is not."""
    kept = set_aside_of(volume, annotations)
    return structs.replace(volume, claim=None) if kept is not None and kept.is_for(claim) else volume


def set_aside(volume: Volume, claim: Claim, namespace: str, now: datetime, annotations: Annotations) -> Patch:
    """Return the write that sets a free volume aside for the claim; the placeholder is named in our own `namespace`."""
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        # One for each volume: a claim never has two, not even one that does not exist.
        "name": _PLACEHOLDER + volume.name,
    }
    record = {
        annotations.set_aside_for: claim.key,
        annotations.set_aside_for_uid: claim.uid,
        annotations.set_aside_at: format_time(now),
    }
    return {"metadata": {"annotations": record}, "spec": {"claimRef": reference}}


def end_set_aside(volume: Volume, annotations: Annotations) -> Patch:
    """Return the write that undoes it; the claimRef is removed only if it is still the placeholder."""
    removed = {"annotations": dict.fromkeys(set_aside_keys(volume, annotations))}
    return {"metadata": removed, "spec": {"claimRef": None}} if is_set_aside(volume) else {"metadata": removed}


def ends_at(volume: Volume, snapshot: Snapshot, annotations: Annotations, now: datetime) -> datetime | None:
    """Return when a volume ceases to be set aside, as things are: `now` if its reason is gone; None while a volume of
    the pod is being made.

    That is for the claim as long as it has no volume, a pod behind our gate uses it, and it was given no other one.
    """
    kept = set_aside_of(volume, annotations)
    claim = snapshot.claims.get(kept.claim) if kept is not None else None
    if kept is None or claim is None or claim.uid != kept.claim_uid or claim.deleting or claim.volume_name:
        return now
    chosen = set_aside_for(claim, snapshot, annotations)
    users = [snapshot.pods[key] for key in snapshot.pods_by_claim.get(claim.key, ())]
    waiting = [pod for pod in users if annotations.carries_gate(pod) and not (pod.node_name or pod.deleting)]
    if not waiting or (chosen is not None and chosen.name != volume.name):
        return now
    if any(_is_under_way(key, snapshot) for pod in waiting for key in _others(pod, claim)):
        return None
    return max(now, kept.since + UNUSED_FOR)


def _others(pod: Pod, claim: Claim) -> tuple[str, ...]:
    return tuple(key for key in pod.claim_keys if key != claim.key)


def _is_under_way(claim_key: str, snapshot: Snapshot) -> bool:
    """Whether the claim has a volume, or one is being made for it."""
    claim = snapshot.claims.get(claim_key)
    if claim is None:
        return False
    return bool(claim.volume_name or value_of(claim.annotations, SELECTED_NODE))
