"""A time limit that follows the injected clock, so that tests need not wait for it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from kube.clock import Clock

T = TypeVar("T")


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns. After that many seconds cancel it and raise TimeoutError."""
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
