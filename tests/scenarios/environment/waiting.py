"""Waiting for other processes: by looking again and again at what is really there, never by sleeping and hoping."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")

SECONDS = 60.0
_POLL_SECONDS, _MAX_BETWEEN = 0.05, 0.15
_LATE = 0.1
"""How much later something may be seen, by the time that was waited for it: looks cost as much as work."""
_LOOKING, _MAX_SECONDS = 0.25, 1.0
"""Of the time, at most, that goes into looking, since hundreds of objects take long to list; and the longest pause."""
_SHOWN = 4000


async def eventually(
    look: Callable[[], Awaitable[T]], holds: Callable[[T], object], what: str, seconds: float = SECONDS
) -> T:
    """Look until what is seen `holds`, and return it; fail with `what` was awaited and what was seen last."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while True:
        began = loop.time()
        seen = await look()
        if holds(seen):
            return seen
        now = loop.time()
        if now > started + seconds:
            raise AssertionError(f"not within {seconds:.0f} s: {what}; seen last:\n{described(seen)}")
        pause = min(max(_POLL_SECONDS, (now - started) * _LATE), _MAX_BETWEEN)
        await asyncio.sleep(max(pause, min((now - began) * (1 / _LOOKING - 1), _MAX_SECONDS)))


async def never(look: Callable[[], Awaitable[T]], holds: Callable[[T], object], what: str, looks: int = 20) -> None:
    """Look some times and fail if it `holds` even once. Use it only after an event that shows that work was done."""
    for _ in range(looks):
        seen = await look()
        assert not holds(seen), f"{what}:\n{described(seen)}"
        await asyncio.sleep(_POLL_SECONDS)


def described(seen: Any) -> str:
    text = json.dumps(seen, indent=1, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
