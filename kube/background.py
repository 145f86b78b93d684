"""A background task that ends with its scope."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


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
