"""What was read of the cluster, and what was not.

A check declares by `need` the sources that it depends on. One that was not read yet raises Unread: the caller then
reads it and runs the check again, so that only what matters is read. One that may not be read blocks the check.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from binder.health.quarantine import in_quarantine
from binder.matching.index import VolumeIndex
from binder.matching.matching import class_of
from binder.model.view import PlanSettings, View
from binder.planning.unmet_claims import UnmetClaims
from binder.provisioning.ledger import PoolLedger
from binder.provisioning.tracking import ledger_of
from binder.reservation.contract import Annotations
from binder.reservation.set_aside import set_aside_of
from kube.objects.labels import Pairs
from kube.objects.model import PROVISIONED_BY, Claim, Pod, Volume, value_of
from kube.store.snapshot import Snapshot
from scheduler.state.cluster import ClusterView, view_of
from why.facts.details import (
    AttachmentDetails,
    ClaimDetails,
    ConditionedRecord,
    DeviceClaimRecord,
    DriverPod,
    EventRecord,
    LeaseDetails,
    NodeDetails,
    PodDetails,
    QuotaRecord,
    SnapshotRecord,
    VolumeDetails,
)


class Source(StrEnum):
    """What can be read. Claims, pods, Events and quotas are those of the requested namespace, or of all."""

    CLAIMS = "persistentvolumeclaims"
    VOLUMES = "persistentvolumes"
    CLASSES = "storageclasses"
    PODS = "pods"
    NODES = "nodes"
    CSI_NODES = "csinodes"
    CSI_DRIVERS = "csidrivers"
    CAPACITIES = "csistoragecapacities"
    ATTACHMENTS = "volumeattachments"
    EVENTS = "events"
    QUOTAS = "resourcequotas"
    LEASES = "leases"
    SNAPSHOTS = "volumesnapshots"
    DEVICE_CLAIMS = "resourceclaims"
    NAMESPACES = "namespaces"
    NODE_POOLS = "nodepools"
    NODE_CLAIMS = "nodeclaims"
    ALL_PODS = "pods in all namespaces"
    DRIVER_PODS = "pods of drivers"


FORBIDDEN: Final = "forbidden"
"""Why a source was skipped that the user may not list."""

NOT_SERVED: Final = "not served by this cluster"
"""Why a source was skipped if the API server does not serve its kind."""

ABSENT: Final = "not in the input"
"""Why a source was skipped of which a dump has no object."""


class Unread(Exception):
    """A check depends on sources that have not been read."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.sources = frozenset(sources)
        super().__init__(", ".join(sorted(self.sources)))


ObjectKey = tuple[str, str]
"""Kind, and the key `namespace/name` or the name."""


class Derived:
    """Views of the snapshot for rules of other packages, each computed once when it is needed."""

    def __init__(
        self, snapshot: Snapshot, now: datetime, namespaces: Mapping[str, Pairs], annotations: Annotations
    ) -> None:
        self._snapshot = snapshot
        self._now = now
        self._namespaces = namespaces
        self._annotations = annotations

    @cached_property
    def view(self) -> View:
        """Return the storage as the rules of binder see it."""
        index = VolumeIndex.of(self._snapshot.volumes.values())
        return View(self._snapshot, index, settings=PlanSettings(annotations=self._annotations))

    @cached_property
    def cluster(self) -> ClusterView:
        """Return the cluster as a scheduling cycle sees it."""
        return view_of(self.view, self._now, self._namespaces)

    @cached_property
    def pools(self) -> PoolLedger:
        """Return what is in flight in pools of storage, as far as objects alone say."""
        return ledger_of(self._snapshot, self._annotations, self._now)

    @cached_property
    def verdicts(self) -> dict[Hashable, Any]:
        """Return the verdicts on nodes for equal pods, which causes.node_verdicts caches here."""
        return {}

    @cached_property
    def of_drivers(self) -> dict[Hashable, Any]:
        """Return the pods of each driver, and where their logs are, which causes.drivers caches here."""
        return {}

    @cached_property
    def static_classes(self) -> frozenset[str]:
        """Return the class names of volumes that no provisioner made."""
        return static_classes(self._snapshot.volumes.values())

    @cached_property
    def withheld(self) -> tuple[Volume, ...]:
        """Return the volumes that name a claim and are Released, in quarantine or set aside."""
        named = (volume for volume in self._snapshot.volumes.values() if volume.claim is not None)
        return tuple(
            volume
            for volume in named
            if volume.phase == "Released"
            or in_quarantine(volume, self._annotations)
            or set_aside_of(volume, self._annotations) is not None
        )

    @cached_property
    def last_provisioned(self) -> Mapping[str, datetime]:
        """Return when each provisioner made its last volume, by its name."""
        last: dict[str, datetime] = {}
        for volume in self._snapshot.volumes.values():
            provisioner = value_of(volume.annotations, PROVISIONED_BY)
            if provisioner is not None and volume.created is not None:
                last[provisioner] = max(last.get(provisioner, volume.created), volume.created)
        return last

    @cached_property
    def unmet(self) -> UnmetClaims:
        """Return the cache of which rule each volume failed for a claim."""
        return UnmetClaims(self.view, self._now)


def static_classes(volumes: Iterable[Volume]) -> frozenset[str]:
    """Return the class names of those volumes that no provisioner made. A class of such volumes needs no object."""
    static = (volume for volume in volumes if value_of(volume.annotations, PROVISIONED_BY) is None)
    return frozenset(class_of(volume) for volume in static) - {""}


@dataclass(frozen=True, slots=True)
class Facts:
    """A view of the cluster.

    `snapshot` has the objects that rules use, as every other part of the program sees them; the other mappings have
    what only `why` uses, by the same keys. `skipped` are sources that could not be read and the reason. `everywhere` is
    whether namespaced kinds were read in all namespaces, `namespace` the one in which they were read otherwise.
    `idle_classes` are the class names of static volumes that were read and dropped, because nothing pending uses them.
    `events_end` is when the last Event of a dump was written, after which it says nothing; None if they are those of
    now. `used` are the sources that some check has used since `for_one`: the answer about an object depends on no
    other.
    """

    now: datetime
    snapshot: Snapshot
    derived: Derived
    read: frozenset[Source] = frozenset()
    skipped: Mapping[Source, str] = field(default_factory=dict)
    claims: Mapping[str, ClaimDetails] = field(default_factory=dict)
    pods: Mapping[str, PodDetails] = field(default_factory=dict)
    nodes: Mapping[str, NodeDetails] = field(default_factory=dict)
    volumes: Mapping[str, VolumeDetails] = field(default_factory=dict)
    events: Mapping[ObjectKey, tuple[EventRecord, ...]] = field(default_factory=dict)
    leases: Mapping[str, LeaseDetails] = field(default_factory=dict)
    quotas: tuple[QuotaRecord, ...] = ()
    attachments: Mapping[str, AttachmentDetails] = field(default_factory=dict)
    driver_pods: Mapping[str, DriverPod] = field(default_factory=dict)
    snapshots: Mapping[str, SnapshotRecord] = field(default_factory=dict)
    device_claims: Mapping[str, DeviceClaimRecord] = field(default_factory=dict)
    node_pools: Mapping[str, ConditionedRecord] = field(default_factory=dict)
    node_claims: Mapping[str, ConditionedRecord] = field(default_factory=dict)
    namespaces: Mapping[str, Pairs] = field(default_factory=dict)
    namespaces_since: Mapping[str, datetime | None] = field(default_factory=dict)
    everywhere: bool = False
    namespace: str = ""
    idle_classes: frozenset[str] = frozenset()
    events_end: datetime | None = None
    annotations: Annotations = field(default_factory=Annotations)
    used: set[Source] = field(default_factory=set, compare=False)

    def for_one(self) -> "Facts":
        """Return the same facts without any recorded use."""
        return replace(self, used=set())

    def labels_of(self, claim: Claim) -> Mapping[str, str]:
        """Return the labels of a claim that was read."""
        details = self.claims.get(claim.key)
        return {} if details is None else dict(details.labels)

    def has_static_volumes(self, storage_class: str) -> bool:
        """Whether static volumes have this class name, which then needs no StorageClass. Raises Unread."""
        self.need(Source.VOLUMES)
        return storage_class in self.derived.static_classes or storage_class in self.idle_classes

    def need(self, *sources: Source) -> Snapshot:
        """Return the snapshot in which these sources are complete. Raises Unread."""
        self.used.update(sources)
        missing = [source for source in sources if source not in self.read]
        if missing:
            raise Unread(missing)
        return self.snapshot

    def has(self, source: Source) -> bool:
        """Whether the source was read; False if it may not be. Raises Unread if that was not tried."""
        self.used.add(source)
        if source in self.read:
            return True
        if source in self.skipped:
            return False
        raise Unread((source,))

    def events_of(self, kind: str, key: str) -> tuple[EventRecord, ...]:
        """Return the Events about an object, the latest first; none if Events may not be read.

        Events expire, after an hour by default: their absence is no evidence. Those about an earlier object of the same
        name are left out.
        """
        if not self.has(Source.EVENTS):
            return ()
        subject = self._known(kind, key)
        uids = {"", subject.uid} if subject is not None and subject.uid else None
        events = self.events.get((kind, key), ())
        return events if uids is None else tuple(event for event in events if event.uid in uids)

    def _known(self, kind: str, key: str) -> Claim | Pod | Volume | None:
        match kind:
            case "Pod":
                return self.snapshot.pods.get(key)
            case "PersistentVolumeClaim":
                return self.snapshot.claims.get(key)
            case "PersistentVolume":
                return self.snapshot.volumes.get(key)
            case _:
                return None
