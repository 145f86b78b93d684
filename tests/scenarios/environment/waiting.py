"""Waiting for other processes: by looking again and again at what is really there, never by sleeping and hoping."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")

SECONDS = 60.0
_BETWEEN_LOOKS = 0.05
_SHOWN = 4000


async def eventually(
    look: Callable[[], Awaitable[T]], holds: Callable[[T], object], what: str, seconds: float = SECONDS
) -> T:
    """Look until what is seen `holds`, and return it; fail with `what` was awaited and what was seen last."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        seen = await look()
        if holds(seen):
            return seen
        if loop.time() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}; seen last:\n{described(seen)}")
        await asyncio.sleep(_BETWEEN_LOOKS)


async def never(look: Callable[[], Awaitable[T]], holds: Callable[[T], object], what: str, looks: int = 20) -> None:
    """Look some times and fail if it `holds` even once. Use it only after an event that shows that work was done."""
    for _ in range(looks):
        seen = await look()
        assert not holds(seen), f"{what}:\n{described(seen)}"
        await asyncio.sleep(_BETWEEN_LOOKS)


def described(seen: Any) -> str:
    text = json.dumps(seen, indent=1, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
