"""Collects objects into facts: one by one, from any source."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from binder.matching.matching import IMMEDIATE
from binder.reservation.contract import Annotations
from kube.decoding.decode import MalformedObject, decoders
from kube.decoding.wire import ClaimReference, Metadata, Text, Wire
from kube.objects.model import (
    PROVISIONED_BY,
    Claim,
    Namespace,
    Node,
    Pod,
    Record,
    StorageClass,
    Volume,
    VolumeAttachment,
    record_key,
)
from kube.store.snapshot import Snapshot
from kube.store.store import Store
from why.facts.decode_details import (
    attachment_details,
    claim_details,
    detail_decoders,
    driver_pod,
    event,
    namespace_created,
    node_details,
    pod_details,
    volume_details,
)
from why.facts.details import DriverPod, EventRecord, VolumeDetails, latest_events
from why.facts.facts import Derived, Facts, ObjectKey, Source
from why.reading.dump_header import DumpHeader, header_of, is_header
from why.reading.resources import RESOURCES

_ALONE: Final = {
    RESOURCES[source].kind: source
    for source in (
        Source.LEASES,
        Source.QUOTAS,
        Source.SNAPSHOTS,
        Source.DEVICE_CLAIMS,
        Source.NODE_POOLS,
        Source.NODE_CLAIMS,
    )
}
"""Kinds that do not become records."""

_GROUPS: Final = {resource.kind: frozenset({resource.group or resource.version}) for resource in RESOURCES.values()} | {
    "Event": frozenset({"v1", "events.k8s.io"})
}
"""The API groups of each kind; the core group is `v1` in an apiVersion. Others have a Node too, and Longhorn a Volume,
and what an audit log holds is of the kind Event.
"""


def is_known(kind: str, api: str) -> bool:
    """Whether objects of this kind are needed. `api` is their apiVersion, or empty if it is not stated."""
    return kind in _GROUPS and (not api or api.partition("/")[0] in _GROUPS[kind])


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

    `kinds` are those of which it was given an object, `damaged` those of which one could not be read, `ignored` counts
    the objects of kinds that it has no use for. Of two objects with the same kind and name the newer one counts;
    `duplicates` names those of which neither is newer.

    `only_waiting` drops bound objects that nothing pending uses, so that a large cluster takes no more memory than what
    is pending in it. Pods have to be added first then, claims second, again if it `lacks_originals`, and volumes third.
    """

    def __init__(self, prefix: str, *, only_waiting: bool = False) -> None:
        self._only_waiting = only_waiting
        self._wanted: set[str] = set()
        self._copied: set[str] = set()
        self._idle_classes: set[str] = set()
        self.faults: list[str] = []
        self.damaged: set[str] = set()
        self.duplicates: list[str] = []
        self.headers: list[DumpHeader] = []
        self.kinds: set[str] = set()
        self.ignored: Counter[str] = Counter()
        self._annotations = Annotations(prefix)
        self._decoders = decoders(prefix)
        self._detail_decoders = detail_decoders(self._annotations.sweeps)
        self._records: defaultdict[str, dict[str, Record]] = defaultdict(dict)
        self._changed: set[str] = set()
        self._store = Store(prefix)
        self._details: dict[Source, dict[str, Any]] = {source: {} for source in self._detail_decoders}
        self._volumes: dict[str, VolumeDetails] = {}
        self._driver_pods: dict[str, DriverPod] = {}
        self._events: defaultdict[ObjectKey, list[EventRecord]] = defaultdict(list)

    def take(self, raw: bytes | Raw, api: str, kind: str, source: str) -> None:
        """Add an object of this kind; `api` is its apiVersion. What is not needed is skipped."""
        if not kind:
            self.faults.append(f"{source}: an object without a kind")
            return
        if is_header(kind, api):
            self._header(raw, source)
            return
        if not is_known(kind, api):
            self.ignored[kind] += 1
            return
        self.kinds.add(kind)
        try:
            if kind == "Event":
                self._event(raw)
            elif kind in _ALONE:
                details = self._detail_decoders[_ALONE[kind]](raw)
                self._details[_ALONE[kind]][details.key] = details
            else:
                self._record(kind, raw)
        except MalformedObject as error:
            self.faults.append(f"{source}: {error}")
            self.damaged.add(kind)
        except msgspec.MsgspecError as error:
            self.faults.append(f"{source}: {kind}: {error}")
            self.damaged.add(kind)

    def take_driver_pod(self, raw: bytes | Raw) -> None:
        """Add a pod only as one of a driver, if it is one: of the others nothing is kept."""
        try:
            made = driver_pod(raw)
        except msgspec.MsgspecError as error:
            self.faults.append(f"Pod: {error}")
            return
        if made is not None:
            self._driver_pods[made.key] = made

    def _header(self, raw: bytes | Raw, source: str) -> None:
        try:
            self.headers.append(header_of(raw))
        except msgspec.MsgspecError as error:
            self.faults.append(f"{source}: WhyDump: {error}")

    @property
    def records(self) -> Mapping[str, Mapping[str, Record]]:
        """The objects that became records, by kind and then by key, in the order in which they were added."""
        return self._records

    @property
    def lacks_originals(self) -> bool:
        """Whether a claim that is to be copied was not added: it may have been skipped as idle before its copy came."""
        return not self._copied <= self._records["PersistentVolumeClaim"].keys()

    @property
    def written_at(self) -> datetime | None:
        """When the last Lease was renewed, or something later was created or reported; None without any Lease.

        In a running cluster some Lease always is. A file may hold only that of a component that has stopped.
        """
        renewals = [lease.renewed for lease in self._details[Source.LEASES].values() if lease.renewed is not None]
        if not renewals:
            return None
        waiting = (record for kind in ("Pod", "PersistentVolumeClaim") for record in self._records[kind].values())
        created = [
            record.created for record in waiting if isinstance(record, Pod | Claim) and record.created is not None
        ]
        latest: datetime = max((*renewals, *created, *([self.last_event] if self.last_event is not None else [])))
        return latest

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
            derived=Derived(snapshot, now, namespaces, self._annotations),
            read=frozenset(read),
            skipped=dict(skipped),
            claims=dict(self._details[Source.CLAIMS]),
            pods=dict(self._details[Source.PODS]),
            nodes=dict(self._details[Source.NODES]),
            volumes=dict(self._volumes),
            events={key: latest_events(dict.fromkeys(events)) for key, events in self._events.items()},
            leases=dict(self._details[Source.LEASES]),
            quotas=tuple(self._details[Source.QUOTAS].values()),
            attachments=dict(self._details[Source.ATTACHMENTS]),
            snapshots=dict(self._details[Source.SNAPSHOTS]),
            device_claims=dict(self._details[Source.DEVICE_CLAIMS]),
            driver_pods=dict(self._driver_pods),
            node_pools=dict(self._details[Source.NODE_POOLS]),
            node_claims=dict(self._details[Source.NODE_CLAIMS]),
            namespaces=namespaces,
            namespaces_since=dict(self._details[Source.NAMESPACES]),
            everywhere=everywhere,
            namespace=namespace,
            idle_classes=frozenset(self._idle_classes),
            annotations=self._annotations,
        )

    def _snapshot_now(self) -> Snapshot:
        """Return the snapshot; only kinds with new objects since the last call are indexed again."""
        collections = self._store.collections
        for kind in self._changed:
            collections[kind].replace(self._records[kind].values(), "")
        self._changed.clear()
        return self._store.snapshot()

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
            key = f"{metadata.namespace}/{metadata.name}"
            return key not in self._wanted and key not in self._copied
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
        key = record_key(record)
        if not self._is_newer(kind, key, record):
            return
        self._records[kind][key] = record
        self._changed.add(kind)
        match record:
            case Claim():
                self._claim(record, key, raw)
            case Pod():
                self._pod(record, key, raw)
            case Namespace():
                self._details[Source.NAMESPACES][key] = namespace_created(raw)
            case Volume() if record.deleting or record.phase in {"Failed", "Released"}:
                self._volumes[key] = volume_details(raw)
            case Node():
                self._details[Source.NODES][key] = node_details(raw)
            case VolumeAttachment():
                self._details[Source.ATTACHMENTS][key] = attachment_details(raw)

    def _is_newer(self, kind: str, key: str, record: Record) -> bool:
        known = self._records[kind].get(key)
        if known is None or known == record:
            return True
        if known.resource_version == record.resource_version:
            name = type(record).__name__
            self.duplicates.append(f"{name} {key} is in the input twice; the later one counts")
        return record.resource_version >= known.resource_version

    def _claim(self, claim: Claim, key: str, raw: bytes | Raw) -> None:
        self._details[Source.CLAIMS][key] = details = claim_details(raw)
        self._wanted.update((key, claim.volume_name) if claim.volume_name else (key,))
        source = details.data_source
        if not claim.volume_name and source is not None and source.kind == "PersistentVolumeClaim":
            self._copied.add(f"{claim.namespace}/{source.name}")

    def _pod(self, pod: Pod, key: str, raw: bytes | Raw) -> None:
        self.take_driver_pod(raw)
        # A pod that runs matters if one waits for a volume that it uses: what creates it again if it is deleted?
        shares = not self._wanted.isdisjoint(pod.claim_keys)
        self._wanted.update(pod.claim_keys)
        if not self._only_waiting or pod.phase == "Pending" or pod.deleting or shares:
            self._details[Source.PODS][key] = pod_details(raw)

    def _event(self, raw: bytes | Raw) -> None:
        about = event(raw)
        known = {"PersistentVolumeClaim": Source.CLAIMS, "Pod": Source.PODS}.get(about.kind)
        if self._only_waiting and known is not None and about.key not in self._details[known]:
            return
        self._events[about.kind, about.key].append(about.event)
