"""Work beside the event loop's other tasks: a task that ends with its scope, and what would block the loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run the work while inside the context, and wait for its end on leaving. Its exception is raised at the end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        # Not awaited directly: its cancellation could not be distinguished from ours.
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()


class Aside(Protocol):
    """Computes something without blocking the event loop (asyncio.to_thread).

    For pure functions on frozen values whose size users control: in a thread the interpreter switches away from them
    every few milliseconds (sys.getswitchinterval), so that no loop in them has to be split into steps by hand.
    """

    async def __call__(self, work: Callable[[], T], /) -> T:
        """Return what `work` returns, or raise what it raises."""
