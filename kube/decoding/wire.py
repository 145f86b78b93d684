"""The API's JSON as it arrives, reduced to the fields that are read.

Every field may be absent or null, as Go's decoder allows; a field of a wrong type makes only its own object malformed.
The meaning of the values is defined in kube.decoding.decode_storage, kube.decoding.decode_pod and
kube.decoding.decode_node. Parts that many objects repeat byte by byte stay raw here, so that each distinct one is
decoded once.
"""

from datetime import datetime
from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

Text = str | None
Texts = list[str] | None
Mapping = dict[str, str | None] | None
Amount = str | int | float | None
Amounts = dict[str, Amount] | None
Time = Annotated[datetime, Meta(tz=True)] | None
RawPart = Raw | UnsetType
"""JSON not decoded yet; null is the text `null`, and UNSET means absent."""


class Wire(Struct, rename="camel", gc=False):
    """Base of everything below: camelCase names, unknown fields ignored."""


class Metadata(Wire):
    name: Text = None
    namespace: Text = None
    uid: Text = None
    resource_version: Text = None
    creation_timestamp: Time = None
    deletion_timestamp: Time = None
    labels: RawPart = UNSET
    annotations: RawPart = UNSET


class Requirement(Wire):
    key: Text = None
    operator: Text = None
    values: Texts = None


class LabelSelector(Wire):
    match_labels: Mapping = None
    match_expressions: list[Requirement] | None = None


class NodeSelectorTerm(Wire):
    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Wire):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class VolumeNodeAffinity(Wire):
    required: NodeSelector | None = None


class Resources(Wire):
    requests: Amounts = None


class DataSource(Wire):
    api_group: Text = None
    kind: Text = None
    name: Text = None
    namespace: Text = None


class ClaimSpec(Wire):
    access_modes: Texts = None
    resources: Resources | None = None
    storage_class_name: Text = None
    volume_mode: Text = None
    volume_name: Text = None
    volume_attributes_class_name: Text = None
    selector: RawPart = UNSET
    data_source: RawPart = UNSET
    data_source_ref: RawPart = UNSET


class Status(Wire):
    phase: Text = None


class ClaimStatus(Wire):
    phase: Text = None
    health_status: RawPart = UNSET


class OwnerReference(Wire):
    kind: Text = None
    uid: Text = None
    controller: bool | None = None


class OwnedMetadata(Metadata):
    owner_references: list[OwnerReference] | None = None


class Claim(Wire):
    metadata: OwnedMetadata | None = None
    spec: ClaimSpec | None = None
    status: ClaimStatus | None = None


class ClaimReference(Wire):
    namespace: Text = None
    name: Text = None
    uid: Text = None


class CSISource(Wire):
    driver: Text = None
    volume_handle: Text = None


OtherSource = dict[str, object] | None


class VolumeSpec(Wire):
    """A volume's source is whichever of the fields from `csi` on is set."""

    capacity: Amounts = None
    access_modes: Texts = None
    storage_class_name: Text = None
    volume_mode: Text = None
    volume_attributes_class_name: Text = None
    persistent_volume_reclaim_policy: Text = None
    claim_ref: ClaimReference | None = None
    node_affinity: RawPart = UNSET
    csi: CSISource | None = None
    local: OtherSource = None
    host_path: OtherSource = None
    nfs: OtherSource = None
    iscsi: OtherSource = None
    fc: OtherSource = None
    rbd: OtherSource = None
    cephfs: OtherSource = None
    cinder: OtherSource = None
    glusterfs: OtherSource = None
    flocker: OtherSource = None
    flex_volume: OtherSource = None
    gce_persistent_disk: OtherSource = None
    aws_elastic_block_store: OtherSource = None
    azure_file: OtherSource = None
    azure_disk: OtherSource = None
    vsphere_volume: OtherSource = None
    photon_persistent_disk: OtherSource = None
    portworx_volume: OtherSource = None
    quobyte: OtherSource = None
    scale_io: OtherSource = field(default=None, name="scaleIO")
    storageos: OtherSource = None


class Volume(Wire):
    metadata: Metadata | None = None
    spec: VolumeSpec | None = None
    status: Status | None = None


class TopologyLabel(Wire):
    key: Text = None
    values: Texts = None


class TopologyTerm(Wire):
    match_label_expressions: list[TopologyLabel] | None = None


class StorageClass(Wire):
    metadata: Metadata | None = None
    provisioner: Text = None
    volume_binding_mode: Text = None
    allowed_topologies: list[TopologyTerm] | None = None
    parameters: RawPart = UNSET


class ManagedFields(Wire):
    time: Time = None
    fields_v1: RawPart = field(default=UNSET, name="fieldsV1")


class ManagedMetadata(Metadata):
    managed_fields: list[ManagedFields] | None = None


class CSIStorageCapacity(Wire):
    metadata: ManagedMetadata | None = None
    storage_class_name: Text = None
    node_topology: RawPart = UNSET
    capacity: Amount = None
    maximum_volume_size: Amount = None


class CSIDriverSpec(Wire):
    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Wire):
    metadata: Metadata | None = None
    spec: CSIDriverSpec | None = None


class AttachmentSource(Wire):
    persistent_volume_name: Text = None


class AttachmentSpec(Wire):
    attacher: Text = None
    node_name: Text = None
    source: AttachmentSource | None = None


class AttachmentStatus(Wire):
    attached: bool | None = None


class VolumeAttachment(Wire):
    metadata: Metadata | None = None
    spec: AttachmentSpec | None = None
    status: AttachmentStatus | None = None


class BudgetMetadata(Metadata):
    generation: int | None = None


class BudgetSpec(Wire):
    selector: RawPart = UNSET


class BudgetStatus(Wire):
    observed_generation: int | None = None
    disruptions_allowed: int | None = None


class PodDisruptionBudget(Wire):
    metadata: BudgetMetadata | None = None
    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None
