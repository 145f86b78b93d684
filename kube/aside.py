"""Working something out while the event loop goes on.

For pure functions on frozen values whose size users decide: in a thread they give way to the event loop every few
milliseconds (sys.getswitchinterval), wherever they are, so that no loop in them has to be cut into slices by hand.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_a_thread(work: Callable[[], T], /) -> T:
    """Return what `work` returns, or raise what it raises. If the caller is cancelled, the work ends unheard."""
    return await asyncio.to_thread(work)
