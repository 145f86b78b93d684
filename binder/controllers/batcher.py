"""Collects keys for a short while and answers them together, as Karpenter's provisioner batches pods."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import Context
from typing import Final, Generic, TypeVar

from kube.clock import Clock

T = TypeVar("T")

MIN_IDLE_SECONDS: Final = 0.01
MAX_IDLE_SECONDS: Final = 0.05
"""Seconds without another key after which a batch begins: the first value initially, growing while keys keep coming."""
MAX_BATCH_SECONDS: Final = 0.5
"""Seconds after which a batch begins in any case."""


class BatchAnswer(Generic[T]):
    """What the requests for one key wait for. The first result or error counts."""

    def __init__(self) -> None:
        self._future: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()

    def resolve(self, result: T | None) -> None:
        if not self._future.done():
            self._future.set_result(result)

    def fail(self, error: Exception) -> None:
        if not self._future.done():
            self._future.set_exception(error)
            self._future.exception()  # Those who asked may be gone: then asyncio would log it.

    async def get(self) -> T | None:
        """Wait for it. Cancelling does not affect others that wait."""
        return await asyncio.shield(self._future)


Batch = Mapping[str, BatchAnswer[T]]
"""In the order of the requests."""


class Batcher(Generic[T]):
    """Batches never overlap. A key that is requested again before its batch begins is in it once.

    `work` answers a batch; what it leaves open is answered with None, or with the error that it raises. `size_of` is
    how much of `max_size` a key takes: those beyond wait for the next batch. `gain_nothing` says of the first keys of a
    burst whether waiting for others is of no use to them: their batch begins after the first window.
    """

    def __init__(
        self,
        clock: Clock,
        work: Callable[[Batch[T]], Awaitable[None]],
        size_of: Callable[[str], int],
        max_size: int,
        gain_nothing: Callable[[Collection[str]], bool],
    ) -> None:
        self._clock = clock
        self._gain_nothing = gain_nothing
        self._work = work
        self._size_of = size_of
        self._max_size = max_size
        self._requests: dict[str, BatchAnswer[T]] = {}
        self._batches: asyncio.Task[None] | None = None

    async def request(self, key: str) -> T | None:
        """Return the answer of the next batch. Cancelling it does not affect others that wait for the same key."""
        answer = self._requests.get(key)
        if answer is None:
            answer = self._requests[key] = BatchAnswer()
        if self._batches is None:
            # In a context of its own: what is logged and traced of a batch belongs to none of its keys.
            self._batches = asyncio.create_task(self._run(), context=Context())
        return await answer.get()

    def cancel(self) -> None:
        """End the batch in progress; what waits for it is answered with None."""
        if self._batches is not None:
            self._batches.cancel()

    async def _run(self) -> None:
        first = True
        try:
            while self._requests:
                batch: Batch[T] = {}
                try:
                    await self._gather(first=first)
                    first = False
                    batch = self._next()
                    await self._work(batch)
                except Exception as error:
                    batch = batch or self._take_all()
                    for answer in batch.values():
                        answer.fail(error)
                finally:
                    for answer in batch.values():
                        answer.resolve(None)
        finally:
            self._batches = None

    async def _gather(self, *, first: bool) -> None:
        started = self._clock.monotonic()
        waiting, window = 0, MIN_IDLE_SECONDS
        while len(self._requests) > waiting and self._clock.monotonic() - started < MAX_BATCH_SECONDS:
            waiting = len(self._requests)
            await self._clock.sleep(window)
            if first and self._gain_nothing(self._requests):
                return
            first, window = False, min(2 * window, MAX_IDLE_SECONDS)

    def _take_all(self) -> Batch[T]:
        taken, self._requests = self._requests, {}
        return taken

    def _next(self) -> Batch[T]:
        """Take the keys that have waited longest, as many as a batch may have."""
        taken: dict[str, BatchAnswer[T]] = {}
        size = 0
        for key, answer in self._requests.items():
            size += self._size_of(key)
            if taken and size > self._max_size:
                break
            taken[key] = answer
        for key in taken:
            del self._requests[key]
        return taken
