import asyncio
import gc
import random
from itertools import pairwise
from logging import WARNING

import pytest

from kube.errors import (
    BadRequest,
    Forbidden,
    Invalid,
    KubeError,
    LeadershipLost,
    NotFound,
    Throttled,
    Unauthorized,
    Unavailable,
)
from kube.workqueue import TryAgain, WorkQueue
from tests.fake_clock import FakeClock, settle
from tests.kube.counted import CountedQueue
from tests.running_task import running


def queue_on(clock: FakeClock, metrics: CountedQueue | None = None) -> WorkQueue[str]:
    return WorkQueue(clock, random.Random(1), metrics or CountedQueue(), base=1.0, cap=60.0)


class Desk:
    """A handler whose work on each key lasts until the test releases it."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.at_work: list[str] = []
        self.most = 0
        self._release = asyncio.Event()

    async def __call__(self, key: str) -> None:
        self.seen.append(key)
        self.at_work.append(key)
        self.most = max(self.most, len(self.at_work))
        await self._release.wait()
        self.at_work.remove(key)

    async def release(self) -> None:
        self._release.set()
        await settle()
        self._release.clear()


async def test_a_key_added_often_is_handled_once() -> None:
    queue, desk = queue_on(FakeClock()), Desk()
    for key in ("a", "a", "b", "a"):
        queue.add(key)
    assert len(queue) == 2
    async with running(queue.run(4, desk)):
        await settle()
        assert desk.seen == ["a", "b"]


async def test_a_key_added_while_in_work_is_handled_again_and_never_twice_at_once() -> None:
    queue, desk = queue_on(FakeClock()), Desk()
    async with running(queue.run(4, desk)):
        queue.add("a")
        await settle()
        queue.add("a")
        queue.add("a")
        await settle()
        assert desk.at_work == ["a"]
        await desk.release()
        await desk.release()
        assert desk.seen == ["a", "a"]
        assert desk.most == 1


async def test_no_more_workers_than_requested() -> None:
    queue, desk = queue_on(FakeClock()), Desk()
    for n in range(50):
        queue.add(str(n))
    async with running(queue.run(10, desk)):
        await settle()
        assert len(desk.at_work) == 10
        for _ in range(5):
            await desk.release()
        assert (desk.most, len(desk.seen)) == (10, 50)


async def test_workers_without_work_cost_nothing() -> None:
    queue, desk = queue_on(FakeClock()), Desk()
    before = asyncio.all_tasks()
    async with running(queue.run(1000, desk)):
        await settle()
        assert len(asyncio.all_tasks() - before) == 2
        queue.add("a")
        await settle()
        assert desk.at_work == ["a"]


async def test_add_after_waits_and_keeps_the_soonest() -> None:
    clock = FakeClock()
    queue, seen = queue_on(clock), []

    async def handle(key: str) -> None:
        seen.append((key, clock.monotonic() - 1000.0))

    async with running(queue.run(1, handle)):
        queue.add_after("late", 30)
        queue.add_after("late", 40)
        queue.add_after("soon", 20)
        queue.add_after("late", 10)
        queue.add_after("late", 50)
        queue.add_after("now", 0)
        await clock.advance(60)
    assert seen == [("now", 0.0), ("late", 10.0), ("soon", 20.0)]


async def test_the_returned_seconds_bring_the_key_back() -> None:
    clock = FakeClock()
    queue, seen = queue_on(clock), []

    async def handle(key: str) -> float | None:
        seen.append(clock.monotonic() - 1000.0)
        return 15.0 if len(seen) < 3 else None

    async with running(queue.run(1, handle)):
        queue.add("a")
        await clock.advance(600)
    assert seen == [0.0, 15.0, 30.0]


async def test_retryable_errors_and_bugs_back_off_and_success_starts_over() -> None:
    clock = FakeClock()
    queue = queue_on(clock)
    errors: list[Exception | None] = [
        Unavailable("GET", "/", 503, "x", "y"),
        RuntimeError("bug"),
        Unavailable("GET", "/", 503, "x", "y"),
        None,
        Unavailable("GET", "/", 503, "x", "y"),
    ]
    times: list[float] = []

    async def handle(key: str) -> None:
        times.append(clock.monotonic())
        error = errors.pop(0) if errors else None
        if error is not None:
            raise error

    async with running(queue.run(1, handle)):
        queue.add("a")
        await clock.advance(60)
        queue.add("a")
        await clock.advance(60)
    waits = [later - earlier for earlier, later in pairwise(times)]
    bounds = [(0.5, 1), (1, 2), (2, 4), (40, 60), (0.5, 1)]
    assert len(waits) == len(bounds)
    assert all(low <= wait <= high for wait, (low, high) in zip(waits, bounds, strict=True))


async def test_the_backoff_is_capped_and_jittered() -> None:
    queue = queue_on(FakeClock())
    waits = [queue.retry("a") for _ in range(2000)]
    assert all(30.0 <= wait <= 60.0 for wait in waits[6:])
    assert len(set(waits[6:])) > 1000
    queue.forget("a")
    assert queue.retry("a") <= 1.0


async def test_retry_after_is_obeyed() -> None:
    clock = FakeClock()
    queue, times = queue_on(clock), []

    async def handle(key: str) -> None:
        times.append(clock.monotonic() - 1000.0)
        if len(times) == 1:
            raise Throttled("PATCH", "/", 429, "TooManyRequests", "wait", retry_after=45.0)

    async with running(queue.run(1, handle)):
        queue.add("a")
        await clock.advance(100)
    assert times == [0.0, 45.0]


@pytest.mark.parametrize("error", [Forbidden, Unauthorized, Invalid, BadRequest, NotFound])
async def test_a_key_is_tried_ever_more_slowly_until_what_was_rejected_is_allowed(
    error: type[KubeError], caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    queue, seen, allowed = queue_on(clock), [], False

    async def handle(key: str) -> None:
        seen.append(clock.monotonic())
        if not allowed:
            raise error("PATCH", "/", 403, "Forbidden", "no")

    async with running(queue.run(1, handle)):
        queue.add("a")
        await clock.advance(600)
        assert 5 < len(seen) < 25
        waits = [after - before for before, after in pairwise(seen)]
        assert waits[0] < 1
        assert max(waits) >= 30
        allowed = True
        await clock.advance(60)
        tries = len(seen)
        await clock.advance(600)
        assert len(seen) == tries
    assert [record.getMessage() for record in caplog.records if record.levelno >= WARNING] == ["Backing off"]


async def test_a_look_that_came_to_nothing_is_taken_again_ever_more_slowly() -> None:
    clock = FakeClock()
    queue, seen = queue_on(clock), []

    async def handle(key: str) -> None:
        seen.append(key)
        raise TryAgain

    async with running(queue.run(1, handle)):
        queue.add("a")
        await clock.advance(600)
    assert 5 < len(seen) < 25


async def test_lost_leadership_ends_the_run() -> None:
    queue = queue_on(FakeClock())

    async def handle(key: str) -> None:
        raise LeadershipLost("gone")

    queue.add("a")
    with pytest.raises(LeadershipLost):
        await queue.run(3, handle)


async def test_a_lease_lost_in_several_looks_at_once_is_one_error_and_no_crash() -> None:
    queue, complaints = queue_on(FakeClock()), []
    # What earlier tests left is not complained of here.
    gc.collect()
    await settle()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context["message"]))

    async def handle(key: str) -> None:
        raise LeadershipLost(key)

    for key in ("a", "b", "c"):
        queue.add(key)
    try:
        with pytest.raises(LeadershipLost, match="a"):
            await queue.run(3, handle)
        gc.collect()
        await settle()
    finally:
        loop.set_exception_handler(None)
    assert complaints == []


async def test_shutting_down_finishes_what_is_in_work_and_starts_nothing() -> None:
    clock = FakeClock()
    queue, desk = queue_on(clock), Desk()
    for key in ("a", "b", "c"):
        queue.add(key)
    queue.add_after("d", 1)
    async with running(queue.run(2, desk)) as work:
        await settle()
        queue.shut_down()
        queue.add("e")
        await clock.advance(5)
        assert not work.done()
        await desk.release()
        await work
    assert desk.seen == ["a", "b"]


async def test_metrics_and_gauges_report_the_times() -> None:
    clock, counted = FakeClock(), CountedQueue()
    queue, desk = queue_on(clock, counted), Desk()
    queue.add("a")
    clock.jump(3)
    async with running(queue.run(1, desk)):
        await settle()
        await clock.advance(7)
        assert queue.longest_running_seconds() == queue.unfinished_seconds() == 7.0
        await desk.release()
    names = ("adds_total", "depth", "retries_total", "queue_duration_seconds_sum", "work_duration_seconds_sum")
    assert [counted.value(name) for name in names] == [1, 0, 0, 3.0, 7.0]
    assert queue.longest_running_seconds() == queue.unfinished_seconds() == 0.0


def test_an_idle_queue_has_run_for_no_time() -> None:
    """Not for less than none, though time passes between one reading of the clock and the next."""

    class PassingTime(FakeClock):
        def monotonic(self) -> float:
            self.jump(1)
            return super().monotonic()

    assert queue_on(PassingTime()).longest_running_seconds() == 0
