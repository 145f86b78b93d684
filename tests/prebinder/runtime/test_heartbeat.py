"""The event loop's lag, in fake time."""

import asyncio
from contextlib import suppress

import pytest

from prebinder.runtime.heartbeat import INTERVAL_SECONDS, Heartbeat
from tests.fake_clock import FakeClock


async def test_a_punctual_loop_has_no_lag() -> None:
    clock = FakeClock()
    heartbeat = Heartbeat(clock)
    beating = asyncio.create_task(heartbeat.run())
    await clock.advance(10 * INTERVAL_SECONDS)
    assert heartbeat.lag() <= 0
    beating.cancel()
    with suppress(asyncio.CancelledError):
        await beating


async def test_a_blocked_loop_is_seen_during_and_after() -> None:
    clock = FakeClock()
    heartbeat = Heartbeat(clock)
    beating = asyncio.create_task(heartbeat.run())
    await clock.advance(0)
    clock.jump(INTERVAL_SECONDS + 7)
    assert heartbeat.lag() == pytest.approx(7)
    await clock.advance(0)
    assert heartbeat.lag() == pytest.approx(7)
    await clock.advance(INTERVAL_SECONDS)
    assert heartbeat.lag() <= 0
    beating.cancel()
    with suppress(asyncio.CancelledError):
        await beating
