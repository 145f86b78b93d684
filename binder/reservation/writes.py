"""The bodies of all writes: merge patches that name only what they change. Null removes a field.

The four of a bind have the content of the PV controller's bind(), so that either may finish what the other began
(kubernetes/kubernetes pkg/controller/volume/persistentvolume/pv_controller.go; claimRef as created by GetReference in
client-go tools/reference/ref.go).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from binder.reservation.contract import Annotations, ClaimReservation, VolumeReservation, format_time
from binder.reservation.pins import ReplicaHold, for_hold, hold_keys, names_as_pinned
from kube.objects.model import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONER_ANNOTATIONS,
    SELECTED_NODE,
    Claim,
    Pod,
    Volume,
    value_of,
)
from kube.persistent_map import Map

Patch = Mapping[str, Any]

PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"


class _VolumeMeta(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _VolumeSpec(msgspec.Struct):
    capacity: dict[str, str] = {}
    access_modes: list[str] = msgspec.field(name="accessModes", default_factory=list)
    attributes_class: str | None = msgspec.field(name="volumeAttributesClassName", default=None)


class _RawVolume(msgspec.Struct):
    metadata: _VolumeMeta
    spec: _VolumeSpec


_RAW_VOLUME: Final = msgspec.json.Decoder(_RawVolume)


def name_reference(claim: Claim) -> dict[str, str]:
    """Return a claimRef that commits the volume to the claim's name; nothing can be reclaimed because of it."""
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace, "name": claim.name}


def full_reference(claim: Claim) -> dict[str, str]:
    """Return the claimRef that the PV controller writes: with the uid, and the claim's version at that time."""
    return name_reference(claim) | {"uid": claim.uid, "resourceVersion": str(claim.resource_version)}


def provision_on(node: str, now: datetime, annotations: Annotations, provisioner: str = "") -> Patch:
    """Mode provision: the claim's volume is to be made for this node, as kube-scheduler selects one, and at once if the
    provisioner is named.
    """
    selected = {SELECTED_NODE: node, annotations.selected_at: format_time(now)}
    return {"metadata": {"annotations": selected | (_named(provisioner) if provisioner else {})}}


def name_provisioner(provisioner: str) -> Patch:
    """Have the volume of a claim with a selected node made, as setClaimProvisioner in pv_controller.go does."""
    return {"metadata": {"annotations": _named(provisioner)}}


def _named(provisioner: str) -> dict[str, str]:
    return dict.fromkeys(PROVISIONER_ANNOTATIONS, provisioner)


def withdraw_node(annotations: Annotations) -> Patch:
    """Undo `provision_on`."""
    return {"metadata": {"annotations": {SELECTED_NODE: None, annotations.selected_at: None}}}


def await_node(pod: Pod, now: datetime, annotations: Annotations) -> Patch:
    """Mode provision: the pod is left to kube-scheduler, for a node to come."""
    return {"metadata": {"annotations": annotations.ahead_of_node(pod, now)}}


def reserve_volume(reservation: VolumeReservation, annotations: Annotations) -> Patch:
    """Mode annotate: record for which claim the volume is held."""
    return {"metadata": {"annotations": annotations.without_place() | annotations.for_volume(reservation)}}


def commit_volume(
    reservation: VolumeReservation,
    volume: Volume,
    claim: Claim,
    annotations: Annotations,
    ahead: Mapping[str, str] = Map(),
) -> Patch:
    """Mode prebind: the same, and the claimRef in the same write. `ahead`: what records that there is no node yet."""
    values = annotations.without_place() | annotations.for_volume(reservation) | annotations.claim_ref_record(claim)
    ended = annotations.ended_by_commitment()
    values |= dict.fromkeys(key for key in ended if value_of(volume.annotations, key) is not None)
    values |= ahead
    if not names_uid(volume):
        return {"metadata": {"annotations": values}, "spec": {"claimRef": name_reference(claim)}}
    values[BOUND_BY_CONTROLLER] = "yes"
    return {"metadata": {"annotations": values}, "spec": {"claimRef": full_reference(claim)}}


def names_uid(volume: Volume) -> bool:
    """Whether mode prebind commits the volume as kube-scheduler does: with the claim's uid, and the claim untouched.

    The PV controller then takes up the claim itself, once it knows the volume (syncVolume in pv_controller.go), and has
    nothing to add to the volume. If the claim is deleted before the bind, it considers the volume Released: a policy
    other than Retain would delete it, so such a volume is committed to the claim's name only.
    """
    return volume.reclaim_policy == "Retain"


def reserve_claim(reservation: ClaimReservation, annotations: Annotations) -> Patch:
    """Record on the claim which volume is held for it."""
    return {"metadata": {"annotations": annotations.for_claim(reservation)}}


def release_volume(volume: Volume, annotations: Annotations, *, clear_reference: bool) -> Patch:
    """Remove our annotations, and the claimRef with what belongs to it if that is ours as well."""
    keys = annotations.keys_on_volume(volume)
    if not clear_reference:
        return {"metadata": {"annotations": dict.fromkeys(keys)}}
    beside = (BOUND_BY_CONTROLLER, annotations.awaits_node)
    keys += tuple(key for key in beside if value_of(volume.annotations, key) is not None)
    return {"metadata": {"annotations": dict.fromkeys(keys)}, "spec": {"claimRef": None}}


def release_claim(claim: Claim, annotations: Annotations) -> Patch:
    """Remove our annotations from the claim."""
    return {"metadata": {"annotations": dict.fromkeys(annotations.keys_on_claim(claim))}}


def bind_volume(volume: Volume, claim: Claim, annotations: Annotations) -> Patch:
    """Bind, first write. The volume is marked as bound by a controller unless a user's claimRef named the claim.

    A claimRef of our own, of mode prebind or of a hold, counts as a controller's: its record is removed here, and
    without the mark the PV controller would keep it if the claim got another volume.
    """
    ours = volume.claim is None or annotations.claim_ref_is_ours(volume) or names_as_pinned(volume, annotations)
    fulfilled = (*annotations.keys_on_volume(volume), *hold_keys(volume, annotations))
    values: dict[str, str | None] = dict.fromkeys(fulfilled)
    if ours:
        values[BOUND_BY_CONTROLLER] = "yes"
    return {"metadata": {"annotations": values}, "spec": {"claimRef": full_reference(claim)}}


def hold_volume(hold: ReplicaHold, claim: Claim, annotations: Annotations) -> Patch:
    """Hold the volume for a claim to come: by name only, so that it stays Available and fits no other claim."""
    return {"metadata": {"annotations": for_hold(hold, annotations)}, "spec": {"claimRef": name_reference(claim)}}


def end_hold(volume: Volume, annotations: Annotations, *, clear_reference: bool) -> Patch:
    """Remove the annotations of a hold, and the claimRef if that is to go too (`may_end`)."""
    metadata = {"annotations": dict.fromkeys(hold_keys(volume, annotations))}
    return {"metadata": metadata, "spec": {"claimRef": None}} if clear_reference else {"metadata": metadata}


def take_volume(volume: Volume, claim: Claim) -> Patch:
    """Choose a volume as kube-scheduler does (GetBindVolumeToClaim in component-helpers storage/volume/pv_helpers.go).

    Our annotations stay: the controller that made the reservation removes them once the claim is bound.
    """
    spec = {"claimRef": full_reference(claim)}
    if volume.claim is not None or value_of(volume.annotations, BOUND_BY_CONTROLLER) is not None:
        return {"spec": spec}
    return {"metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}, "spec": spec}


def give_back_volume(before: Volume) -> Patch:
    """Undo `take_volume`: restore what the volume had before, and nothing else."""
    if before.claim is not None:
        return {"spec": {"claimRef": {"uid": before.claim.uid or None, "resourceVersion": None}}}
    if value_of(before.annotations, BOUND_BY_CONTROLLER) is not None:
        return {"spec": {"claimRef": None}}
    return {"metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}, "spec": {"claimRef": None}}


def select_node(node: str | None) -> Patch:
    """Request a volume for the claim that is accessible from this node; None undoes that."""
    return {"metadata": {"annotations": {SELECTED_NODE: node}}}


def volume_phase_bound() -> Patch:
    """Bind, second write, to the volume's status. The API server sets the transition time."""
    return {"status": {"phase": "Bound"}}


def volume_phase_available() -> Patch:
    """Undo the second write."""
    return {"status": {"phase": "Available"}}


def bind_claim(claim: Claim, volume_name: str, annotations: Annotations) -> Patch:
    """Bind, third write: name and completion together, because kube-scheduler stops at a name alone."""
    values: dict[str, str | None] = dict.fromkeys(annotations.keys_on_claim(claim))
    values[BIND_COMPLETED] = "yes"
    if claim.volume_name == volume_name:
        return {"metadata": {"annotations": values}}
    values[BOUND_BY_CONTROLLER] = "yes"
    return {"metadata": {"annotations": values}, "spec": {"volumeName": volume_name}}


def claim_status_bound(raw_volume: msgspec.Raw) -> Patch:
    """Bind, fourth write, to the claim's status: exactly what the volume offers (updateClaimStatus)."""
    volume = _RAW_VOLUME.decode(raw_volume)
    status: dict[str, Any] = {"phase": "Bound", "accessModes": volume.spec.access_modes}
    capacity = volume.spec.capacity
    pre_resize = (volume.metadata.annotations or {}).get(PRE_RESIZE_CAPACITY)
    status["capacity"] = capacity if pre_resize is None else {"storage": pre_resize}
    if volume.spec.attributes_class is not None:
        status["currentVolumeAttributesClassName"] = volume.spec.attributes_class
    return {"status": status}
