"""Runs long computations without blocking the event loop.

For pure functions on frozen values whose size users control: in a thread the interpreter switches away from them every
few milliseconds (sys.getswitchinterval), so that no loop in them has to be split into steps by hand.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_a_thread(work: Callable[[], T], /) -> T:
    """Return what `work` returns, or raise what it raises. If the caller is cancelled, the result of the work is
    discarded.
    """
    return await asyncio.to_thread(work)
