"""One worker per key, no circle of waiting, and nothing kept for keys that are not in use."""

import asyncio

from binder.writers.keyed_locks import KeyedLocks
from tests.fake_clock import settle


async def test_a_key_is_held_by_one_at_a_time_and_others_do_not_wait() -> None:
    locks, log, go = KeyedLocks(), list[str](), asyncio.Event()

    async def work(name: str, *keys: str) -> None:
        async with locks.held(keys):
            log.append(name)
            await go.wait()

    tasks = [asyncio.create_task(work(*args)) for args in (("one", "a", "b"), ("two", "b", "a"), ("three", "c"))]
    await settle()
    assert log == ["one", "three"]
    go.set()
    await asyncio.gather(*tasks)
    assert log == ["one", "three", "two"]
    assert vars(locks) == {"_locks": {}}


async def test_a_cancelled_waiter_leaves_nothing_behind() -> None:
    locks = KeyedLocks()
    async with locks.held(["a"]):
        waiting = asyncio.create_task(locks.held(["a"]).__aenter__())
        await settle()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert vars(locks) == {"_locks": {}}
