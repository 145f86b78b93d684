"""The only place that reads a clock. Everything else takes `now` as an argument or a Clock in its constructor."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, NoReturn, Protocol, TypeVar

T = TypeVar("T")


class Elapsed(Protocol):
    """Monotonic time, for code that only compares times."""

    def monotonic(self) -> float:
        """Return seconds that never jump back."""


class Now(Protocol):
    """Wall time alone, for code that only writes it down."""

    def now(self) -> datetime:
        """Return the current time, UTC, timezone-aware."""


class Clock(Elapsed, Now, Protocol):
    """Wall time for timestamps, monotonic time for deadlines, and a sleep."""

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds."""


async def every(seconds: float, clock: Clock, work: Callable[[], Awaitable[None]]) -> NoReturn:
    """Repeat the work until cancelled, with so many seconds before each time."""
    while True:
        await clock.sleep(seconds)
        await work()


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns. After that many seconds by the clock cancel it and raise TimeoutError."""
    task = asyncio.ensure_future(work)
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError(f"not finished within {seconds:.1f} s")
    finally:
        task.cancel()
        alarm.cancel()
        await asyncio.gather(task, alarm, return_exceptions=True)


def micro_time(now: datetime) -> str:
    """Write a time as meta/v1 MicroTime, as Leases and Events carry it: UTC, always six digits."""
    return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
