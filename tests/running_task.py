"""A task that runs while a test looks at what it does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

Result = TypeVar("Result")


@asynccontextmanager
async def running(work: Awaitable[Result]) -> AsyncIterator[asyncio.Future[Result]]:
    """Run it while inside; at the end it is cancelled, and whatever it raised is dropped."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
