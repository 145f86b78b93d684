"""From the API's JSON to the fields that only `why` reads. Every field may be absent or null, as Go's decoder
allows.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from kube.decoding.wire import Amounts, OwnerReference, RawPart, Text, Texts, Time, Wire
from kube.rules.quantity import QuantityError, parse_quantity
from prebinder.why.facts.details import (
    AttachmentDetails,
    ClaimDetails,
    Condition,
    DataSource,
    DeviceClaimRecord,
    EventRecord,
    LeaseRecord,
    PodDetails,
    QuotaRecord,
    SnapshotRecord,
    VolumeDetails,
)
from prebinder.why.facts.facts import Source


class _Owner(OwnerReference):
    name: Text = None


class _Metadata(Wire):
    name: Text = None
    namespace: Text = None
    creation_timestamp: Time = None
    deletion_timestamp: Time = None
    deletion_grace_period_seconds: int | None = None
    finalizers: Texts = None
    owner_references: list[_Owner] | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None


class _Condition(Wire):
    type: Text = None
    status: Text = None
    reason: Text = None
    message: Text = None
    last_transition_time: Time = None


class _Reference(Wire):
    api_group: Text = None
    kind: Text = None
    name: Text = None
    namespace: Text = None


class _ClaimSpec(Wire):
    data_source: _Reference | None = None
    data_source_ref: _Reference | None = None


class _Status(Wire):
    conditions: list[_Condition] | None = None
    capacity: Amounts = None


class _Modification(Wire):
    status: Text = None


class _ClaimStatus(_Status):
    current_volume_attributes_class_name: Text = None
    modify_volume_status: _Modification | None = None


class _Claim(Wire):
    metadata: _Metadata | None = None
    spec: _ClaimSpec | None = None
    status: _ClaimStatus | None = None


class _ResourceClaim(Wire):
    name: Text = None
    resource_claim_name: Text = None
    resource_claim_template_name: Text = None


class _DeviceClaimName(Wire):
    name: Text = None
    resource_claim_name: Text = None


class _PodStatus(_Status):
    resource_claim_statuses: list[_DeviceClaimName] | None = None


class _PodSpec(Wire):
    resource_claims: list[_ResourceClaim] | None = None


class _Pod(Wire):
    metadata: _Metadata | None = None
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _VolumeStatus(Wire):
    message: Text = None


class _Volume(Wire):
    metadata: _Metadata | None = None
    status: _VolumeStatus | None = None


class _Regarding(Wire):
    kind: Text = None
    namespace: Text = None
    name: Text = None
    uid: Text = None


class _EventSource(Wire):
    component: Text = None


class _Series(Wire):
    last_observed_time: Time = None
    count: int | None = None


class _Event(Wire):
    """An Event of either API: the core group's names, and those of events.k8s.io."""

    involved_object: _Regarding | None = None
    regarding: _Regarding | None = None
    type: Text = None
    reason: Text = None
    message: Text = None
    note: Text = None
    source: _EventSource | None = None
    deprecated_source: _EventSource | None = None
    reporting_component: Text = None
    reporting_controller: Text = None
    last_timestamp: Time = None
    deprecated_last_timestamp: Time = None
    event_time: Time = None
    series: _Series | None = None
    count: int | None = None
    deprecated_count: int | None = None


class _LeaseSpec(Wire):
    holder_identity: Text = None
    lease_duration_seconds: float | None = None
    renew_time: Time = None


class _Lease(Wire):
    metadata: _Metadata | None = None
    spec: _LeaseSpec | None = None


class _QuotaStatus(Wire):
    hard: Amounts = None
    used: Amounts = None


class _Quota(Wire):
    metadata: _Metadata | None = None
    status: _QuotaStatus | None = None


class _VolumeError(Wire):
    message: Text = None


class _AttachmentStatus(Wire):
    attach_error: _VolumeError | None = None
    detach_error: _VolumeError | None = None


class _Attachment(Wire):
    metadata: _Metadata | None = None
    status: _AttachmentStatus | None = None


class _SnapshotStatus(Wire):
    ready_to_use: bool | None = None
    bound_volume_snapshot_content_name: Text = None
    restore_size: str | int | float | None = None
    error: _VolumeError | None = None


class _SnapshotSpec(Wire):
    source: dict[str, Text] | None = None


class _Snapshot(Wire):
    metadata: _Metadata | None = None
    spec: _SnapshotSpec | None = None
    status: _SnapshotStatus | None = None


class _DeviceClaimStatus(Wire):
    allocation: RawPart = UNSET


class _DeviceClaim(Wire):
    metadata: _Metadata | None = None
    status: _DeviceClaimStatus | None = None


_CLAIM: Final = msgspec.json.Decoder(_Claim)
_POD: Final = msgspec.json.Decoder(_Pod)
_VOLUME: Final = msgspec.json.Decoder(_Volume)
_EVENT: Final = msgspec.json.Decoder(_Event)
_LEASE: Final = msgspec.json.Decoder(_Lease)
_QUOTA: Final = msgspec.json.Decoder(_Quota)
_ATTACHMENT: Final = msgspec.json.Decoder(_Attachment)
_SNAPSHOT: Final = msgspec.json.Decoder(_Snapshot)
_DEVICE_CLAIM: Final = msgspec.json.Decoder(_DeviceClaim)


class EventAbout(Struct, frozen=True):
    """An Event, and its object: kind and key."""

    kind: str
    key: str
    event: EventRecord


def claim_details(raw: bytes | Raw) -> ClaimDetails:
    decoded = _CLAIM.decode(raw)
    metadata, spec = decoded.metadata or _Metadata(), decoded.spec or _ClaimSpec()
    status = decoded.status or _ClaimStatus()
    modification = status.modify_volume_status or _Modification()
    return ClaimDetails(
        data_source=_data_source(spec.data_source_ref or spec.data_source),
        finalizers=tuple(metadata.finalizers or ()),
        deleted=metadata.deletion_timestamp,
        conditions=_conditions(status.conditions),
        capacity=_amounts(status.capacity).get("storage", 0),
        labels=tuple(sorted((key, value or "") for key, value in (metadata.labels or {}).items())),
        attributes_class=status.current_volume_attributes_class_name or "",
        modification=modification.status or "",
    )


def pod_details(raw: bytes | Raw) -> PodDetails:
    decoded = _POD.decode(raw)
    metadata, spec, status = decoded.metadata or _Metadata(), decoded.spec or _PodSpec(), decoded.status or _PodStatus()
    owners = (owner for owner in metadata.owner_references or () if owner.controller)
    owner = next(((owner.kind or "", owner.name or "") for owner in owners), None)
    made = {each.name: each.resource_claim_name for each in status.resource_claim_statuses or ()}
    claims = spec.resource_claims or ()
    names = (claim.resource_claim_name or made.get(claim.name) for claim in claims)
    # A status without a name stands for a claim that is not needed.
    templates = (claim.resource_claim_template_name for claim in claims if claim.name not in made)
    return PodDetails(
        owner=owner,
        conditions=_conditions(status.conditions),
        deleted=metadata.deletion_timestamp,
        grace=metadata.deletion_grace_period_seconds,
        finalizers=tuple(metadata.finalizers or ()),
        resource_claims=tuple(filter(None, names)),
        unused_templates=tuple(filter(None, templates)),
    )


def volume_details(raw: bytes | Raw) -> VolumeDetails:
    decoded = _VOLUME.decode(raw)
    metadata, status = decoded.metadata or _Metadata(), decoded.status or _VolumeStatus()
    return VolumeDetails(tuple(metadata.finalizers or ()), metadata.deletion_timestamp, status.message or "")


def event(raw: bytes | Raw) -> EventAbout:
    decoded = _EVENT.decode(raw)
    about = decoded.regarding or decoded.involved_object or _Regarding()
    source = decoded.source or decoded.deprecated_source or _EventSource()
    reporter = decoded.reporting_controller or decoded.reporting_component or source.component or ""
    series = decoded.series or _Series()
    times = (series.last_observed_time, decoded.last_timestamp, decoded.deprecated_last_timestamp, decoded.event_time)
    record = EventRecord(
        type=decoded.type or "",
        reason=decoded.reason or "",
        note=decoded.note or decoded.message or "",
        reporter=reporter,
        last=next((moment for moment in times if moment is not None), None),
        count=series.count or decoded.count or decoded.deprecated_count or 1,
        uid=about.uid or "",
    )
    name, namespace = about.name or "", about.namespace or ""
    return EventAbout(about.kind or "", f"{namespace}/{name}" if namespace else name, record)


def lease(raw: bytes | Raw, sweeps: str) -> LeaseRecord:
    """Return a Lease; `sweeps` is the key of the annotation with the reports of sweeps."""
    decoded = _LEASE.decode(raw)
    metadata, spec = decoded.metadata or _Metadata(), decoded.spec or _LeaseSpec()
    return LeaseRecord(
        namespace=metadata.namespace or "default",
        name=metadata.name or "",
        holder=spec.holder_identity or "",
        renewed=spec.renew_time,
        duration=spec.lease_duration_seconds or 0.0,
        sweeps=(metadata.annotations or {}).get(sweeps) or "",
    )


def quota(raw: bytes | Raw) -> QuotaRecord:
    decoded = _QUOTA.decode(raw)
    metadata, status = decoded.metadata or _Metadata(), decoded.status or _QuotaStatus()
    hard, used = _amounts(status.hard), _amounts(status.used)
    return QuotaRecord(
        metadata.namespace or "default", metadata.name or "", tuple(sorted(hard.items())), tuple(sorted(used.items()))
    )


def attachment_details(raw: bytes | Raw) -> AttachmentDetails:
    decoded = _ATTACHMENT.decode(raw)
    status = decoded.status or _AttachmentStatus()
    attach, detach = status.attach_error or _VolumeError(), status.detach_error or _VolumeError()
    metadata = decoded.metadata or _Metadata()
    return AttachmentDetails(
        attach.message or "", detach.message or "", metadata.deletion_timestamp, metadata.creation_timestamp
    )


def snapshot(raw: bytes | Raw) -> SnapshotRecord:
    decoded = _SNAPSHOT.decode(raw)
    metadata, status = decoded.metadata or _Metadata(), decoded.status or _SnapshotStatus()
    source = (decoded.spec or _SnapshotSpec()).source or {}
    return SnapshotRecord(
        namespace=metadata.namespace or "default",
        name=metadata.name or "",
        claim=source.get("persistentVolumeClaimName") or "",
        ready=bool(status.ready_to_use),
        content=status.bound_volume_snapshot_content_name or "",
        restore_size=_amounts({"size": status.restore_size}).get("size", 0),
        error=(status.error or _VolumeError()).message or "",
    )


def device_claim(raw: bytes | Raw) -> DeviceClaimRecord:
    decoded = _DEVICE_CLAIM.decode(raw)
    metadata, status = decoded.metadata or _Metadata(), decoded.status or _DeviceClaimStatus()
    allocated = status.allocation is not UNSET and bytes(status.allocation) != b"null"
    return DeviceClaimRecord(metadata.namespace or "default", metadata.name or "", allocated)


def detail_decoders(sweeps: str) -> Mapping[Source, Callable[[bytes | Raw], Any]]:
    """Return how the objects of each source are decoded; of the other sources nothing is read that others do not read.

    `sweeps` is the key of the annotation on Leases with the reports of sweeps.
    """
    return {
        Source.CLAIMS: claim_details,
        Source.PODS: pod_details,
        Source.ATTACHMENTS: attachment_details,
        Source.EVENTS: event,
        Source.LEASES: partial(lease, sweeps=sweeps),
        Source.QUOTAS: quota,
        Source.SNAPSHOTS: snapshot,
        Source.DEVICE_CLAIMS: device_claim,
    }


def _data_source(reference: _Reference | None) -> DataSource | None:
    if reference is None:
        return None
    return DataSource(reference.kind or "", reference.name or "", reference.api_group or "", reference.namespace or "")


def _conditions(conditions: Iterable[_Condition] | None) -> tuple[Condition, ...]:
    return tuple(
        Condition(
            condition.type or "",
            condition.status or "",
            condition.reason or "",
            condition.message or "",
            condition.last_transition_time,
        )
        for condition in conditions or ()
    )


def _amounts(amounts: Amounts) -> dict[str, int]:
    """Return quantities in nano-units; an invalid one counts as absent."""
    read: dict[str, int] = {}
    for name, quantity in (amounts or {}).items():
        try:
            read[name] = 0 if quantity is None else parse_quantity(quantity)
        except QuantityError:
            continue
    return read
