"""Kubernetes objects as slim frozen records: only the fields that a decision uses.

Records are flat, hold interned strings and tuples, and are kept out of the cyclic garbage collector, because a cluster
has hundreds of thousands of them. Quantities are integers in nano-units (see kube.rules.quantity), so they are exact. A
field that Kubernetes defaults carries the default; `None` always means "not set" and is explained.
`kube.decoding.decode` makes records from the API's JSON.
"""

from datetime import datetime
from typing import Final

from msgspec import Struct

from kube.objects.constraints import Constraints
from kube.objects.labels import LabelSelector, NodeSelector, Pairs
from kube.objects.reports import ClaimHealth, StorageReports

READ_WRITE_ONCE: Final = "ReadWriteOnce"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

BETA_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
"""Which provisioner made a volume. A volume without it is static."""

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
DEFAULT_CLASS_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
PROVISIONER_ANNOTATIONS: Final = (
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
)
"""The PV controller writes here which provisioner is to provision the volume. From then on a volume may be on its
way.
"""


class Namespaced(Struct, frozen=True, gc=False):
    """What every object of a namespaced kind has."""

    namespace: str
    name: str
    uid: str
    resource_version: int

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class ClaimReference(Struct, frozen=True, gc=False):
    """`spec.claimRef` of a volume. Empty strings are fields that are absent; an empty reference is still one."""

    namespace: str = ""
    name: str = ""
    uid: str = ""

    @property
    def key(self) -> str:
        """Key of the claim that it names, `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class Claim(Namespaced, frozen=True, gc=False):
    """A PersistentVolumeClaim.

    `owner` is the uid of its controller, which for a generic ephemeral volume is the pod; empty if there is none.
    `storage_class` is the effective class: the beta annotation if present (even empty), else the field; None if neither
    is set. `clone_of` is the claim of its namespace whose data it gets, and `snapshot` the VolumeSnapshot; empty if
    there is none. `annotations` keeps only keys that some rule reads (kube.decoding.decode.KEPT_ANNOTATIONS).
    """

    storage_class: str | None = None
    request: int = 0
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    selector: LabelSelector | None = None
    attributes_class: str = ""
    volume_name: str = ""
    owner: str = ""
    phase: str = "Pending"
    deleting: bool = False
    created: datetime | None = None
    annotations: Pairs = ()
    has_data_source: bool = False
    clone_of: str = ""
    snapshot: str = ""
    health: ClaimHealth | None = None

    @property
    def bind_completed(self) -> bool:
        """Whether the PV controller considers the claim bound, with a volume or without (syncBoundClaim)."""
        return value_of(self.annotations, BIND_COMPLETED) is not None

    @property
    def fully_bound(self) -> bool:
        """Whether kube-scheduler considers the claim bound (isPVCFullyBound in volumebinding/binder.go)."""
        return bool(self.volume_name) and self.bind_completed

    @property
    def bind_finished(self) -> bool:
        """Whether every write of a bind is done: the claim's status comes last."""
        return self.fully_bound and self.phase != "Pending"


class Volume(Struct, frozen=True, gc=False):
    """A PersistentVolume.

    `phase` is empty when the object has none yet, which is not Available. `node_affinity` is None when there is no
    `spec.nodeAffinity.required`. `driver` and `handle` are empty for volumes that are not CSI. `source` is the name of
    the field with the volume's source: csi, local, hostPath, nfs, ...
    """

    name: str
    uid: str
    resource_version: int
    storage_class: str | None = None
    capacity: int = 0
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    node_affinity: NodeSelector | None = None
    claim: ClaimReference | None = None
    phase: str = ""
    reclaim_policy: str = "Retain"
    deleting: bool = False
    source: str = ""
    driver: str = ""
    handle: str = ""
    labels: Pairs = ()
    annotations: Pairs = ()
    created: datetime | None = None


class StorageClass(Struct, frozen=True, gc=False):
    """A StorageClass. `binding_mode` is None if the object has none, which the binder treats as an error.

    `allowed_topologies` are its allowedTopologies as a node selector, None if volumes may be provisioned anywhere.
    `parameters` are passed to the provisioner.
    """

    name: str
    uid: str
    resource_version: int
    provisioner: str = ""
    binding_mode: str | None = None
    allowed_topologies: NodeSelector | None = None
    is_default: bool = False
    created: datetime | None = None
    annotations: Pairs = ()
    parameters: Pairs = ()

    @property
    def provisions(self) -> bool:
        """Whether volumes are provisioned for its claims."""
        return self.provisioner not in ("", NO_PROVISIONER)


class Toleration(Struct, frozen=True, gc=False):
    """Defaults as in Kubernetes: operator Equal, an empty effect tolerates every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Taint(Struct, frozen=True, gc=False):
    key: str
    effect: str
    value: str = ""


class PodClaim(Struct, frozen=True, gc=False):
    """A claim a pod uses. For a generic ephemeral volume the claim's name is `<pod>-<volume>`."""

    name: str
    ephemeral: bool = False


class Pod(Namespaced, frozen=True, gc=False):
    """A Pod. `requests` are the effective requests (KEP-753 restartable init containers and overhead included).

    `node_affinity` is requiredDuringSchedulingIgnoredDuringExecution, None if there is none. `scored` is (cpu, memory)
    with upstream's defaults for containers that request nothing, None if equal to `requests`. `started` is when a
    kubelet accepted it, None before; `evicted`: it is ending because it was evicted. `unschedulable`: the last attempt
    of its scheduler found no node (condition PodScheduled, reason Unschedulable). `per_node`: the pod belongs to its
    node (a DaemonSet's or static pod) and cannot run elsewhere.
    """

    node_name: str = ""
    phase: str = "Pending"
    scheduler_name: str = "default-scheduler"
    claims: tuple[PodClaim, ...] = ()
    requests: tuple[tuple[str, int], ...] = ()
    node_selector: Pairs = ()
    node_affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    scheduling_gates: tuple[str, ...] = ()
    priority: int = 0
    labels: Pairs = ()
    deleting: bool = False
    created: datetime | None = None
    constraints: Constraints | None = None
    scored: tuple[int, int] | None = None
    nominated_node: str = ""
    started: datetime | None = None
    evicted: bool = False
    unschedulable: bool = False
    per_node: bool = False

    @property
    def claim_keys(self) -> tuple[str, ...]:
        """Keys of the claims the pod uses, in the pod's order, each once."""
        return tuple(dict.fromkeys(f"{self.namespace}/{claim.name}" for claim in self.claims))

    @property
    def finished(self) -> bool:
        """Whether the pod has ended and holds neither node nor claims."""
        return self.phase in {"Succeeded", "Failed"}


class Node(Struct, frozen=True, gc=False):
    """A Node. `allocatable` in nano-units per resource name, without extended resources of which it has none."""

    name: str
    uid: str
    resource_version: int
    labels: Pairs = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: tuple[tuple[str, int], ...] = ()


class Namespace(Struct, frozen=True, gc=False):
    """A Namespace: what namespace selectors match, and whether everything in it is being deleted."""

    name: str
    uid: str
    resource_version: int
    labels: Pairs = ()
    deleting: bool = False


class NodeDriver(Struct, frozen=True, gc=False):
    """A driver registered on a node. `attach_limit` is None if the driver states no limit."""

    name: str
    node_id: str = ""
    topology_keys: tuple[str, ...] = ()
    attach_limit: int | None = None


class CSINode(Struct, frozen=True, gc=False):
    """What the CSI drivers on a node reported to the kubelet. Its name is the node's."""

    name: str
    uid: str
    resource_version: int
    drivers: tuple[NodeDriver, ...] = ()
    storage: StorageReports | None = None


class CSIDriver(Struct, frozen=True, gc=False):
    """A registered CSI driver.

    `prevent_pod_scheduling_if_missing` keeps pods with its volumes off nodes that have not registered it (KEP-5030, on
    by default from Kubernetes 1.37; API servers without it never show the field).
    """

    name: str
    uid: str
    resource_version: int
    attach_required: bool = True
    storage_capacity: bool = False
    prevent_pod_scheduling_if_missing: bool = False


class CSIStorageCapacity(Namespaced, frozen=True, gc=False):
    """Free capacity of a class in a topology. None if the driver did not report it.

    `written` is when the report itself last changed, in whole seconds (managedFields); None if that is not recorded.
    """

    storage_class: str = ""
    node_topology: LabelSelector | None = None
    capacity: int | None = None
    maximum_volume_size: int | None = None
    written: datetime | None = None

    @property
    def largest_volume(self) -> int | None:
        """How large a volume may be (volumeLimit in volumebinding/binder.go)."""
        return self.capacity if self.maximum_volume_size is None else self.maximum_volume_size


class VolumeAttachment(Struct, frozen=True, gc=False):
    """A volume's attachment to a node. `volume_name` is empty for inline volumes."""

    name: str
    uid: str
    resource_version: int
    attacher: str = ""
    node_name: str = ""
    volume_name: str = ""
    attached: bool = False


Record = Volume | StorageClass | Node | CSINode | CSIDriver | VolumeAttachment | Namespace | Namespaced


def value_of(pairs: Pairs, key: str) -> str | None:
    """Return the value of a label or annotation, or None if the key is absent."""
    for name, value in pairs:
        if name == key:
            return value
    return None


def record_key(record: Record) -> str:
    """Return the key a record is stored under: `namespace/name`, or the name for cluster-scoped kinds."""
    return record.key if isinstance(record, Namespaced) else record.name
