"""Requests for the claims of one pod, a few at a time: many claims of one must not keep others from the API server."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

S = TypeVar("S")
T = TypeVar("T")

AT_ONCE: Final = 4
"""Claims of one pod that are read or bound side by side."""


async def side_by_side(work: Callable[[S], Awaitable[T]], subjects: Iterable[S]) -> list[T]:
    """Let all finish, then raise the first failure: no bind is cut off in the middle because another one failed."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def in_turn(subject: S) -> T:
        async with turns:
            return await work(subject)

    results = await asyncio.gather(*map(in_turn, subjects), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
