"""(f) How long a sweep over all volumes of a driver takes, one by one and by lists, at the default rate limit and
without.

The driver is real and runs in a process of its own; it is called through csi/ as the controller does.
"""

import asyncio
import os
import signal
import tempfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Final

from bench.health.delay import Case, measure
from bench.health.driver import RunningDriver, handles, make_volumes, running
from bench.health.meter import Meter
from bench.progress import say
from bench.rows import Row
from csi.drivers import Drivers
from csi.sweep import Sweep
from csi.volume_probes import Pace
from devcluster.driver.generation import Generation
from kube.clock import SystemClock

SIZES: Final = (1_000, 10_000)
INTERVAL: Final = 60.0
"""Seconds, the controller's default: also the goal of a sweep."""
UNLIMITED: Final = Pace(rate=1e9)
APART: Final = 1.1
"""A driver that hangs may lengthen another's sweep by this factor at most."""


@dataclass(frozen=True, slots=True)
class Swept:
    """One sweep: how long it took, how much processor time of ours, and how many calls."""

    seconds: float
    processor: float
    calls: int


class Order:
    """Port of csi.sweep: these volumes, in this order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    async def handles(self, driver: str) -> Iterable[str]:  # noqa: ARG002 - there is one
        return self._names

    async def in_use(self, driver: str) -> Sequence[Collection[str]]:  # noqa: ARG002 - as above
        return ()


class Sweeper:
    """Everything that is needed to sweep a driver repeatedly."""

    def __init__(self, driver: RunningDriver, count: int, pace: Pace) -> None:
        self.meter, self._name = Meter(), driver.endpoint.driver
        self.drivers = Drivers([driver.endpoint], SystemClock(), self.meter)
        self._sweep: Sweep = self.drivers.sweep(self._name, Order(handles(count)), pace, self.meter)

    async def once(self) -> Swept:
        """Sweep, and fail if the driver did not respond to the end: the time would mean nothing."""
        swept = await self.attempt()
        if not self.meter.ended[self._name].answered:
            raise RuntimeError(f"{self._name} stopped responding during a sweep")
        return swept

    async def attempt(self) -> Swept:
        calls, processor = self.meter.calls, process_time()
        await self._sweep.run()
        seconds = self.meter.ended[self._name].seconds or 0.0
        return Swept(seconds, process_time() - processor, self.meter.calls - calls)


def run(quick: bool) -> list[Row]:
    """Measure with 1,000 and 10,000 volumes; quick: with 20 and 40, and an interval of two seconds."""
    return asyncio.run(_run((20, 40) if quick else SIZES, 2.0 if quick else INTERVAL))


async def _run(sizes: Sequence[int], interval: float) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="pvc-prebinder-bench-") as directory:
        for count in sizes:
            root = Path(directory) / f"volumes-{count}"
            make_volumes(root, handles(count))
            rows += await _by_get(root, count) + await _by_list(root, count)
        rows += await _apart(Path(directory) / f"volumes-{sizes[0]}", sizes[0])
        rows += await measure(_changing(Path(directory), sizes), interval)
    return rows


def _changing(directory: Path, sizes: Sequence[int]) -> list[Case]:
    small, large = sizes
    cases = [
        Case("get", Generation.CONDITION_GET, directory / "few", small, used=small // 2),
        Case("get", Generation.CONDITION_GET, directory / "many", large, used=large // 40),
        Case("list", Generation.HEALTH, directory / "listed", large, used=large // 2),
    ]
    for case in cases:
        make_volumes(case.root, handles(case.count))
    return cases


async def _by_get(root: Path, count: int) -> list[Row]:
    say(f"{count} volumes one by one")
    async with running("get.csi.example", root, Generation.CONDITION_GET) as driver:
        swept = await _one_sweep(driver, count, Pace())
        uncapped = await _one_sweep(driver, count, UNLIMITED)
    title = f"{count:,} volumes by get"
    details = f"without the cap: {uncapped.seconds:.1f} s, {uncapped.processor:.1f} s of it ours"
    return [
        Row(f"{title}, {Pace().rate:g} a second", swept.seconds, "s", _described(swept), at_most=INTERVAL),
        Row(f"{title}, as fast as it goes", count / uncapped.seconds, "volumes/s", details),
    ]


async def _by_list(root: Path, count: int) -> list[Row]:
    say(f"{count} volumes by lists")
    rows = []
    async with running("list.csi.example", root, Generation.CONDITION) as driver:
        swept = await _one_sweep(driver, count, Pace())
        rows.append(Row(f"{count:,} volumes by ListVolumes", swept.seconds, "s", _described(swept), at_most=INTERVAL))
    async with running("health.csi.example", root, Generation.HEALTH) as driver:
        sweeper = Sweeper(driver, count, Pace())
        title = f"{count:,} volumes by ControllerListVolumeHealth"
        for which in ("the first time, each confirmed by get", "from then on"):
            swept = await sweeper.once()
            rows.append(Row(f"{title}, {which}", swept.seconds, "s", _described(swept), at_most=INTERVAL))
        await sweeper.drivers.close()
    return rows


async def _apart(root: Path, count: int) -> list[Row]:
    """Two drivers are swept at the same time, and then again while one of them hangs."""
    say("a driver that hangs beside another")
    generation = Generation.CONDITION_GET
    async with running("a.csi.example", root, generation) as first, running("b.csi.example", root, generation) as other:
        sweepers = [Sweeper(driver, count, Pace()) for driver in (first, other)]
        for _ in range(2):  # the first includes the handshake
            before = (await asyncio.gather(*(sweeper.once() for sweeper in sweepers)))[1]
        os.kill(first.pid, signal.SIGSTOP)
        _, beside = await asyncio.gather(sweepers[0].attempt(), sweepers[1].once())
        await asyncio.gather(*(sweeper.drivers.close() for sweeper in sweepers))
    details = f"{count:,} volumes by get: {before.seconds:.2f} s before, {beside.seconds:.2f} s beside it"
    return [
        Row("sweep beside a driver that hangs, to before", beside.seconds / before.seconds, "x", details, at_most=APART)
    ]


async def _one_sweep(driver: RunningDriver, count: int, pace: Pace) -> Swept:
    sweeper = Sweeper(driver, count, pace)
    try:
        return await sweeper.once()
    finally:
        await sweeper.drivers.close()


def _described(swept: Swept) -> str:
    return f"{swept.calls:,} calls, {swept.processor:.1f} s of processor time"
