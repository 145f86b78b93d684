"""The only place that reads a clock. Everything else takes `now` as an argument or a Clock in its constructor."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is written down, monotonic time for deadlines, and the wait between two actions."""

    def now(self) -> datetime:
        """Return the current time, UTC, timezone-aware."""

    def monotonic(self) -> float:
        """Return seconds that never jump back."""

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds."""


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
