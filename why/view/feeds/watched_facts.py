"""Facts that stay up to date: every source that may be read is listed once and watched."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, Final, Generic, TypeVar

import msgspec

from binder.reservation.contract import Annotations
from kube.client.api import KubeApi
from kube.client.reflector import ObjectHead, Reflector, WatchObserver, all_synced, run_all
from kube.clock import Clock
from kube.decoding.decode import decoders
from kube.errors import Forbidden, NotFound
from kube.objects.api_resource import WATCHED, Resource
from kube.objects.model import Record, record_key
from kube.store.collection import Collection
from kube.store.store import Store
from why.facts.decode_details import EventAbout, detail_decoders
from why.facts.details import EventRecord, latest_events
from why.facts.facts import FORBIDDEN, NOT_SERVED, Derived, Facts, ObjectKey, Source
from why.reading.resources import OF_THE_NAMESPACE, RESOURCES

T = TypeVar("T")

_NOT_WATCHED: Final = frozenset({Source.DRIVER_PODS, Source.NODE_POOLS, Source.NODE_CLAIMS})
"""Sources that only complete an answer: the view goes without them."""

_HEAD: Final = msgspec.json.Decoder(ObjectHead)


@dataclass(frozen=True, slots=True)
class Kept(Generic[T]):
    """What is kept of an object, by its key."""

    key: str
    value: T


class Shelf(Generic[T]):
    """What is kept of the objects of one kind, by their keys."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.items: dict[str, T] = {}
        self._changed = changed

    def replace_in_steps(self, items: Iterable[Kept[T]], resource_version: str) -> Iterator[None]:  # noqa: ARG002
        """Take a whole list at once."""
        self.items = {item.key: item.value for item in items}
        self._changed()
        yield

    def upsert(self, item: Kept[T]) -> None:
        self.items[item.key] = item.value
        self._changed()

    def delete(self, key: str, version: int) -> None:  # noqa: ARG002
        self.items.pop(key, None)
        self._changed()


class DetailedCollection:
    """A collection of records, and beside each what only `why` reads of the object."""

    def __init__(self, records: Collection[Any], details: Shelf[Any]) -> None:
        self._records = records
        self._details = details

    def replace_in_steps(self, items: Iterable[tuple[Record, Any]], resource_version: str) -> Iterator[None]:
        """Take a whole list, stopping between steps."""
        taken = list(items)
        kept = [Kept(record_key(record), details) for record, details in taken]
        yield from self._details.replace_in_steps(kept, resource_version)
        yield from self._records.replace_in_steps((record for record, _ in taken), resource_version)

    def upsert(self, item: tuple[Record, Any]) -> None:
        record, details = item
        self._details.upsert(Kept(record_key(record), details))
        self._records.upsert(record)

    def delete(self, key: str, version: int) -> None:
        self._details.delete(key, version)
        self._records.delete(key, version)


class WatchedFacts:
    """Watches every source that may be read. `changed` is set when something did; `skipped` has what may not be read.

    `namespace` limits namespaced kinds to one; without it all namespaces are read, and those kinds that may not be read
    everywhere in `own_namespace`.
    """

    def __init__(
        self, api: KubeApi, namespace: str, own_namespace: str, prefix: str, clock: Clock, observer: WatchObserver
    ) -> None:
        self.changed = asyncio.Event()
        self.skipped: dict[Source, str] = {}
        self.everywhere = not namespace
        self._api = api
        self._namespaces = (namespace,) if namespace else ("", own_namespace)
        self._annotations = Annotations(prefix)
        self._prefix = prefix
        self._clock = clock
        self._observer = observer
        self._store = Store(prefix)
        self._details = detail_decoders(self._annotations.sweeps)
        self._shelves: dict[Source, Shelf[Any]] = {source: Shelf(self.changed.set) for source in Source}
        self._reflectors: dict[Source, Reflector[Any]] = {}

    async def discover(self) -> None:
        """Find out what may be read. Raises KubeError when there is no answer, or the credentials are not accepted."""
        # One first: credentials that are not accepted are so for all.
        await self._admit(Source.CLASSES)
        others = {*_NOT_WATCHED, Source.ALL_PODS, Source.LEASES, Source.CLASSES}
        sources = [source for source in Source if source not in others]
        await asyncio.gather(*(self._admit(source) for source in sources))

    async def run(self) -> None:
        """List and watch until cancelled."""
        await run_all(self._reflectors.values())

    async def synced(self) -> None:
        """Return when everything that may be read has been listed once."""
        await all_synced(self._reflectors.values())

    async def read_leases(self) -> None:
        """List the Leases, which change too often to be watched. Raises KubeError if the server does not respond."""
        leases = RESOURCES[Source.LEASES]
        try:
            listing = await self._api.list_all(leases, self._details[Source.LEASES])
        except Forbidden:
            self.skipped[Source.LEASES] = FORBIDDEN
            return
        self._shelves[Source.LEASES].items = {lease.key: lease for lease in listing.items}

    def facts(self, now: datetime) -> Facts:
        """Return the facts of this moment."""
        snapshot = self._store.snapshot()
        read = {source for source, reflector in self._reflectors.items() if reflector.synced.is_set()}
        read |= {*_NOT_WATCHED, Source.ALL_PODS} if Source.PODS in read else set(_NOT_WATCHED)
        read |= {Source.LEASES} if Source.LEASES not in self.skipped else set()
        return Facts(
            now=now,
            snapshot=snapshot,
            derived=Derived(snapshot, now, {}, self._annotations),
            read=frozenset(read),
            skipped={source: self.skipped.get(source, "not read yet") for source in Source if source not in read},
            claims=self._copy(Source.CLAIMS),
            pods=self._copy(Source.PODS),
            nodes=self._copy(Source.NODES),
            events=_by_object(self._shelves[Source.EVENTS].items.values()),
            leases=self._copy(Source.LEASES),
            quotas=tuple(self._shelves[Source.QUOTAS].items.values()),
            attachments=self._copy(Source.ATTACHMENTS),
            snapshots=self._copy(Source.SNAPSHOTS),
            device_claims=self._copy(Source.DEVICE_CLAIMS),
            namespaces_since=self._copy(Source.NAMESPACES),
            everywhere=self.everywhere,
            annotations=self._annotations,
        )

    def _copy(self, source: Source) -> dict[str, Any]:
        # Checks run in a thread while watches go on.
        return dict(self._shelves[source].items)

    async def _admit(self, source: Source) -> None:
        """Watch a source as widely as it may be read, or note why it may not."""
        kind = RESOURCES[source]
        namespaces = self._namespaces if source in OF_THE_NAMESPACE else ("",)
        for namespace in namespaces:
            resource = kind.within(namespace) if namespace else kind
            try:
                await self._api.list_page(resource, limit=1)
            except Forbidden:
                self.skipped[source] = FORBIDDEN
            except NotFound:
                self.skipped[source] = NOT_SERVED
                return
            else:
                self.skipped.pop(source, None)
                if self.everywhere and namespace:
                    self.skipped[source] = f"only namespace {namespace} may be read"
                self._reflectors[source] = self._reflector(source, resource)
                return

    def _reflector(self, source: Source, resource: Resource) -> Reflector[Any]:
        sink, decode = self._kept(source, resource.kind)
        return Reflector(self._api, resource, decode, sink, clock=self._clock, observer=self._observer, rng=Random())

    def _kept(self, source: Source, kind: str) -> tuple[Any, Callable[[bytes], Any]]:
        """Return where the objects of a source go, and how they are read."""
        record = decoders(self._prefix).get(kind)
        collection = self._store.collections[kind] if RESOURCES[source] in WATCHED else None
        shelf, details = self._shelves[source], self._details.get(source)
        if collection is None or record is None:
            assert details is not None, "a source is kept as records, as details, or both"
            return shelf, _keyed(details)
        collection.listeners.append(lambda _old, _new: self.changed.set())
        if details is None:
            return collection, record
        return DetailedCollection(collection, shelf), _both(record, details)


def _keyed(details: Callable[[bytes], T]) -> Callable[[bytes], Kept[T]]:
    return lambda raw: Kept(_HEAD.decode(raw).metadata.key, details(raw))


def _both(record: Callable[[bytes], Record], details: Callable[[bytes], T]) -> Callable[[bytes], tuple[Record, T]]:
    return lambda raw: (record(raw), details(raw))


def _by_object(events: Iterable[EventAbout]) -> dict[ObjectKey, tuple[EventRecord, ...]]:
    by_object: defaultdict[ObjectKey, list[EventRecord]] = defaultdict(list)
    for about in events:
        by_object[about.kind, about.key].append(about.event)
    return {key: latest_events(known) for key, known in by_object.items()}
