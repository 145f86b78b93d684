"""A clock that stands still until a test moves it. Implements kube.clock.Clock."""

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

START = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


async def settle() -> None:
    """Let every task run until all of them wait for a clock, a future or the network."""
    loop: Any = asyncio.get_running_loop()
    await asyncio.sleep(0)
    while loop._ready:  # noqa: ASYNC110 - no event says "all tasks wait"
        await asyncio.sleep(0)


class FakeClock:
    """Time moves only in `advance`; sleepers wake in the order of their due times."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._elapsed = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return 1000.0 + self._elapsed

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), woken))
        await woken

    def set_time(self, seconds: float) -> None:
        """Set the wall clock forward, or back by a negative number, as an administrator does; no time passes."""
        self._start += timedelta(seconds=seconds)

    def jump(self, seconds: float) -> None:
        """Move time without waking any task, as if the process had been suspended (SIGSTOP) for that long."""
        self._elapsed += seconds

    async def advance(self, seconds: float) -> None:
        """Move time forward, waking each sleeper at its time and letting all tasks settle before the next."""
        await settle()
        end = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, woken = heapq.heappop(self._sleepers)
            self._elapsed = max(self._elapsed, due)
            if not woken.done():
                woken.set_result(None)
            await settle()
        self._elapsed = end
        await settle()
