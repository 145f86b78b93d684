import asyncio

import pytest

from kube.client.rate_limit import PacedTransport, TokenBucket
from kube.client.transport import Request
from kube.errors import Unavailable
from tests.fake_clock import FakeClock, settle
from tests.kube.scripted_transport import Answer, ScriptedTransport, answer

REQUEST = Request("GET", "/")


class Seen:
    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []

    def request_done(self, method: str, status: int, seconds: float) -> None:
        self.done.append((method, status))


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
    clock, wire = FakeClock(), ScriptedTransport(lambda _: answer(200, {}))
    paced = PacedTransport(wire, clock, Seen(), qps=10.0, burst=5)
    sending = [asyncio.ensure_future(paced.send(REQUEST)) for _ in range(20)]
    await settle()
    assert len(wire.requests) == 5
    await clock.advance(1.0)
    assert len(wire.requests) == 15
    await clock.advance(1.0)
    await asyncio.gather(*sending)


@pytest.mark.parametrize(
    ("given", "status"),
    [(answer(200, {}), 200), (answer(409, {}), 409), (Unavailable("GET", "/", 0, "x", "y"), 0)],
    ids=["200", "409", "no answer"],
)
async def test_every_answer_is_reported(given: Answer, status: int) -> None:
    seen = Seen()
    paced = PacedTransport(ScriptedTransport(lambda _: given), FakeClock(), seen, qps=10.0, burst=5)
    await asyncio.gather(paced.send(REQUEST), return_exceptions=True)
    assert seen.done == [("GET", status)]


async def test_a_watch_is_reported_when_it_starts() -> None:
    seen = Seen()
    wire = ScriptedTransport(lambda _: answer(500, b""), lambda _: (410, [b"gone"]))
    async with PacedTransport(wire, FakeClock(), seen, qps=10.0, burst=5).stream(REQUEST) as response:
        assert [line async for line in response.lines] == [b"gone"]
    assert seen.done == [("WATCH", 410)]
