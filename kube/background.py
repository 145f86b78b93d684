"""Work beside other work, which ends with it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Do work while inside; it has ended when this ends. What it fails with is raised at the end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        # Not awaited itself: its cancellation could not be told from ours.
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()
