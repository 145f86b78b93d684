"""Periodic jobs: none overlaps itself, and what did not happen is counted."""

import asyncio
import logging

import pytest
from prometheus_client import CollectorRegistry

from prebinder.metrics.process import JobMetrics
from prebinder.runtime.jobs import CLOCK_CHECK_SECONDS, Job, scheduled
from tests.fake_clock import FakeClock


class Skipped(JobMetrics):
    def __init__(self) -> None:
        super().__init__(CollectorRegistry(), ())
        self.seen: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def skipped(self, job: str, cause: str) -> None:
        super().skipped(job, cause)
        self.seen.put_nowait((job, cause))


async def test_a_job_that_is_slow_does_not_overlap_itself() -> None:
    running, most = 0, 0
    release = asyncio.Event()

    async def slow() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1

    skipped = Skipped()
    with scheduled({"slow": Job(0.01, 0, slow)}, skipped, FakeClock()):
        assert await asyncio.wait_for(skipped.seen.get(), 30) == ("slow", "still_running")
        release.set()
    assert most == 1


async def test_a_job_that_fails_is_counted_and_runs_again() -> None:
    runs: asyncio.Queue[None] = asyncio.Queue()

    async def broken() -> None:
        runs.put_nowait(None)
        raise ValueError("broken")

    skipped = Skipped()
    with scheduled({"broken": Job(0.01, 0, broken)}, skipped, FakeClock()):
        assert await asyncio.wait_for(skipped.seen.get(), 30) == ("broken", "failed")
        for _ in range(2):
            await asyncio.wait_for(runs.get(), 30)


async def test_a_blocked_loop_loses_no_job() -> None:
    """With APScheduler's defaults a run that is more than a second late would be dropped."""
    ran = asyncio.Event()

    async def job() -> None:
        ran.set()

    loop, skipped = asyncio.get_running_loop(), Skipped()
    with scheduled({"job": Job(0.05, 0, job)}, skipped, FakeClock()):
        blocked_until = loop.time() + 1.3
        while loop.time() < blocked_until:
            pass
        await asyncio.wait_for(ran.wait(), 30)
    assert skipped.seen.empty()


async def test_a_run_that_is_broken_off_at_the_end_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def endless() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    skipped = Skipped()
    with scheduled({"endless": Job(0.01, 0, endless)}, skipped, FakeClock()):
        await asyncio.wait_for(began.wait(), 30)
    await asyncio.wait_for(ended.wait(), 30)
    await asyncio.sleep(0)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("steps", range(8))
async def test_a_run_that_had_not_taken_its_first_step_is_no_failure_either(
    caplog: pytest.LogCaptureFixture, steps: int
) -> None:
    async def endless() -> None:
        await asyncio.Event().wait()

    loop, skipped = asyncio.get_running_loop(), Skipped()
    with scheduled({"endless": Job(0.01, 0, endless, at_once=1_000)}, skipped, FakeClock()):
        due = loop.time() + 0.1
        while loop.time() < due:
            pass
        for _ in range(steps):
            await asyncio.sleep(0)
    for _ in range(8):
        await asyncio.sleep(0)
    assert skipped.seen.empty()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_clock_that_is_set_back_starts_all_jobs_and_one_that_is_corrected_does_not() -> None:
    """APScheduler goes by the machine's clock: the test sets the one that is watched."""
    runs: asyncio.Queue[None] = asyncio.Queue()

    async def hourly() -> None:
        runs.put_nowait(None)

    clock, skipped = FakeClock(), Skipped()
    with scheduled({"hourly": Job(3600, 0, hourly)}, skipped, clock):
        await clock.advance(CLOCK_CHECK_SECONDS)
        clock.set_time(-0.5)
        await clock.advance(CLOCK_CHECK_SECONDS)
        clock.set_time(86_400)
        await clock.advance(CLOCK_CHECK_SECONDS)
        assert runs.empty()
        clock.set_time(-3600)
        await clock.advance(CLOCK_CHECK_SECONDS)
        await asyncio.wait_for(runs.get(), 30)
        await clock.advance(10 * CLOCK_CHECK_SECONDS)
        assert runs.empty()
    assert skipped.seen.empty()
