"""The parts of the API's JSON that only `why` reads. Every field may be absent or null, as Go's decoder allows."""

from msgspec import UNSET

from kube.decoding.wire import Amounts, OwnerReference, RawPart, Text, Texts, Time, Wire


class Owner(OwnerReference):
    name: Text = None


class Metadata(Wire):
    name: Text = None
    namespace: Text = None
    creation_timestamp: Time = None
    deletion_timestamp: Time = None
    deletion_grace_period_seconds: int | None = None
    finalizers: Texts = None
    owner_references: list[Owner] | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None


class Condition(Wire):
    type: Text = None
    status: Text = None
    reason: Text = None
    message: Text = None
    last_transition_time: Time = None


class Reference(Wire):
    api_group: Text = None
    kind: Text = None
    name: Text = None
    namespace: Text = None


class ClaimSpec(Wire):
    data_source: Reference | None = None
    data_source_ref: Reference | None = None


class Status(Wire):
    conditions: list[Condition] | None = None
    capacity: Amounts = None


class Modification(Wire):
    status: Text = None


class ClaimStatus(Status):
    allocated_resource_statuses: dict[str, Text] | None = None
    current_volume_attributes_class_name: Text = None
    modify_volume_status: Modification | None = None


class Claim(Wire):
    metadata: Metadata | None = None
    spec: ClaimSpec | None = None
    status: ClaimStatus | None = None


class ResourceClaim(Wire):
    name: Text = None
    resource_claim_name: Text = None
    resource_claim_template_name: Text = None


class DeviceClaimName(Wire):
    name: Text = None
    resource_claim_name: Text = None


class Waiting(Wire):
    reason: Text = None
    message: Text = None


class ContainerState(Wire):
    waiting: Waiting | None = None
    running: RawPart = UNSET
    terminated: RawPart = UNSET


class ContainerStatus(Wire):
    state: ContainerState | None = None


class PodStatus(Status):
    resource_claim_statuses: list[DeviceClaimName] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None


class PodSpec(Wire):
    resource_claims: list[ResourceClaim] | None = None


class Pod(Wire):
    metadata: Metadata | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Conditioned(Wire):
    metadata: Metadata | None = None
    status: Status | None = None


class WorkloadState(Wire):
    name: Text = None
    state: ContainerState | None = None
    restart_count: int | None = None


class WorkloadStatus(Wire):
    phase: Text = None
    init_container_statuses: list[WorkloadState] | None = None
    container_statuses: list[WorkloadState] | None = None


class Variable(Wire):
    name: Text = None
    value: Text = None


class Container(Wire):
    name: Text = None
    image: Text = None
    command: Texts = None
    args: Texts = None
    env: list[Variable] | None = None


class WorkloadSpec(Wire):
    node_name: Text = None
    init_containers: list[Container] | None = None
    containers: list[Container] | None = None


class WorkloadPod(Wire):
    """A pod as one that may run a driver or a provisioner."""

    metadata: Metadata | None = None
    spec: WorkloadSpec | None = None
    status: WorkloadStatus | None = None


class NodeStatus(Status):
    volumes_in_use: Texts = None


class Node(Wire):
    metadata: Metadata | None = None
    status: NodeStatus | None = None


class VolumeStatus(Wire):
    message: Text = None
    last_phase_transition_time: Time = None


class Namespace(Wire):
    metadata: Metadata | None = None


class Volume(Wire):
    metadata: Metadata | None = None
    status: VolumeStatus | None = None


class Regarding(Wire):
    kind: Text = None
    namespace: Text = None
    name: Text = None
    uid: Text = None


class EventSource(Wire):
    component: Text = None


class Series(Wire):
    last_observed_time: Time = None
    count: int | None = None


class Event(Wire):
    """An Event of either API: the core group's names, and those of events.k8s.io."""

    involved_object: Regarding | None = None
    regarding: Regarding | None = None
    type: Text = None
    reason: Text = None
    message: Text = None
    note: Text = None
    source: EventSource | None = None
    deprecated_source: EventSource | None = None
    reporting_component: Text = None
    reporting_controller: Text = None
    last_timestamp: Time = None
    deprecated_last_timestamp: Time = None
    event_time: Time = None
    series: Series | None = None
    count: int | None = None
    deprecated_count: int | None = None


class LeaseSpec(Wire):
    holder_identity: Text = None
    lease_duration_seconds: float | None = None
    renew_time: Time = None


class Lease(Wire):
    metadata: Metadata | None = None
    spec: LeaseSpec | None = None


class QuotaStatus(Wire):
    hard: Amounts = None
    used: Amounts = None


class Quota(Wire):
    metadata: Metadata | None = None
    status: QuotaStatus | None = None


class VolumeError(Wire):
    message: Text = None


class AttachmentStatus(Wire):
    attach_error: VolumeError | None = None
    detach_error: VolumeError | None = None


class Attachment(Wire):
    metadata: Metadata | None = None
    status: AttachmentStatus | None = None


class SnapshotStatus(Wire):
    ready_to_use: bool | None = None
    bound_volume_snapshot_content_name: Text = None
    restore_size: str | int | float | None = None
    error: VolumeError | None = None


class SnapshotSpec(Wire):
    source: dict[str, Text] | None = None


class Snapshot(Wire):
    metadata: Metadata | None = None
    spec: SnapshotSpec | None = None
    status: SnapshotStatus | None = None


class DeviceClaimStatus(Wire):
    allocation: RawPart = UNSET


class DeviceClaim(Wire):
    metadata: Metadata | None = None
    status: DeviceClaimStatus | None = None
