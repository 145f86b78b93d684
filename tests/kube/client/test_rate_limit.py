import asyncio

import pytest

from kube.client.rate_limit import RateLimit, TokenBucket
from tests.fake_clock import FakeClock, settle
from tests.kube.counted import CountedRequests


def test_a_burst_passes_and_the_rest_comes_at_the_rate() -> None:
    bucket = TokenBucket(FakeClock(), rate=10.0, burst=3)
    assert [round(bucket.take(), 6) for _ in range(6)] == [0.0, 0.0, 0.0, 0.1, 0.2, 0.3]


def test_rest_fills_the_bucket_no_further_than_the_burst() -> None:
    clock = FakeClock()
    bucket = TokenBucket(clock, rate=10.0, burst=2)
    for _ in range(4):
        bucket.take()
    clock.jump(1000)
    assert [bucket.take() for _ in range(3)] == [0.0, 0.0, pytest.approx(0.1)]


async def test_requests_wait_for_their_token() -> None:
    clock, begun = FakeClock(), list[float]()
    rate = RateLimit(clock, CountedRequests(), qps=10.0, burst=5)
    start = clock.monotonic()

    async def send() -> None:
        begun.append(await rate.turn() - start)

    sending = [asyncio.ensure_future(send()) for _ in range(20)]
    await settle()
    assert begun == [0.0] * 5
    await clock.advance(1.0)
    assert len(begun) == 15
    await clock.advance(1.0)
    await asyncio.gather(*sending)
    assert begun == pytest.approx([0.0] * 5 + [number / 10 for number in range(1, 16)])


async def test_the_time_of_a_response_does_not_include_the_wait_for_the_token() -> None:
    clock, requests = FakeClock(), CountedRequests()
    rate = RateLimit(clock, requests, qps=1.0, burst=1)
    await rate.turn()
    waiting = asyncio.ensure_future(rate.turn())
    await clock.advance(1.0)
    began = await waiting
    await clock.advance(0.5)
    rate.answered("GET", 200, began)
    assert requests.done == {("GET", "200"): 1}
    assert requests.seconds("GET") == pytest.approx(0.5)
