"""(k) What one user can create to block others: the longest pause of the event loop, and whether the Lease is kept.

The controller is a process of its own with its shipped settings, against an API server of lists and watches only
(`bench.hostile.cluster`). The scheduler's part is `bench.hostile.scheduling`.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from time import monotonic
from typing import Final

from bench.hostile import scheduling as hostile_scheduling
from bench.hostile.cluster import HostileCluster
from bench.hostile.inputs import HostileInput, inputs
from bench.progress import say
from bench.rows import Row
from kube.leaderelection.lease import LeaseTiming

ROUNDS: Final = 3
SECONDS: Final = 25.0
"""For an input: the first attempt for every pod, and some retries."""
GOAL_MS: Final = 100.0


def run(quick: bool) -> list[Row]:
    """Measure each input three times and take the least pause; quick: a tenth of its size, once."""
    return [*hostile_scheduling.rows(quick), *asyncio.run(_rows(quick))]


async def _rows(quick: bool) -> list[Row]:
    rows: list[Row] = []
    for hostile in inputs(quick):
        say(hostile.name)
        rounds = [await measure(hostile, 5.0 if quick else SECONDS) for _ in range(1 if quick else ROUNDS)]
        rows += _about(hostile, rounds)
    return rows


class Outcome:
    """`pause` in seconds, `own` the longest in the controller's processor time; `answered`: seconds until every pod had
    an Event, None if not all had.
    """

    def __init__(self, pause: float, own: float, cluster: HostileCluster, answered: float | None) -> None:
        self.pause, self.own = pause, own
        self.renewal = cluster.longest_without_renewal
        self.reported = len(cluster.reported)
        self.answered = answered


def _about(hostile: HostileInput, rounds: list[Outcome]) -> list[Row]:
    best = min(rounds, key=lambda outcome: outcome.pause)
    detail = f"{best.reported} of {hostile.pods} pods rejected with an Event"
    detail += f", all after {best.answered:.1f} s" if best.answered is not None else ""
    detail += f"; {min(outcome.own for outcome in rounds) * 1e3:.0f} ms of the controller's own processor time"
    pauses = tuple(outcome.pause * 1e3 for outcome in rounds) if len(rounds) > 1 else ()
    # The least counts: other work on the machine only makes a pause longer.
    rows = [
        Row(f"longest pause: {hostile.name}", best.pause * 1e3, "ms", detail, at_most=GOAL_MS, rounds=pauses),
    ]
    renewal = max(outcome.renewal for outcome in rounds)
    deadline = LeaseTiming().renew_deadline
    return [*rows, Row("longest time between renewals of the Lease", renewal, "s", "of all rounds", at_most=deadline)]


async def measure(hostile: HostileInput, seconds: float) -> Outcome:
    """Let the controller lead a quiet cluster, let the hostile objects appear, and watch for so many seconds."""
    cluster = HostileCluster(hostile.standing, hostile.arriving)
    async with cluster.serving() as url:
        command = [sys.executable, "-m", "bench.hostile.controller", url]
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        try:
            return await _watched(process, cluster, hostile, seconds)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _watched(process: Process, cluster: HostileCluster, hostile: HostileInput, seconds: float) -> Outcome:
    assert process.stdin is not None
    assert process.stdout is not None
    await cluster.leased.wait()
    process.stdin.write(b"leading\n")
    await process.stdout.readline()
    cluster.let_loose()
    answered = await _all_reported(cluster, hostile.pods, seconds)
    process.stdin.write(b"enough\n")
    pause, own, _ = map(float, (await process.stdout.readline()).split())
    return Outcome(pause, own, cluster, answered)


async def _all_reported(cluster: HostileCluster, pods: int, seconds: float) -> float | None:
    """Wait for so many seconds; return after how many every pod had an Event."""
    began, answered = monotonic(), None
    while monotonic() - began < seconds:
        if answered is None and len(cluster.reported) >= pods:
            answered = monotonic() - began
        await asyncio.sleep(0.05)
    return answered
