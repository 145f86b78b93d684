"""The API's JSON of pods and nodes, like kube.decoding.wire for storage."""

from msgspec import UNSET, field

from kube.decoding.wire import (
    Amounts,
    LabelSelector,
    Mapping,
    Metadata,
    NodeSelector,
    NodeSelectorTerm,
    OwnedMetadata,
    RawPart,
    Resources,
    Text,
    Texts,
    Time,
    Wire,
)


class Namespace(Wire):
    metadata: Metadata | None = None


class ContainerPort(Wire):
    host_port: int | None = None
    host_ip: Text = field(default=None, name="hostIP")
    protocol: Text = None


class ContainerRestartRule(Wire):
    action: Text = None


class VolumeMount(Wire):
    bind_mount_options: list[str] | None = None


class Container(Wire):
    name: Text = None
    restart_policy: Text = None
    restart_policy_rules: list[ContainerRestartRule] | None = None
    resources: Resources | None = None
    ports: list[ContainerPort] | None = None
    volume_mounts: list[VolumeMount] | None = None


class ClaimSource(Wire):
    claim_name: Text = None


class GCEDisk(Wire):
    pd_name: Text = None
    read_only: bool | None = None


class AWSDisk(Wire):
    volume_id: Text = field(default=None, name="volumeID")


class AzureDisk(Wire):
    disk_uri: Text = field(default=None, name="diskURI")


class VolumeIDDisk(Wire):
    """A Cinder disk or a Portworx volume."""

    volume_id: Text = field(default=None, name="volumeID")


class ISCSIDisk(Wire):
    iqn: Text = None
    read_only: bool | None = None


class RBDDisk(Wire):
    monitors: Texts = None
    pool: Text = None
    image: Text = None
    read_only: bool | None = None


class PodVolume(Wire):
    name: Text = None
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, object] | None = None
    gce_persistent_disk: GCEDisk | None = None
    aws_elastic_block_store: AWSDisk | None = None
    azure_disk: AzureDisk | None = None
    cinder: VolumeIDDisk | None = None
    portworx_volume: VolumeIDDisk | None = None
    iscsi: ISCSIDisk | None = None
    rbd: RBDDisk | None = None


class PreferredSchedulingTerm(Wire):
    weight: int | None = None
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Wire):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None


class PodAffinityTerm(Wire):
    label_selector: LabelSelector | None = None
    namespaces: Texts = None
    namespace_selector: LabelSelector | None = None
    topology_key: Text = None


class WeightedPodAffinityTerm(Wire):
    weight: int | None = None
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(Wire):
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class Affinity(Wire):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(Wire):
    max_skew: int | None = None
    topology_key: Text = None
    when_unsatisfiable: Text = None
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: Text = None
    node_taints_policy: Text = None
    match_label_keys: Texts = None


class Toleration(Wire):
    key: Text = None
    operator: Text = None
    value: Text = None
    effect: Text = None


class SchedulingGate(Wire):
    name: Text = None


class PodSpec(Wire):
    node_name: Text = None
    scheduler_name: Text = None
    priority: int | None = None
    preemption_policy: Text = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Amounts = None
    resources: Resources | None = None
    volumes: list[PodVolume] | None = None
    node_selector: Mapping = None
    affinity: RawPart = UNSET
    topology_spread_constraints: RawPart = UNSET
    tolerations: list[Toleration] | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    resource_claims: RawPart = UNSET
    scheduling_group: RawPart = UNSET
    host_network: bool | None = None
    host_users: bool | None = None


class Condition(Wire):
    type: Text = None
    status: Text = None
    reason: Text = None


class ContainerStatus(Wire):
    name: Text = None
    resources: Resources | None = None
    allocated_resources: Amounts = None


class PodStatus(Wire):
    phase: Text = None
    nominated_node_name: Text = None
    start_time: Time = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: Resources | None = None
    allocated_resources: Amounts = None


class Pod(Wire):
    metadata: OwnedMetadata | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Taint(Wire):
    key: Text = None
    value: Text = None
    effect: Text = None


class NodeSpec(Wire):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(Wire):
    allocatable: Amounts = None


class Node(Wire):
    metadata: Metadata | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Count(Wire):
    count: int | None = None


class NodeDriver(Wire):
    name: Text = None
    node_id: Text = field(default=None, name="nodeID")
    topology_keys: Texts = None
    allocatable: Count | None = None


class CSINodeSpec(Wire):
    drivers: list[NodeDriver] | None = None


class CSINode(Wire):
    metadata: Metadata | None = None
    spec: CSINodeSpec | None = None
    status: RawPart = UNSET
