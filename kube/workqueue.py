"""A queue of keys to process, each at most once, with limited concurrency and backoff per key.

A key that is added while a worker processes it is processed again afterwards, never by two workers at once. Keys carry
no event: the worker reads the present state. Names and meaning follow client-go's workqueue, metrics included.
"""

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from kube.backoff import backoff
from kube.clock import Clock, within
from kube.errors import KubeError, LeadershipLost, RetryableError

if TYPE_CHECKING:
    from kube.metrics import QueueInstruments

K = TypeVar("K", bound=Hashable)

BEGUN_IN_A_TURN: Final = 25
"""Keys whose processing begins before other tasks get to run: a thousand at once would block them for 0.1 s."""

RECONCILE: ContextVar[int] = ContextVar("reconcile")
"""The number of the attempt that is under way; all log lines written during it can carry it."""

_looks = count(1)

logger = logging.getLogger(__name__)


class TryAgain(Exception):
    """The objects changed during the attempt: the key is to be processed again after its backoff."""


class WorkQueue(Generic[K]):
    """De-duplicating queue. `base` and `cap` bound the backoff of a key, in seconds."""

    def __init__(
        self, clock: Clock, rng: Random, metrics: "QueueInstruments", *, base: float = 0.1, cap: float = 60.0
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._base = base
        self._cap = cap
        self._ready: deque[K] = deque()
        self._waiting_since: dict[K, float] = {}
        self._working_since: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._due: dict[K, float] = {}
        self._timetable: list[tuple[float, int, K]] = []
        self._order = count()
        self._timetable_changed = asyncio.Event()
        self._jobs: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._changed = asyncio.Event()
        self._closing = False

    def __len__(self) -> int:
        """Return how many keys wait for a worker now; delayed keys and those in progress do not count."""
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Whether no key is waiting for a worker or being worked on; some may be delayed."""
        return not self._ready and not self._working_since

    def add(self, key: K) -> None:
        """Queue the key; it is processed as soon as a worker is free."""
        if self._closing or key in self._waiting_since:
            return
        self._waiting_since[key] = self._clock.monotonic()
        if key not in self._working_since:
            self._ready.append(key)
            self._changed.set()
        self._metrics.added(len(self))

    def add_after(self, key: K, seconds: float) -> None:
        """Queue the key after that many seconds, or earlier if it is due earlier already."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        if due >= self._due.get(key, float("inf")):
            return
        self._due[key] = due
        heapq.heappush(self._timetable, (due, next(self._order), key))
        self._timetable_changed.set()

    def retry(self, key: K, at_least: float = 0.0) -> float:
        """Queue the key after its backoff, which grows until `forget`. Returns the delay in seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        wait = max(at_least, backoff(failures, self._base, self._cap, self._rng.random()))
        self._metrics.retried()
        self.add_after(key, wait)
        return wait

    def forget(self, key: K) -> None:
        """Reset the key's backoff."""
        self._failures.pop(key, None)

    def unfinished_seconds(self) -> float:
        """Return the total time that the keys in progress have been in progress."""
        now = self._clock.monotonic()
        return sum(now - since for since in self._working_since.values())

    def longest_running_seconds(self) -> float:
        """Return how long the slowest key in progress has been in progress."""
        now = self._clock.monotonic()
        return now - min(self._working_since.values(), default=now)

    def shut_down(self) -> None:
        """Accept and start nothing more. `run` returns when the keys in progress are done."""
        self._closing = True
        self._changed.set()

    async def run(self, workers: int, handle: Callable[[K], Awaitable[float | None]]) -> None:
        """Process keys by `handle`, at most `workers` at a time, until shut down; then finish those in progress.

        `handle` returns the seconds after which the key is to be processed again, or None. TryAgain and every KubeError
        back off and honour the server's Retry-After: even a TerminalError ends nothing, for a right can be granted, a
        token renewed and a policy corrected without any change of the key's object. LeadershipLost ends the run; any
        other exception is a bug: its trace is logged and the key backs off.
        """
        timetable = asyncio.ensure_future(self._keep_timetable())
        try:
            while self._failure is None and not (self._closing and not self._jobs):
                if await self._begin_some(workers, handle):
                    continue
                self._changed.clear()
                await self._changed.wait()
            if self._failure is not None:
                raise self._failure
        finally:
            tasks = (*self._jobs, timetable)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _begin_some(self, workers: int, handle: Callable[[K], Awaitable[float | None]]) -> bool:
        """Begin what may be begun, BEGUN_IN_A_TURN at most; return whether something is left."""
        for _ in range(BEGUN_IN_A_TURN):
            if not self._ready or len(self._jobs) >= workers or self._closing:
                return False
            self._begin(self._ready.popleft(), handle)
        await asyncio.sleep(0)
        return True

    def _begin(self, key: K, handle: Callable[[K], Awaitable[float | None]]) -> None:
        started = self._clock.monotonic()
        self._working_since[key] = started
        self._metrics.started(len(self), started - self._waiting_since.pop(key))
        job = asyncio.ensure_future(self._work(key, started, handle))
        self._jobs.add(job)
        job.add_done_callback(self._ended)

    def _ended(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        if not job.cancelled():
            # Retrieved for every job: asyncio reports an exception that is never retrieved as a crash.
            failure = job.exception()
            self._failure = self._failure or failure
        self._changed.set()

    async def _work(self, key: K, started: float, handle: Callable[[K], Awaitable[float | None]]) -> None:
        RECONCILE.set(next(_looks))
        try:
            await self._handle(key, handle)
        finally:
            del self._working_since[key]
            self._metrics.finished(self._clock.monotonic() - started)
            if key in self._waiting_since:
                self._ready.append(key)

    async def _handle(self, key: K, handle: Callable[[K], Awaitable[float | None]]) -> None:
        try:
            again = await handle(key)
        except LeadershipLost:
            raise
        except TryAgain:
            self.retry(key)
        except KubeError as error:
            wait = self.retry(key, error.retry_after or 0.0)
            # What will not resolve by itself is reported to people, once in a row of failures.
            first = not isinstance(error, RetryableError) and self._failures[key] == 1
            level = logging.WARNING if first else logging.INFO
            logger.log(level, "Backing off", extra={"key": str(key), "error": str(error), "seconds": round(wait, 2)})
        except Exception:
            self.retry(key)
            logger.exception("Reconcile failed", extra={"key": str(key)})
        else:
            self.forget(key)
            if again is not None:
                self.add_after(key, again)

    async def _keep_timetable(self) -> None:
        while True:
            self._timetable_changed.clear()
            now = self._clock.monotonic()
            while self._timetable and self._timetable[0][0] <= now:
                due, _, key = heapq.heappop(self._timetable)
                if self._due.get(key) == due:
                    del self._due[key]
                    self.add(key)
            if not self._timetable:
                await self._timetable_changed.wait()
                continue
            try:
                await within(self._clock, self._timetable[0][0] - now, self._timetable_changed.wait())
            except TimeoutError:
                continue
