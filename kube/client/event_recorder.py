"""Events (events.k8s.io/v1) about claims, volumes and pods: what happened, reported once, for `kubectl describe`.

Publishing never fails and never waits. Repeats of an Event become its series, as in client-go; a bounded queue, a rate
limit, and limits per object and namespace protect the API server from a storm; dropped Events are counted.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from kube.backoff import backoff
from kube.client.api import KubeApi
from kube.client.event_limit import EventLimit
from kube.client.rate_limit import TokenBucket
from kube.clock import Clock, micro_time, within
from kube.errors import Conflict, RetryableError
from kube.objects.api_resource import EVENTS
from kube.objects.model import Pod, Volume
from kube.plain_text import printable_lines

if TYPE_CHECKING:
    from kube.metrics import EventMetrics

NOTE_BYTES: Final = 1024
"""The API rejects longer notes."""

SERIES_SECONDS: Final = 360.0
"""A repeat within this time belongs to the series; a later one is a new Event (client-go: 6 minutes)."""

SERIES_PAUSE: Final = 60.0
"""The count of a running series is written at most this often."""

QPS: Final = 50.0
BURST: Final = 100
QUEUE: Final = 20_000
"""Capacity of the queue, some 10 MB: enough when 6,000 bound volumes become unhealthy at once, each with a claim and a
pod.
"""
REMEMBERED: Final = 4_096
TRIES: Final = 3

YIELD_SECONDS: Final = 10.0
"""For so long an Event that is no warning waits while more urgent writes are pending."""
YIELD_PAUSE: Final = 0.1

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The object an Event is about. `namespace` is empty for cluster-scoped kinds."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""

    @classmethod
    def of_pod(cls, pod: Pod) -> "ObjectRef":
        return cls("v1", "Pod", pod.name, pod.namespace, pod.uid)

    @classmethod
    def of_volume(cls, volume: Volume) -> "ObjectRef":
        return cls("v1", "PersistentVolume", volume.name, uid=volume.uid)

    def wire(self) -> dict[str, str]:
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
        }
        return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class EventDraft:
    """The content of an Event. `type` is Normal or Warning; `reason` and `action` are CamelCase words.

    `controller` is the reporting controller if it is not the recorder's own name: kube-scheduler uses the profile's
    name.
    """

    regarding: ObjectRef
    related: ObjectRef | None
    type: str
    reason: str
    action: str
    note: str
    controller: str = ""


def never() -> bool:
    """Nothing is more urgent."""
    return False


@dataclass(slots=True)
class _Series:
    """An Event on the server and its repeats. `last` and `written` are the monotonic times of the last repeat and the
    last write.

    `unwritten` means that the server does not have the current count yet.
    """

    name: str
    resource_version: str
    count: int
    last: float
    written: float
    last_seen: datetime
    unwritten: bool = False

    def runs(self, now: float) -> bool:
        """Whether a repeat still belongs to the series."""
        return now - self.last <= SERIES_SECONDS

    def is_due(self, now: float) -> bool:
        """Whether the next repeat is to be written."""
        return self.count == 1 or now - self.written >= SERIES_PAUSE


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str


class _Stored(msgspec.Struct):
    metadata: _Meta


class EventSink(Protocol):
    """Accepts Events to be sent (EventRecorder)."""

    def publish(self, draft: EventDraft) -> None:
        """Queue the Event for sending. Never raises."""


class EventRecorder:
    """Sends Events in the background while `run` runs. `instance` names this process.

    While the process is `busy` with writes that pods wait for, only warnings and Events older than YIELD_SECONDS are
    sent.
    """

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        metrics: "EventMetrics",
        *,
        controller: str,
        instance: str,
        busy: Callable[[], bool] = never,
    ) -> None:
        self._api = api
        self._clock = clock
        self._metrics = metrics
        self._controller = controller
        self._instance = instance[:128]
        self._busy = busy
        self._bucket = TokenBucket(clock, QPS, BURST)
        # Warnings first: failures do not wait behind the Events of thousands of pods without one.
        self._limit = EventLimit()
        self._limited = False
        self._queue: asyncio.PriorityQueue[tuple[bool, int, EventDraft, datetime]] = asyncio.PriorityQueue(QUEUE)
        self._published = count()
        self._series: OrderedDict[EventDraft, _Series] = OrderedDict()
        self._numbers = count()
        self._complaint = ""
        self._full = False

    def publish(self, draft: EventDraft) -> None:
        """Queue an Event for sending. Never raises; if too many wait, the Event is dropped and counted.

        So are Events beyond the limit of an object or namespace, except repeats, which create no new Event.
        """
        if draft not in self._series and not self._admits(draft):
            return
        try:
            self._queue.put_nowait((draft.type != "Warning", next(self._published), draft, self._clock.now()))
            self._full = False
        except asyncio.QueueFull:
            self._metrics.event_dropped(draft.type, draft.reason)
            if not self._full:
                logger.warning("Events dropped: queue full", extra={"count": self._queue.qsize()})
            self._full = True

    def _admits(self, draft: EventDraft) -> bool:
        about, now, series = draft.regarding, self._clock.monotonic(), self._series.get(draft)
        repeated = series is not None and series.runs(now)
        if series is not None and repeated and not series.is_due(now):
            return True  # It is counted, but not written.
        key = (about.kind, about.name, about.uid, draft.type)
        admitted = self._limit.admits(about.namespace, key, now, repeated=repeated)
        if not admitted:
            self._metrics.event_dropped(draft.type, draft.reason)
            if not self._limited:
                extra = {"namespace": about.namespace, "kind": about.kind, "object": about.name}
                logger.warning("Events dropped: rate limit of an object or namespace reached", extra=extra)
        self._limited = not admitted
        return admitted

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            draft, at = await self._next()
            try:
                await self._record(draft, at)
            except asyncio.CancelledError:
                self._metrics.event_dropped(draft.type, draft.reason)
                raise
            finally:
                self._queue.task_done()

    async def _next(self) -> tuple[EventDraft, datetime]:
        """Return the next Event to be sent: warnings first."""
        while True:
            entry = await self._queue.get()
            _, _, draft, at = entry
            age = (self._clock.now() - at).total_seconds()
            # A clock that was set back holds nothing up.
            if draft.type == "Warning" or not 0 <= age < YIELD_SECONDS or not self._busy():
                return draft, at
            # Back into its place, which nobody took: a warning may arrive meanwhile.
            self._queue.put_nowait(entry)
            self._queue.task_done()
            await self._clock.sleep(YIELD_PAUSE)

    async def flush(self, seconds: float) -> None:
        """Wait until all published Events are sent and the counts of all series are written, but no longer than that.

        Events left after that are dropped and counted.
        """
        try:
            await within(self._clock, seconds, self._flush())
        except TimeoutError:
            logger.warning("Events not sent before shutdown", extra={"count": self._queue.qsize()})
            while not self._queue.empty():
                _, _, draft, _ = self._queue.get_nowait()
                self._metrics.event_dropped(draft.type, draft.reason)

    async def _flush(self) -> None:
        await self._queue.join()
        for draft, series in list(self._series.items()):
            if series.unwritten:
                await self._deliver(draft, partial(self._write_series, draft, series))

    async def _record(self, draft: EventDraft, at: datetime) -> None:
        now = self._clock.monotonic()
        series = self._series.get(draft)
        if series is None or not series.runs(now):
            await self._deliver(draft, partial(self._create, draft, at))
            return
        is_due = series.is_due(now)
        series.count, series.last, series.last_seen, series.unwritten = series.count + 1, now, at, True
        if is_due:
            await self._deliver(draft, partial(self._write_series, draft, series))

    async def _create(self, draft: EventDraft, at: datetime) -> None:
        name = f"{draft.regarding.name[:200].rstrip('.-')}.{int(at.timestamp() * 1e6):x}{next(self._numbers):x}"
        namespace = _namespace(draft)
        body: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": micro_time(at),
            "reportingController": draft.controller or self._controller,
            "reportingInstance": self._instance,
            "regarding": draft.regarding.wire(),
            "type": draft.type,
            "reason": draft.reason,
            "action": draft.action,
            "note": shortened(printable_lines(draft.note)),
        }
        if draft.related is not None:
            body["related"] = draft.related.wire()
        stored = msgspec.json.decode(await self._api.create(EVENTS, body, namespace), type=_Stored).metadata
        now = self._clock.monotonic()
        self._series[draft] = _Series(stored.name, stored.resource_version, 1, now, now, at)
        self._series.move_to_end(draft)
        if len(self._series) > REMEMBERED:
            self._series.popitem(last=False)

    async def _write_series(self, draft: EventDraft, series: _Series) -> None:
        body = {"series": {"count": series.count, "lastObservedTime": micro_time(series.last_seen)}}
        raw = await self._api.conditional_patch(
            EVENTS, series.name, body, resource_version=series.resource_version, namespace=_namespace(draft)
        )
        series.resource_version = msgspec.json.decode(raw, type=_Stored).metadata.resource_version
        series.written = self._clock.monotonic()
        series.unwritten = False

    async def _deliver(self, draft: EventDraft, write: Callable[[], Awaitable[None]]) -> None:
        """Send at the limited rate with a few attempts, and count the result. Never raises."""
        for attempt in range(1, TRIES + 1):
            await self._clock.sleep(self._bucket.take())
            try:
                await write()
            except RetryableError as error:
                if not isinstance(error, Conflict) and attempt < TRIES:
                    await self._clock.sleep(max(error.retry_after or 0.0, backoff(attempt, 1.0, 10.0, 0.5)))
                    continue
                self._drop(draft, error)
            except Exception as error:  # an Event must never end the work it reports
                self._drop(draft, error)
            else:
                self._metrics.event_sent(draft.type, draft.reason)
            return

    def _drop(self, draft: EventDraft, error: Exception) -> None:
        # Its series may be gone from the server: the next repeat starts a new Event.
        self._series.pop(draft, None)
        self._metrics.event_dropped(draft.type, draft.reason)
        complaint = f"{type(error).__name__}: {error}"
        if complaint != self._complaint:
            logger.warning("Event dropped", extra={"reason": draft.reason, "error": complaint})
        self._complaint = complaint


def shortened(note: str) -> str:
    """Return the note, truncated to what the API accepts, never within a character."""
    if len(note.encode()) <= NOTE_BYTES:
        return note
    return note.encode()[: NOTE_BYTES - 3].decode(errors="ignore") + "…"


def _namespace(draft: EventDraft) -> str:
    """Events are in the namespace of their object; those about cluster-scoped objects must be in default."""
    return draft.regarding.namespace or "default"
