"""Batches of keys that wait for a pass."""

import asyncio

import pytest

from binder.controllers.batcher import Batch, Batcher
from tests.fake_clock import FakeClock, settle


async def test_a_batch_that_fails_leaves_no_other_key_without_an_answer() -> None:
    clock, at_work = FakeClock(), asyncio.Event()

    async def work(batch: Batch[str]) -> None:
        if "first" in batch:
            await at_work.wait()
            raise ValueError("the first batch")
        for key, answer in batch.items():
            answer.resolve(key)

    batcher = Batcher[str](clock, work, lambda _: 1, 10, lambda _: False)
    first = asyncio.create_task(batcher.request("first"))
    await settle()
    await clock.advance(1)
    second = asyncio.create_task(batcher.request("second"))
    await settle()
    at_work.set()
    await clock.advance(1)
    with pytest.raises(ValueError, match="the first batch"):
        await first
    assert await second == "second"
