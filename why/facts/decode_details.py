"""From the API's JSON to the fields that only `why` reads."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from kube.decoding.wire import Amounts
from kube.rules.quantity import QuantityError, parse_quantity
from why.facts import wire
from why.facts.details import (
    AttachmentDetails,
    ClaimDetails,
    Condition,
    ConditionedRecord,
    DataSource,
    DeviceClaimRecord,
    DriverContainer,
    DriverPod,
    EventRecord,
    LeaseDetails,
    NodeDetails,
    PodDetails,
    QuotaRecord,
    SnapshotRecord,
    VolumeDetails,
)
from why.facts.facts import Source

_CLAIM: Final = msgspec.json.Decoder(wire.Claim)
_POD: Final = msgspec.json.Decoder(wire.Pod)
_NODE: Final = msgspec.json.Decoder(wire.Node)
_VOLUME: Final = msgspec.json.Decoder(wire.Volume)
_NAMESPACE: Final = msgspec.json.Decoder(wire.Namespace)
_EVENT: Final = msgspec.json.Decoder(wire.Event)
_LEASE: Final = msgspec.json.Decoder(wire.Lease)
_QUOTA: Final = msgspec.json.Decoder(wire.Quota)
_ATTACHMENT: Final = msgspec.json.Decoder(wire.Attachment)
_SNAPSHOT: Final = msgspec.json.Decoder(wire.Snapshot)
_DEVICE_CLAIM: Final = msgspec.json.Decoder(wire.DeviceClaim)
_CONDITIONED: Final = msgspec.json.Decoder(wire.Conditioned)
_WORKLOAD_POD: Final = msgspec.json.Decoder(wire.WorkloadPod)

_OF_DRIVERS: Final = (b"--csi-address", b"--driver", b"-provisioner", b"PROVISIONER_NAME")
"""What the pods of CSI drivers and of provisioners without CSI contain: others are not decoded as such."""

_NAMING: Final = frozenset({"PROVISIONER_NAME", "DRIVER_NAME", "CSI_DRIVER_NAME"})
"""Environment variables with the name of the driver."""

_BEFORE_CONTAINERS: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""What a container waits for by its status until the kubelet comes to it."""


class EventAbout(Struct, frozen=True):
    """An Event, and its object: kind and key."""

    kind: str
    key: str
    event: EventRecord


def claim_details(raw: bytes | Raw) -> ClaimDetails:
    decoded = _CLAIM.decode(raw)
    metadata, spec = decoded.metadata or wire.Metadata(), decoded.spec or wire.ClaimSpec()
    status = decoded.status or wire.ClaimStatus()
    modification = status.modify_volume_status or wire.Modification()
    return ClaimDetails(
        data_source=_data_source(spec.data_source_ref or spec.data_source),
        finalizers=tuple(metadata.finalizers or ()),
        deleted=metadata.deletion_timestamp,
        conditions=_conditions(status.conditions),
        capacity=_amounts(status.capacity).get("storage", 0),
        labels=tuple(sorted((key, value or "") for key, value in (metadata.labels or {}).items())),
        attributes_class=status.current_volume_attributes_class_name or "",
        modification=modification.status or "",
        expansion=(status.allocated_resource_statuses or {}).get("storage") or "",
    )


def pod_details(raw: bytes | Raw) -> PodDetails:
    decoded = _POD.decode(raw)
    metadata, spec, status = (
        decoded.metadata or wire.Metadata(),
        decoded.spec or wire.PodSpec(),
        decoded.status or wire.PodStatus(),
    )
    owners = (owner for owner in metadata.owner_references or () if owner.controller)
    owner = next(((owner.kind or "", owner.name or "") for owner in owners), None)
    made = {each.name: each.resource_claim_name for each in status.resource_claim_statuses or ()}
    claims = spec.resource_claims or ()
    names = (claim.resource_claim_name or made.get(claim.name) for claim in claims)
    # A status without a name stands for a claim that is not needed.
    templates = (claim.resource_claim_template_name for claim in claims if claim.name not in made)
    states = _states(status)
    return PodDetails(
        owner=owner,
        conditions=_conditions(status.conditions),
        deleted=metadata.deletion_timestamp,
        grace=metadata.deletion_grace_period_seconds,
        finalizers=tuple(metadata.finalizers or ()),
        resource_claims=tuple(filter(None, names)),
        unused_templates=tuple(filter(None, templates)),
        began=_began(states),
        waits=tuple(state.waiting.message for state in states if state.waiting and state.waiting.message),
    )


def driver_pod(raw: bytes | Raw) -> DriverPod | None:
    """Return a pod as one of a driver, None if nothing in it looks like one."""
    text = bytes(raw)
    if not any(mark in text for mark in _OF_DRIVERS):
        return None
    decoded = _WORKLOAD_POD.decode(raw)
    metadata, spec = decoded.metadata or wire.Metadata(), decoded.spec or wire.WorkloadSpec()
    status = decoded.status or wire.WorkloadStatus()
    states = {each.name: each for each in (*(status.init_container_statuses or ()), *(status.container_statuses or ()))}
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    return DriverPod(
        namespace=metadata.namespace or "default",
        name=metadata.name or "",
        node_name=spec.node_name or "",
        per_node=any(owner.kind == "DaemonSet" for owner in metadata.owner_references or () if owner.controller),
        ended=status.phase in {"Succeeded", "Failed"},
        containers=tuple(_driver_container(each, states.get(each.name)) for each in containers),
    )


def _driver_container(container: wire.Container, state: wire.WorkloadState | None) -> DriverContainer:
    waiting = state.state.waiting if state is not None and state.state is not None else None
    named = (each.value for each in container.env or () if each.name in _NAMING)
    return DriverContainer(
        name=container.name or "",
        image=container.image or "",
        words=(*(container.command or ()), *(container.args or ()), *filter(None, named)),
        waits=(waiting.reason or "") if waiting is not None else "",
        message=(waiting.message or "") if waiting is not None else "",
        restarts=(state.restart_count or 0) if state is not None else 0,
    )


def _states(status: wire.PodStatus) -> list[wire.ContainerState]:
    containers = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    return [each.state for each in containers if each.state is not None]


def _began(states: Sequence[wire.ContainerState]) -> bool:
    """Whether a container has run, or waits for something that comes after the mounts (syncPod in kubelet.go)."""
    waits = (state.waiting.reason or "" for state in states if state.waiting is not None)
    return any(reason not in _BEFORE_CONTAINERS for reason in waits) or any(
        part is not UNSET and bytes(part) != b"null" for state in states for part in (state.running, state.terminated)
    )


def node_details(raw: bytes | Raw) -> NodeDetails:
    status = _NODE.decode(raw).status or wire.NodeStatus()
    ready = next((each for each in _conditions(status.conditions) if each.type == "Ready"), None)
    return NodeDetails(ready, tuple(status.volumes_in_use or ()))


def volume_details(raw: bytes | Raw) -> VolumeDetails:
    decoded = _VOLUME.decode(raw)
    metadata, status = decoded.metadata or wire.Metadata(), decoded.status or wire.VolumeStatus()
    return VolumeDetails(
        tuple(metadata.finalizers or ()),
        metadata.deletion_timestamp,
        status.message or "",
        status.last_phase_transition_time,
    )


def namespace_created(raw: bytes | Raw) -> datetime | None:
    """Return when a Namespace was created."""
    return (_NAMESPACE.decode(raw).metadata or wire.Metadata()).creation_timestamp


def event(raw: bytes | Raw) -> EventAbout:
    decoded = _EVENT.decode(raw)
    about = decoded.regarding or decoded.involved_object or wire.Regarding()
    source = decoded.source or decoded.deprecated_source or wire.EventSource()
    reporter = decoded.reporting_controller or decoded.reporting_component or source.component or ""
    series = decoded.series or wire.Series()
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


def lease(raw: bytes | Raw, sweeps: str) -> LeaseDetails:
    """Return a Lease; `sweeps` is the key of the annotation with the reports of sweeps."""
    return lease_details(_LEASE.decode(raw), sweeps)


def lease_details(decoded: wire.Lease, sweeps: str = "") -> LeaseDetails:
    """Return a decoded Lease; `sweeps` as of `lease`."""
    metadata, spec = decoded.metadata or wire.Metadata(), decoded.spec or wire.LeaseSpec()
    return LeaseDetails(
        namespace=metadata.namespace or "default",
        name=metadata.name or "",
        holder=spec.holder_identity or "",
        renewed=spec.renew_time,
        duration=spec.lease_duration_seconds or 0.0,
        sweeps=(metadata.annotations or {}).get(sweeps) or "",
    )


def quota(raw: bytes | Raw) -> QuotaRecord:
    decoded = _QUOTA.decode(raw)
    metadata, status = decoded.metadata or wire.Metadata(), decoded.status or wire.QuotaStatus()
    hard, used = _amounts(status.hard), _amounts(status.used)
    return QuotaRecord(
        metadata.namespace or "default", metadata.name or "", tuple(sorted(hard.items())), tuple(sorted(used.items()))
    )


def attachment_details(raw: bytes | Raw) -> AttachmentDetails:
    decoded = _ATTACHMENT.decode(raw)
    status = decoded.status or wire.AttachmentStatus()
    attach, detach = status.attach_error or wire.VolumeError(), status.detach_error or wire.VolumeError()
    metadata = decoded.metadata or wire.Metadata()
    return AttachmentDetails(
        attach.message or "",
        detach.message or "",
        metadata.deletion_timestamp,
        metadata.creation_timestamp,
        tuple(metadata.finalizers or ()),
    )


def snapshot(raw: bytes | Raw) -> SnapshotRecord:
    decoded = _SNAPSHOT.decode(raw)
    metadata, status = decoded.metadata or wire.Metadata(), decoded.status or wire.SnapshotStatus()
    source = (decoded.spec or wire.SnapshotSpec()).source or {}
    return SnapshotRecord(
        namespace=metadata.namespace or "default",
        name=metadata.name or "",
        claim=source.get("persistentVolumeClaimName") or "",
        ready=bool(status.ready_to_use),
        content=status.bound_volume_snapshot_content_name or "",
        restore_size=_amounts({"size": status.restore_size}).get("size", 0),
        error=(status.error or wire.VolumeError()).message or "",
    )


def device_claim(raw: bytes | Raw) -> DeviceClaimRecord:
    decoded = _DEVICE_CLAIM.decode(raw)
    metadata, status = decoded.metadata or wire.Metadata(), decoded.status or wire.DeviceClaimStatus()
    allocated = status.allocation is not UNSET and bytes(status.allocation) != b"null"
    return DeviceClaimRecord(metadata.namespace or "default", metadata.name or "", allocated)


def conditioned(raw: bytes | Raw) -> ConditionedRecord:
    """Return an object by its conditions."""
    decoded = _CONDITIONED.decode(raw)
    status = decoded.status or wire.Status()
    return ConditionedRecord((decoded.metadata or wire.Metadata()).name or "", _conditions(status.conditions))


def detail_decoders(sweeps: str) -> Mapping[Source, Callable[[bytes | Raw], Any]]:
    """Return how the objects of each source are decoded; of the other sources nothing is read that others do not read.

    `sweeps` is the key of the annotation on Leases with the reports of sweeps.
    """
    return {
        Source.CLAIMS: claim_details,
        Source.PODS: pod_details,
        Source.NODES: node_details,
        Source.ATTACHMENTS: attachment_details,
        Source.EVENTS: event,
        Source.LEASES: partial(lease, sweeps=sweeps),
        Source.QUOTAS: quota,
        Source.SNAPSHOTS: snapshot,
        Source.DEVICE_CLAIMS: device_claim,
        Source.NAMESPACES: namespace_created,
        Source.NODE_POOLS: conditioned,
        Source.NODE_CLAIMS: conditioned,
    }


def _data_source(reference: wire.Reference | None) -> DataSource | None:
    if reference is None:
        return None
    return DataSource(reference.kind or "", reference.name or "", reference.api_group or "", reference.namespace or "")


def _conditions(conditions: Iterable[wire.Condition] | None) -> tuple[Condition, ...]:
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
