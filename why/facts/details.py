"""The fields of objects that only `why` reads: texts for people, finalizers, data sources, Leases, quotas, Events."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec import Struct

from kube.objects.labels import Pairs


class Condition(Struct, frozen=True, gc=False):
    """One of an object's `status.conditions`."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: datetime | None = None


class DataSource(Struct, frozen=True, gc=False):
    """`spec.dataSourceRef` of a claim, or `dataSource`. `namespace` is empty for one of the claim's own."""

    kind: str
    name: str
    api_group: str = ""
    namespace: str = ""


class ClaimDetails(Struct, frozen=True, gc=False):
    """The fields of a claim that binding does not need.

    `attributes_class` is the VolumeAttributesClass that its volume has, `modification` how far it is on its way to
    another one (status.modifyVolumeStatus), empty if it is on none. `expansion` is how far its volume is on its way to
    another size (status.allocatedResourceStatuses), empty if it is on none.
    """

    data_source: DataSource | None = None
    finalizers: tuple[str, ...] = ()
    deleted: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    capacity: int = 0
    labels: Pairs = ()
    attributes_class: str = ""
    modification: str = ""
    expansion: str = ""


class PodDetails(Struct, frozen=True, gc=False):
    """The fields of a pod that scheduling does not need. `owner` is (kind, name) of its controller.

    `deleted` is when its grace period ends, `grace` that period in seconds: 0 once no kubelet has to confirm that the
    pod has ended (deletionGracePeriodSeconds), None if it is not being deleted. `unused_templates` are
    ResourceClaimTemplates from which no claim was created for the pod yet. `began` is whether the kubelet has come to
    some container of it, and so has mounted its volumes. `waits` are the messages of containers that wait.
    """

    owner: tuple[str, str] | None = None
    conditions: tuple[Condition, ...] = ()
    deleted: datetime | None = None
    grace: int | None = None
    finalizers: tuple[str, ...] = ()
    resource_claims: tuple[str, ...] = ()
    unused_templates: tuple[str, ...] = ()
    began: bool = False
    waits: tuple[str, ...] = ()


class NodeDetails(Struct, frozen=True, gc=False):
    """What a node's kubelet reports. `ready` is the condition Ready, None if the object has none.

    `in_use` are the volumes that the kubelet has mounted, `kubernetes.io/csi/DRIVER^HANDLE` for those of a CSI driver
    (status.volumesInUse).
    """

    ready: Condition | None = None
    in_use: tuple[str, ...] = ()


class VolumeDetails(Struct, frozen=True, gc=False):
    """The fields of a volume that is being deleted, was released, or has failed.

    `message` is why, in the words of `status`; `since` is when it came into its phase.
    """

    finalizers: tuple[str, ...] = ()
    deleted: datetime | None = None
    message: str = ""
    since: datetime | None = None


class EventRecord(Struct, frozen=True, gc=False):
    """The last Event of a kind about an object. `reporter` is the component that wrote it, `uid` the object's."""

    type: str
    reason: str
    note: str
    reporter: str
    last: datetime | None = None
    count: int = 1
    uid: str = ""


EVENTS_KEPT: Final = 10
"""The number of latest Events kept per object."""


def latest_events(events: Iterable[EventRecord]) -> tuple[EventRecord, ...]:
    """Return the latest of an object's Events, the last one first; those without a time are the oldest."""

    def when(event: EventRecord) -> float:
        return event.last.timestamp() if event.last is not None else 0.0

    return tuple(sorted(events, key=when, reverse=True)[:EVENTS_KEPT])


class _Named(Struct, frozen=True, gc=False):
    namespace: str
    name: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class LeaseDetails(_Named, frozen=True, gc=False):
    """A Lease: who holds it, and when it was renewed last. `duration` in seconds, `sweeps` as annotated by us."""

    holder: str = ""
    renewed: datetime | None = None
    duration: float = 0.0
    sweeps: str = ""


class DriverContainer(Struct, frozen=True, gc=False):
    """A container of a driver's pod. `words` are its command, its arguments, and names of drivers in its environment.

    `waits` is why it does not run (`CrashLoopBackOff`), empty if it does; `message` says more about that.
    """

    name: str
    image: str = ""
    words: tuple[str, ...] = ()
    waits: str = ""
    message: str = ""
    restarts: int = 0


class DriverPod(_Named, frozen=True, gc=False):
    """A pod that may be one of a driver or provisioner. `per_node`: a DaemonSet's; `ended`: it runs no more."""

    node_name: str = ""
    per_node: bool = False
    ended: bool = False
    containers: tuple[DriverContainer, ...] = ()


class QuotaRecord(_Named, frozen=True, gc=False):
    """A ResourceQuota: what it limits and what is used, in nano-units by resource name."""

    hard: tuple[tuple[str, int], ...] = ()
    used: tuple[tuple[str, int], ...] = ()


class AttachmentDetails(Struct, frozen=True, gc=False):
    """A VolumeAttachment's last error; `created` and `deleted` are since when it is being attached, and detached."""

    attach_error: str = ""
    detach_error: str = ""
    deleted: datetime | None = None
    created: datetime | None = None
    finalizers: tuple[str, ...] = ()


class SnapshotRecord(_Named, frozen=True, gc=False):
    """A VolumeSnapshot: `ready` if a volume can be created from it; `restore_size` in nano-units, 0 if not stated.

    `claim` is the claim in its namespace that it is taken of, empty for a snapshot that exists outside Kubernetes.
    """

    claim: str = ""
    ready: bool = False
    content: str = ""
    restore_size: int = 0
    error: str = ""


class ConditionedRecord(Struct, frozen=True, gc=False):
    """An object without a namespace of which only its conditions are read: Karpenter's NodePools and NodeClaims."""

    name: str
    conditions: tuple[Condition, ...] = ()

    @property
    def key(self) -> str:
        return self.name


class DeviceClaimRecord(_Named, frozen=True, gc=False):
    """A ResourceClaim (DRA): `allocated` if devices were allocated for it."""

    allocated: bool = False
