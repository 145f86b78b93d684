"""Collects objects into facts: one by one, from any source."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from binder.matching.matching import IMMEDIATE
from binder.reservation.contract import Annotations
from kube.decoding.decode import MalformedObject, decoders
from kube.decoding.wire import ClaimReference, Metadata, Text, Wire
from kube.objects.model import PROVISIONED_BY, Claim, Namespace, Pod, Record, StorageClass
from kube.store.collection import Collection
from kube.store.snapshot import Snapshot
from kube.store.store import Store
from prebinder.why.facts import decode_details
from prebinder.why.facts.details import (
    AttachmentDetails,
    ClaimDetails,
    DeviceClaimRecord,
    EventRecord,
    LeaseRecord,
    PodDetails,
    QuotaRecord,
    SnapshotRecord,
    latest_events,
)
from prebinder.why.facts.facts import Facts, Look, ObjectKey, Source

_APIS: Final = {
    "PersistentVolume": "v1",
    "PersistentVolumeClaim": "v1",
    "Pod": "v1",
    "Node": "v1",
    "Namespace": "v1",
    "StorageClass": "storage.k8s.io",
    "CSINode": "storage.k8s.io",
    "CSIDriver": "storage.k8s.io",
    "CSIStorageCapacity": "storage.k8s.io",
    "VolumeAttachment": "storage.k8s.io",
}
"""Kinds that become records, and their API group (or version, in the core group)."""


class _ClaimPhase(Wire):
    phase: Text = None


class _VolumeSpec(Wire):
    claim_ref: ClaimReference | None = None
    storage_class_name: Text = None


class _Glance(Wire):
    """The part of a claim or volume that shows whether anything waits for it."""

    metadata: Metadata | None = None
    spec: _VolumeSpec | None = None
    status: _ClaimPhase | None = None


_GLANCE: Final = msgspec.json.Decoder(_Glance)


class Gathering:
    """Collects objects and returns facts. `faults` are lines for the user about objects that could not be read.

    `only_waiting` drops bound objects that nothing pending uses, so that a large cluster takes no more memory than what
    is pending in it. Pods have to be added first then, claims second and volumes third.
    """

    def __init__(self, prefix: str, *, only_waiting: bool = False) -> None:
        self._only_waiting = only_waiting
        self._wanted: set[str] = set()
        self._idle_classes: set[str] = set()
        self.faults: list[str] = []
        self.kinds: set[str] = set()
        self._prefix = prefix
        self._annotations = Annotations(prefix)
        self._decoders = decoders(prefix)
        self._records: defaultdict[str, dict[str, Record]] = defaultdict(dict)
        self._changed: set[str] = set()
        self._store = Store(prefix)
        self._claims: dict[str, ClaimDetails] = {}
        self._pods: dict[str, PodDetails] = {}
        self._events: defaultdict[ObjectKey, list[EventRecord]] = defaultdict(list)
        self._leases: dict[str, LeaseRecord] = {}
        self._quotas: dict[str, QuotaRecord] = {}
        self._attachments: dict[str, AttachmentDetails] = {}
        self._snapshots: dict[str, SnapshotRecord] = {}
        self._device_claims: dict[str, DeviceClaimRecord] = {}
        self._others: dict[str, Callable[[bytes | Raw], None]] = {
            "Event": self._event,
            "Lease": self._lease,
            "ResourceQuota": self._quota,
            "VolumeSnapshot": self._snapshot,
            "ResourceClaim": self._device_claim,
        }

    def take(self, raw: bytes | Raw, api: str, kind: str, source: str) -> None:
        """Add an object of this kind; `api` is its apiVersion. What is not needed is skipped."""
        if not kind:
            self.faults.append(f"{source}: an object has no kind")
            return
        self.kinds.add(kind)
        try:
            if kind in self._others:
                self._others[kind](raw)
            elif kind in _APIS and _APIS[kind] == (api.partition("/")[0] or _APIS[kind]):
                self._record(kind, raw)
        except (MalformedObject, msgspec.MsgspecError) as error:
            self.faults.append(f"{source}: {error}")

    @property
    def written_at(self) -> datetime | None:
        """When the last Lease was renewed, or something later was created or reported; None without any Lease.

        In a running cluster some Lease always is. A file may hold only that of a component that has stopped.
        """
        renewals = [lease.renewed for lease in self._leases.values() if lease.renewed is not None]
        if not renewals:
            return None
        waiting = (record for kind in ("Pod", "PersistentVolumeClaim") for record in self._records[kind].values())
        created = [
            record.created for record in waiting if isinstance(record, Pod | Claim) and record.created is not None
        ]
        return max((*renewals, *created, *([self.last_event] if self.last_event is not None else [])))

    @property
    def last_event(self) -> datetime | None:
        """When the last Event was reported."""
        written = (event.last for events in self._events.values() for event in events if event.last is not None)
        return max(written, default=None)

    def facts(
        self,
        now: datetime,
        read: Iterable[Source],
        skipped: dict[Source, str],
        *,
        everywhere: bool = False,
        namespace: str = "",
    ) -> Facts:
        """Return what was added so far, of all namespaces or of this one."""
        snapshot = self._snapshot_now()
        known = self._records["Namespace"].values()
        namespaces = {record.name: record.labels for record in known if isinstance(record, Namespace)}
        return Facts(
            now=now,
            snapshot=snapshot,
            look=Look(snapshot, now, namespaces, self._annotations),
            read=frozenset(read),
            skipped=dict(skipped),
            claims=dict(self._claims),
            pods=dict(self._pods),
            events={key: latest_events(events) for key, events in self._events.items()},
            leases=dict(self._leases),
            quotas=tuple(self._quotas.values()),
            attachments=dict(self._attachments),
            snapshots=dict(self._snapshots),
            device_claims=dict(self._device_claims),
            namespaces=namespaces,
            everywhere=everywhere,
            namespace=namespace,
            idle_classes=frozenset(self._idle_classes),
            annotations=self._annotations,
        )

    def _snapshot_now(self) -> Snapshot:
        """Return the snapshot; only kinds with new objects since the last call are indexed again."""
        store = self._store
        collections: dict[str, Collection[Any]] = {
            "PersistentVolumeClaim": store.claims,
            "PersistentVolume": store.volumes,
            "StorageClass": store.classes,
            "Pod": store.pods,
            "Node": store.nodes,
            "CSINode": store.csi_nodes,
            "CSIDriver": store.csi_drivers,
            "CSIStorageCapacity": store.capacities,
            "VolumeAttachment": store.attachments,
        }
        for kind in collections.keys() & self._changed:
            collections[kind].replace(self._records[kind].values(), "")
        self._changed.clear()
        return store.snapshot()

    def _is_idle(self, kind: str, raw: bytes | Raw) -> bool:
        """Whether the object is a bound claim or volume that nothing pending uses."""
        if not self._only_waiting or kind not in {"PersistentVolumeClaim", "PersistentVolume"}:
            return False
        glance = _GLANCE.decode(raw)
        metadata = glance.metadata or Metadata()
        phase = glance.status.phase if glance.status else None
        if phase != "Bound" or metadata.deletion_timestamp is not None:
            return False
        if kind == "PersistentVolumeClaim":
            return f"{metadata.namespace}/{metadata.name}" not in self._wanted
        spec = glance.spec or _VolumeSpec()
        owner = f"{spec.claim_ref.namespace}/{spec.claim_ref.name}" if spec.claim_ref else ""
        if owner in self._wanted or (metadata.name or "") in self._wanted:
            return False
        if spec.storage_class_name and PROVISIONED_BY.encode() not in bytes(metadata.annotations or b""):
            self._idle_classes.add(spec.storage_class_name)
        return True

    def _record(self, kind: str, raw: bytes | Raw) -> None:
        if self._is_idle(kind, raw):
            return
        record = self._decoders[kind](raw)
        if isinstance(record, StorageClass) and record.binding_mode is None:
            # What the API server sets if a manifest does not (SetDefaults_StorageClass in pkg/apis/storage/v1).
            record = replace(record, binding_mode=IMMEDIATE)
        key = getattr(record, "key", None) or record.name
        self._records[kind][key] = record
        self._changed.add(kind)
        if kind == "PersistentVolumeClaim":
            self._claims[key] = decode_details.claim_details(raw)
            self._wanted.add(key)
            if isinstance(record, Claim) and record.volume_name:
                self._wanted.add(record.volume_name)
        elif isinstance(record, Pod):
            self._wanted.update(record.claim_keys)
            if not self._only_waiting or record.phase == "Pending":
                self._pods[key] = decode_details.pod_details(raw)
        elif kind == "VolumeAttachment":
            self._attachments[key] = decode_details.attachment_details(raw)

    def _event(self, raw: bytes | Raw) -> None:
        about = decode_details.event(raw)
        if self._only_waiting and about.kind in {"PersistentVolumeClaim", "Pod"}:
            known = self._claims if about.kind == "PersistentVolumeClaim" else self._pods
            if about.key not in known:
                return
        self._events[about.kind, about.key].append(about.event)

    def _lease(self, raw: bytes | Raw) -> None:
        lease = decode_details.lease(raw, self._annotations.sweeps)
        self._leases[f"{lease.namespace}/{lease.name}"] = lease

    def _quota(self, raw: bytes | Raw) -> None:
        quota = decode_details.quota(raw)
        self._quotas[f"{quota.namespace}/{quota.name}"] = quota

    def _snapshot(self, raw: bytes | Raw) -> None:
        snapshot = decode_details.snapshot(raw)
        self._snapshots[f"{snapshot.namespace}/{snapshot.name}"] = snapshot

    def _device_claim(self, raw: bytes | Raw) -> None:
        claim = decode_details.device_claim(raw)
        self._device_claims[f"{claim.namespace}/{claim.name}"] = claim
