"""(o) What one CSI driver can do to the others: memory and pauses of the controller, and the sweeps of a good driver.

The controller, and the agent, as a process of its own with an API server of lists and watches only, a good driver and a
hostile one, each a process with as many volumes. The good driver's sweeps are compared with those beside a second good
driver.
"""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import aiohttp

from bench.control_plane.documents import Document, csi_volume, storage_class
from bench.hostile.cluster import HostileCluster
from bench.hostile.csi_driver import running
from bench.hostile.driver_kinds import KINDS
from bench.progress import say
from bench.rows import Row
from devcluster.processes.ports import LOOPBACK, free_ports

VOLUMES: Final = 500
"""Of each driver: a sweep takes 2.5 s at the shipped rate."""
SECONDS: Final = 15.0
"""Of a round: three sweeps."""
ROUNDS: Final = 2
GOAL_MB: Final = 200.0
GOAL_MS: Final = 100.0
GOAL_RATIO: Final = 1.1
GOOD: Final = "good.csi.example"
TOGETHER: Final = (
    "page tokens of 4 MiB",
    "256 topology segments, new in each answer",
    "no answer",
    "pages without end",
)
"""Kinds that are measured in one process as well."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What was measured beside some drivers: times in seconds."""

    pause: float
    own: float
    memory: float
    sweeps: Sequence[float]


def run(quick: bool) -> list[Row]:
    """Measure each kind in two rounds of some seconds; quick: in one, with few volumes."""
    return asyncio.run(_rows(60 if quick else VOLUMES, 6.0 if quick else SECONDS, 1 if quick else ROUNDS))


async def _rows(volumes: int, seconds: float, rounds: int) -> list[Row]:
    async def measured(kinds: Sequence[str], *, agent: bool = False) -> Beside:
        return _all_of([await measure(kinds, volumes, seconds, agent=agent) for _ in range(rounds)])

    alone = await measured([""])
    rows = [Row("sweep beside a good driver", median(alone.sweeps), "s", f"{len(alone.sweeps)} sweeps")]
    for kind in KINDS:
        say(kind)
        rows += _about(kind, await measured([kind]), alone)
        rows += _bounds(f"{kind}, agent", await measure([kind], volumes, seconds / 2, agent=True))
    return [*rows, *_about(f"{len(TOGETHER)} kinds at once", await measured(TOGETHER), alone)]


def _all_of(rounds: Sequence[Beside]) -> Beside:
    """Return the least pause, because other work on the machine only makes it longer, the most memory, all sweeps."""
    sweeps = [sweep for each in rounds for sweep in each.sweeps]
    pause, own = min(each.pause for each in rounds), min(each.own for each in rounds)
    return Beside(pause, own, max(each.memory for each in rounds), sweeps)


def _about(name: str, beside: Beside, alone: Beside) -> list[Row]:
    ratio = median(beside.sweeps) / median(alone.sweeps) if beside.sweeps else float("inf")
    detail = f"{len(beside.sweeps)} sweeps of the good driver, slowest {max(beside.sweeps, default=0):.2f} s"
    return [*_bounds(name, beside), Row(f"{name}: sweep of the others", ratio, "x", detail, at_most=GOAL_RATIO)]


def _bounds(name: str, beside: Beside) -> list[Row]:
    own = f"{beside.own * 1e3:.0f} ms of the controller's own processor time"
    return [
        Row(f"{name}: memory", beside.memory, "MB", at_most=GOAL_MB),
        Row(f"{name}: longest pause", beside.pause * 1e3, "ms", own, at_most=GOAL_MS),
    ]


async def measure(kinds: Sequence[str], volumes: int, seconds: float, *, agent: bool = False) -> Beside:
    """Run a controller with a good driver and one of each kind; an agent with one of the first kind only."""
    names = {f"hostile-{number}.csi.example": kind for number, kind in enumerate(kinds)}
    drivers = names if agent else {GOOD: "", **names}
    cluster = HostileCluster([storage_class(), *_volumes(drivers, volumes)], [])
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory()))
        url = await stack.enter_async_context(cluster.serving())
        endpoints = [await stack.enter_async_context(running(directory, *each)) for each in drivers.items()]
        (port,) = free_ports(1)
        arguments = ["--port", str(port), *(["--agent"] if agent else []), url]
        arguments += [f"{endpoint.driver}={endpoint}" for endpoint in endpoints]
        process = await stack.enter_async_context(_controller(arguments))
        await cluster.leased.wait()
        await _line_after(process)
        sweeps = await _sweeps(port, seconds)
        pause, own, memory = map(float, (await _line_after(process)).split())
        return Beside(pause, own, memory, sweeps)


def _volumes(drivers: dict[str, str], count: int) -> list[Document]:
    return [
        csi_volume(f"{driver.partition('.')[0]}-{number}", "zone-a", driver, f"handle-{number}")
        for driver in drivers
        for number in range(count)
    ]


@asynccontextmanager
async def _controller(arguments: Sequence[str]) -> AsyncIterator[Process]:
    command = [sys.executable, "-m", "bench.hostile.controller", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _line_after(process: Process) -> str:
    """Send a line, and return the next one."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"go on\n")
    return (await process.stdout.readline()).decode()


async def _sweeps(port: int, seconds: float) -> list[float]:
    """Return the durations of the good driver's sweeps that end meanwhile."""
    durations: list[float] = []
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.5)
        duration = await _last_sweep(port)
        if duration is not None and duration not in durations:
            durations.append(duration)
    return durations


async def _last_sweep(port: int) -> float | None:
    async with aiohttp.ClientSession() as session, session.get(f"http://{LOOPBACK}:{port}/metrics") as answer:
        page = await answer.text()
    sample = re.search(rf'^pvc_prebinder_health_sweep_last_duration_seconds{{driver_name="{GOOD}"}} (\S+)', page, re.M)
    return float(sample[1]) if sample is not None else None
