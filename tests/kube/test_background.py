"""Work beside other work: it is over when the other is, and nothing of it is lost."""

import asyncio

import pytest

from kube.background import in_background


async def test_it_has_ended_when_the_block_ends() -> None:
    """A task that is only cancelled still has its last steps before it."""
    ended: list[str] = []
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("work")

    async with in_background(work()):
        await started.wait()
    assert ended == ["work"]


async def test_its_error_is_raised() -> None:
    async def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        async with in_background(work()):
            await asyncio.sleep(0)


async def test_waiting_for_its_end_can_be_cancelled() -> None:
    going, release = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            going.set()
            await release.wait()

    async def use() -> None:
        async with in_background(work()):
            await asyncio.sleep(0)

    using = asyncio.create_task(use())
    await going.wait()
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    release.set()
