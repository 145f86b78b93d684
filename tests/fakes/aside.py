"""Work that is done on the spot, so that a fake clock decides alone when things happen."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def at_once(work: Callable[[], T], /) -> T:
    """Stand in for kube.aside.in_a_thread."""
    return work()
