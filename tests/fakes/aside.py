"""Work that is done immediately, so that only the fake clock determines when things happen."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def at_once(work: Callable[[], T], /) -> T:
    """Replaces asyncio.to_thread."""
    return work()
