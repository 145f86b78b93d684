"""Keeps a sink in sync with one kind of the API: list once, then watch for ever.

A watch that ends is resumed from the last resource version, without a list; only an expired version (410, as a status
or as an event) leads to a new list, which the sink compares with what it holds. A watch that ends early is retried with
exponential backoff: a failing server is never retried in a hot loop. A connection that goes silent is abandoned,
because bookmarks arrive about once a minute on a live one. After an outage decisions rest on what was known before it
until every kind is watched again: so the first watch that opens ends the pauses of all that had no answer.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from random import Random
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from kube.backoff import backoff
from kube.client.api import KubeApi, WatchEvent
from kube.clock import Clock, within
from kube.errors import Expired, KubeError, Unavailable
from kube.objects.api_resource import Resource

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

SILENCE_SECONDS: Final = 100.0
"""A watch without a line for so long is half-open. The API server sends a bookmark about every 60 s."""

SHORT_SECONDS: Final = 5.0
"""A watch that ends sooner counts as a failure, whatever the reason."""

CAUGHT_UP_SECONDS: Final = 1.0
"""What a watch missed before it was opened has arrived after so long: the server sends that at once."""

BACKOFF_BASE: Final = 0.25
BACKOFF_CAP: Final = 30.0

PROGRESS_FAILURES: Final = 4
"""Failures that count at most when events did arrive: an overloaded server that drops its readers after a while must be
resumed within 2 s, or the reader would never catch up.
"""

BACK_FAILURES: Final = 2
"""Failures that count at most when a server answers again, even to reject: it may not have read its RBAC rules yet."""

EVENTS_PER_TURN: Final = 25
"""Events applied before other tasks get to run: of three kinds at once some 10 ms."""

TURN_SECONDS: Final = 0.005
"""Fewer are applied if they take longer than this together: listeners may evaluate each for 10,000 pods."""

logger = logging.getLogger(__name__)


class Sink(Protocol[T_contra]):
    """Holds the objects of one kind by key: `namespace/name`, or the name for cluster-scoped kinds."""

    def replace_in_steps(self, items: Iterable[T_contra], resource_version: str) -> Iterator[None]:
        """Replace the content by a complete list, in steps: objects that are not in it do not exist."""

    def upsert(self, item: T_contra) -> None: ...

    def delete(self, key: str, version: int) -> None:
        """Drop an object that did not exist at that version, unless a newer one is held. 0 means that the version is
        not known.
        """


class WatchObserver(Protocol):
    """Counts what happens; `resource` is the plural name."""

    def watch_restarted(self, resource: str, cause: str) -> None:
        """Count the end of a watch: closed, expired or error."""

    def event_seen(self, resource: str, now: datetime) -> None:
        """Record a sign of life: a list, an event or a bookmark."""

    def malformed(self, resource: str) -> None:
        """Count an object that could not be decoded."""


class ObjectMeta(msgspec.Struct, frozen=True, gc=False):
    """The part of an object's metadata that identifies the object and its version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def version(self) -> int:
        """The resource version as a number; a deletion has its own. 0 if it is not a number."""
        return int(self.resource_version) if self.resource_version.isdigit() else 0


class ObjectHead(msgspec.Struct, frozen=True, gc=False):
    """Any object of the API, decoded only as far as its metadata."""

    metadata: ObjectMeta


_HEAD: Final = msgspec.json.Decoder(ObjectHead)


class Reflector(Generic[T]):
    """Lists and watches one kind. `run` never returns and raises nothing but cancellation.

    `decode` turns an object's JSON into a record. An object that it rejects is treated as absent, counted, and logged
    once per version; other objects are not affected.
    """

    def __init__(  # noqa: PLR0913 - a composition of ports
        self,
        api: KubeApi,
        resource: Resource,
        decode: Callable[[bytes], T],
        sink: Sink[T],
        *,
        clock: Clock,
        observer: WatchObserver,
        rng: Random,
    ) -> None:
        self.synced = asyncio.Event()
        self.opened: Callable[[], None] = lambda: None
        """Called when a watch opens after failures."""
        self._api = api
        self._resource = resource
        self._decode = decode
        self._sink = sink
        self._clock = clock
        self._observer = observer
        self._rng = rng
        self._version: str | None = None
        self._watching: asyncio.Task[None] | None = None
        self._watching_since: float | None = None
        self._listed_at = 0.0
        self._open = asyncio.Event()
        self._current_from = 0.0
        self._recovered_from = 0.0
        self._answered, self._was_out = True, False
        self._again = asyncio.Event()
        self._was_open = self._progressed = False
        self._failures = 0
        self._complaint = ""
        self._rejected: dict[str, str] = {}

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            self._watching_since = None
            self._was_open = self._progressed = False
            try:
                asked_to_wait = await self._list_and_watch()
            except Exception:
                # A bug in a sink may have left it inconsistent: start from a list again.
                logger.exception("Reflector failed", extra={"resource": self._resource.label})
                self._version = None
                asked_to_wait = 0.0
                self._observer.watch_restarted(self._resource.label, "error")
            wait = max(asked_to_wait, self._next_wait())
            if wait:
                await self._pause(wait)

    async def current(self) -> None:
        """Return when the sink has what happened before this call, as far as time can show it: the watch is open, and
        has been for CAUGHT_UP_SECONDS, unless it was opened right after a list.
        """
        await self._open.wait()
        while (left := self._current_from - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
            await self._open.wait()

    @property
    def recovers(self) -> bool:
        """Whether an outage hides what happened: the last attempt had no answer, or the watch has just been opened
        after such ones.
        """
        return not self._answered or self._clock.monotonic() < self._recovered_from

    def retry(self) -> None:
        """Try again now if the last attempt had no answer: the server answers others."""
        if not self._answered:
            self._again.set()

    def relist(self) -> None:
        """Request a new list now, because the content of the sink was found to be wrong."""
        if self._watching is None:
            self._version = None
        else:
            self._watching.cancel()

    async def _pause(self, seconds: float) -> None:
        self._again.clear()
        with suppress(TimeoutError):
            await within(self._clock, seconds, self._again.wait())

    async def _list_and_watch(self) -> float:
        """List if needed and watch until the watch ends. Returns the seconds that the server asked us to wait."""
        try:
            if self._version is None:
                await self._list()
            self._watching_since = self._clock.monotonic()
            await self._watch_until_relist()
        except Expired as error:
            self._version = None
            self._ended("expired", error)
            return error.retry_after or 0.0
        except KubeError as error:
            self._note_answer(self._was_open or not isinstance(error, Unavailable))
            self._ended("error", error)
            return error.retry_after or 0.0
        self._ended("closed", None)
        return 0.0

    async def _list(self) -> None:
        self._listed_at = self._clock.monotonic()
        listing = await self._api.list_all(self._resource, self._take)
        for _ in self._sink.replace_in_steps(listing.items, listing.resource_version):
            await asyncio.sleep(0)
        self._version = listing.resource_version
        self._observer.event_seen(self._resource.label, self._clock.now())
        self.synced.set()

    async def _watch_until_relist(self) -> None:
        self._watching = asyncio.ensure_future(self._watch())
        try:
            await asyncio.wait({self._watching})
            if self._watching.cancelled():
                self._version = None
            else:
                self._watching.result()
        finally:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
            self._watching = None

    async def _watch(self) -> None:
        # Watches that were opened together must not end together.
        timeout = self._rng.randint(240, 290)
        async with self._api.watch(
            self._resource, self._version or "", timeout_seconds=timeout, silence=SILENCE_SECONDS
        ) as events:
            self._opened()
            try:
                await self._apply_all(events)
            finally:
                self._open.clear()

    def _note_answer(self, answered: bool) -> None:
        if answered and not self._answered:
            self._failures = min(self._failures, BACK_FAILURES)
        self._answered = answered
        self._was_out = self._was_out or not answered

    def _opened(self) -> None:
        self._note_answer(True)
        self._was_open = True
        if self._failures:
            self.opened()
        now = self._clock.monotonic()
        self._current_from = now if now - self._listed_at < CAUGHT_UP_SECONDS else now + CAUGHT_UP_SECONDS
        if self._was_out:
            self._recovered_from, self._was_out = self._current_from, False
        self._open.set()

    async def _apply_all(self, events: AsyncIterator[WatchEvent]) -> None:
        count, spent = 0, 0.0
        async for event in events:
            began = self._clock.monotonic()
            self._apply(event)
            count, spent = count + 1, spent + self._clock.monotonic() - began
            if count >= EVENTS_PER_TURN or spent >= TURN_SECONDS:
                await asyncio.sleep(0)
                count, spent = 0, 0.0

    def _apply(self, event: WatchEvent) -> None:
        self._observer.event_seen(self._resource.label, self._clock.now())
        try:
            meta = _HEAD.decode(event.object).metadata
        except msgspec.DecodeError as error:
            self._reject(ObjectMeta(), error)
            return
        if event.type == "DELETED":
            self._rejected.pop(meta.key, None)
            self._sink.delete(meta.key, meta.version)
        elif event.type in {"ADDED", "MODIFIED"}:
            item = self._take(event.object)
            if item is None:
                # A version that cannot be read must not leave an older one in place: a relist would drop it too.
                self._sink.delete(meta.key, meta.version)
            else:
                self._sink.upsert(item)
        self._progressed = self._progressed or event.type != "BOOKMARK"
        self._version = meta.resource_version or self._version

    def _take(self, raw: msgspec.Raw) -> T | None:
        try:
            return self._decode(raw)
        except Exception as error:  # any failure of a decoder means the object is malformed
            self._reject(_meta_of(raw), error)
            return None

    def _reject(self, meta: ObjectMeta, error: Exception) -> None:
        self._observer.malformed(self._resource.label)
        if self._rejected.get(meta.key) == meta.resource_version:
            return
        self._rejected[meta.key] = meta.resource_version
        logger.warning(
            "Malformed object skipped",
            extra={
                "resource": self._resource.label,
                "object": meta.key,
                "resource_version": meta.resource_version,
                "error": str(error),
            },
        )

    def _ended(self, cause: str, error: KubeError | None) -> None:
        self._observer.watch_restarted(self._resource.label, cause)
        complaint = str(error) if error is not None and cause == "error" else ""
        if complaint and complaint != self._complaint:
            logger.warning("Watch failed", extra={"resource": self._resource.label, "error": complaint})
        self._complaint = complaint

    def _next_wait(self) -> float:
        lived = 0.0 if self._watching_since is None else self._clock.monotonic() - self._watching_since
        if lived >= SHORT_SECONDS:
            self._failures = 0
            return 0.0
        self._failures += 1
        if self._progressed:
            self._failures = min(self._failures, PROGRESS_FAILURES)
        return backoff(self._failures, BACKOFF_BASE, BACKOFF_CAP, self._rng.random())


def _meta_of(raw: msgspec.Raw) -> ObjectMeta:
    try:
        return _HEAD.decode(raw).metadata
    except msgspec.DecodeError:
        return ObjectMeta()


async def run_all(reflectors: Iterable[Reflector[Any]]) -> None:
    """List and watch all kinds until cancelled."""
    reflectors = tuple(reflectors)

    def retry() -> None:
        for reflector in reflectors:
            reflector.retry()

    async with asyncio.TaskGroup() as group:
        for reflector in reflectors:
            reflector.opened = retry
            group.create_task(reflector.run())


async def all_synced(reflectors: Iterable[Reflector[Any]]) -> None:
    """Return when every kind has been listed once."""
    await asyncio.gather(*(reflector.synced.wait() for reflector in reflectors))
