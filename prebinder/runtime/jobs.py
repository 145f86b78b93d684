"""The few periodic jobs, on APScheduler.

A run that is late happens once, as soon as it can; a job does not overlap itself unless configured. Runs that did not
happen are counted, because a check that silently stops looks like a check without findings. For the same reason all
jobs start at once when the clock was set back: APScheduler uses the wall clock, and would run none of them until it
reaches the previous time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from kube.clock import Clock
from prebinder.metrics.process import JobMetrics

CLOCK_CHECK_SECONDS: Final = 5.0
SET_BACK_SECONDS: Final = 1.0
"""Smaller differences are normal clock corrections, and no job's interval is shorter than some seconds."""

logger = logging.getLogger(__name__)

_CAUSES: Final = {
    EVENT_JOB_MISSED: "missed",
    EVENT_JOB_MAX_INSTANCES: "still_running",
    EVENT_JOB_ERROR: "failed",
}


@dataclass(frozen=True, slots=True)
class Job:
    """Runs `run` every so many seconds, and up to `jitter` seconds later, so that replicas are not synchronised.

    A run is skipped, and counted, while `at_once` others have not ended.
    """

    every: float
    jitter: float
    run: Callable[[], Awaitable[None]]
    at_once: int = 1


@contextmanager
def scheduled(jobs: Mapping[str, Job], metrics: JobMetrics, clock: Clock) -> Iterator[None]:
    """Run the jobs while inside the context."""
    scheduler: Any = AsyncIOScheduler(timezone=UTC)
    scheduler.add_listener(lambda event: metrics.skipped(event.job_id, _CAUSES[event.code]), sum(_CAUSES))
    stopping = asyncio.Event()
    for name, job in jobs.items():
        scheduler.add_job(
            _calm(job, stopping),
            "interval",
            id=name,
            seconds=job.every,
            jitter=job.jitter,
            # The default drops a run that is a second late.
            misfire_grace_time=None,
            coalesce=True,
            max_instances=job.at_once,
        )
    scheduler.start()
    watching = asyncio.ensure_future(_start_all_when_set_back(scheduler, clock))
    try:
        yield
    finally:
        watching.cancel()
        stopping.set()
        # shutdown() acts in the loop's next turn; a run begun in between would be cancelled before its first step, and
        # could not catch it: APScheduler would log a failure.
        scheduler.pause()
        scheduler.shutdown(wait=False)


async def _start_all_when_set_back(scheduler: Any, clock: Clock) -> None:
    """Follow the difference between the wall clock and the monotonic one: it shrinks when the time is set back."""

    def difference() -> float:
        return clock.now().timestamp() - clock.monotonic()

    before = difference()
    while True:
        await clock.sleep(CLOCK_CHECK_SECONDS)
        now = difference()
        if before - now > SET_BACK_SECONDS:
            logger.warning("System clock moved backwards", extra={"seconds": round(before - now, 1)})
            for job in scheduler.get_jobs():
                job.modify(next_run_time=datetime.now(UTC))
        before = now


def _calm(job: Job, stopping: asyncio.Event) -> Callable[[], Awaitable[None]]:
    """Let a run that is cancelled at the end just end; APScheduler would log it as a failure."""

    async def run() -> None:
        try:
            await job.run()
        except asyncio.CancelledError:
            if not stopping.is_set():
                raise

    return run
