"""How long a change of a volume's health stays undetected: with the controller's jobs, at its intervals.

Three drivers at once, in one process, as in the controller. Each volume changes at a random moment of one interval.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from statistics import quantiles
from time import monotonic
from typing import Final

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from bench.health.driver import handles, running
from bench.health.meter import Meter
from bench.progress import say
from bench.rows import Row
from csi.client.channel import Limits
from csi.drivers import Drivers
from csi.health.health import HealthRecord
from devcluster.driver.generation import Generation
from devcluster.driver.health import VolumeFault
from devcluster.driver.volumes import break_volume, make_well
from kube.clock import SystemClock
from kube.objects.model import ClaimReference, Pod, PodClaim, Volume
from kube.store.store import Store
from prebinder.config.settings import HealthSettings, Settings
from prebinder.controller.sweeps import ClusterSweeps, sweep_jobs
from prebinder.metrics.process import JobMetrics
from prebinder.runtime.jobs import scheduled

CHANGES: Final = 100
"""Volumes that become unhealthy, and as many that recover, for each driver."""
THEIRS_BY_GET: Final = 6.0
"""Seconds for each volume of a driver after which external-health-monitor 0.18 has probed all of them: its ten workers
take one volume a minute each.
"""
THEIRS_BY_LIST: Final = 300.0
"""Seconds between its lists."""
IN_USE_GOAL: Final = 10.0
"""Seconds, for 99 of 100 volumes that running pods use."""
_LATE: Final = 3
"""Intervals to wait for changes that were not seen; more of them would not help."""


@dataclass(frozen=True, slots=True)
class Case:
    """One driver. Its volumes lie below `root`, where no other driver of the measurement has any."""

    word: str
    generation: Generation
    root: Path
    count: int
    used: int = 0
    """Volumes that running pods use, half of those that change among them."""

    @property
    def driver(self) -> str:
        return f"{self.word}-{self.count}.csi.example"

    @property
    def in_use(self) -> frozenset[str]:
        """Handles of volumes that running pods use."""
        falling, recovering = _falling(self), _recovering(self)
        changing = {*falling, *recovering}
        others = [handle for handle in handles(self.count) if handle not in changing]
        return frozenset([*falling[::2], *recovering[::2], *others][: self.used])

    @property
    def title(self) -> str:
        return f"{self.count:,} volumes by {self.word}"

    @property
    def theirs(self) -> float:
        """Seconds after which external-health-monitor detects a change at the latest."""
        by_list = self.generation in (Generation.HEALTH, Generation.CONDITION, Generation.CONDITION_LIST)
        return THEIRS_BY_LIST if by_list else self.count * THEIRS_BY_GET


@dataclass(slots=True)
class Delays:
    """For each driver, and volumes in use or not, the seconds from a change to its detection."""

    in_use: Mapping[str, Collection[str]]
    """Driver -> handles."""

    waiting: dict[tuple[str, str], float] = field(default_factory=dict)
    """(driver, handle) -> when it changed, for changes that are not detected yet."""
    unhealthy: dict[tuple[str, bool], list[float]] = field(default_factory=dict)
    well: dict[tuple[str, bool], list[float]] = field(default_factory=dict)
    seen: asyncio.Event = field(default_factory=asyncio.Event)

    def learned(self, driver: str, handle: str, _: HealthRecord | None, new: HealthRecord) -> None:
        """Listener of csi.records."""
        changed = self.waiting.pop((driver, handle), None)
        if changed is not None:
            kind = (driver, handle in self.in_use[driver])
            (self.unhealthy if new.unhealthy else self.well).setdefault(kind, []).append(monotonic() - changed)
            self.seen.set()

    async def settled(self, seconds: float) -> None:
        """Wait until all changes are detected, but no longer than that."""
        try:
            async with asyncio.timeout(seconds):
                while self.waiting:
                    self.seen.clear()
                    await self.seen.wait()
        except TimeoutError:
            say(f"never known: {sorted(self.waiting)}")


async def measure(cases: Sequence[Case], interval: float) -> list[Row]:
    """Let volumes become unhealthy and recover during sweeps, and report how late that is detected."""
    delays, store = Delays({case.driver: case.in_use for case in cases}), Store()
    async with AsyncExitStack() as stack:
        endpoints = []
        for case in cases:
            fill(store, case)
            for handle in _recovering(case):
                break_volume(case.root, handle, VolumeFault.GONE)
            driver = await stack.enter_async_context(running(case.driver, case.root, case.generation))
            endpoints.append(driver.endpoint)
        settings = Settings(health=HealthSettings(tuple(endpoints), sweep_interval=timedelta(seconds=interval)))
        meter = Meter()
        drivers = Drivers(endpoints, SystemClock(), meter)
        stack.push_async_callback(drivers.close)
        drivers.records.listeners.append(delays.learned)
        jobs = sweep_jobs(settings, drivers, ClusterSweeps(settings, store, meter), lambda: True)
        stack.enter_context(scheduled(jobs, JobMetrics(CollectorRegistry(), ()), SystemClock()))
        say(f"{', '.join(case.title for case in cases)}: first probe of all volumes")
        while meter.ended.keys() < {case.driver for case in cases}:  # noqa: ASYNC110 - simpler than an event
            await asyncio.sleep(0.1)
        say(f"volumes change during {interval:.0f} s")
        await asyncio.gather(*(_change(case, delays, interval, Random(case.word)) for case in cases))
        await delays.settled(_LATE * interval + 30)
    return [row for case in cases for row in _rows(case, delays, interval)]


def fill(store: Store, case: Case) -> None:
    """Add the driver's volumes, and a running pod for each that is in use, to the store as the watch would."""
    in_use = case.in_use
    for handle in handles(case.count):
        name = f"{case.word}-{case.count}-{handle}"
        volume = Volume(name, name, 1, "disks", phase="Available", driver=case.driver, handle=handle)
        if handle in in_use:
            volume = replace(volume, phase="Bound", claim=ClaimReference("bench", name))
            store.pods.upsert(Pod("bench", name, name, 1, node_name="node", phase="Running", claims=(PodClaim(name),)))
        store.volumes.upsert(volume)


async def _change(case: Case, delays: Delays, interval: float, rng: Random) -> None:
    """At random moments of one interval, spread over the whole order of probes."""

    def fail(handle: str) -> None:
        break_volume(case.root, handle, VolumeFault.GONE)

    def recover(handle: str) -> None:
        make_well(case.root, handle)

    changes = [(rng.uniform(0, interval), handle, fail) for handle in _falling(case)]
    changes += [(rng.uniform(0, interval), handle, recover) for handle in _recovering(case)]
    started = monotonic()
    for at, handle, change in sorted(changes, key=lambda planned: planned[0]):
        await asyncio.sleep(max(0.0, started + at - monotonic()))
        delays.waiting[case.driver, handle] = monotonic()
        change(handle)


def _falling(case: Case) -> list[str]:
    return handles(case.count)[:: _step(case)]


def _recovering(case: Case) -> list[str]:
    return handles(case.count)[1 :: _step(case)]


def _step(case: Case) -> int:
    return max(2, case.count // CHANGES)


def _rows(case: Case, delays: Delays, interval: float) -> list[Row]:
    latest = interval + Limits().deadline
    unhealthy = distribution(f"{case.title}: unhealthy known after", delays.unhealthy[case.driver, False], latest)
    well = distribution(f"{case.title}: recovery known after", delays.well[case.driver, False], latest)
    details = f"at the latest; external-health-monitor 0.18: {case.theirs:,.0f} s"
    rows = [unhealthy, well, Row(f"{case.title}: unhealthy known sooner", case.theirs / unhealthy.value, "x", details)]
    title, goal = f"{case.title}, {case.used:,} in use", min(IN_USE_GOAL, latest)
    for what, known in (("unhealthy", delays.unhealthy), ("recovery", delays.well)):
        seconds = known.get((case.driver, True), [])
        if len(seconds) > 1:
            rows.append(percentile(f"{title}: {what} known after, p99", seconds, goal))
    return rows


def percentile(name: str, seconds: Sequence[float], latest: float) -> Row:
    """Return the 99th percentile as the row's value, and the others in its detail."""
    cuts = quantiles(seconds, n=100, method="inclusive")
    details = f"of {len(seconds)}; p50 {cuts[49]:.1f} s, p90 {cuts[89]:.1f} s, longest {max(seconds):.1f} s"
    return Row(name, cuts[98], "s", details, at_most=latest)


def distribution(name: str, seconds: Sequence[float], latest: float) -> Row:
    """Return the longest as the row's value, and the others in its detail."""
    cuts = quantiles(seconds, n=100, method="inclusive")
    details = f"longest of {len(seconds)}; p50 {cuts[49]:.1f} s, p90 {cuts[89]:.1f} s, p99 {cuts[98]:.1f} s"
    return Row(name, max(seconds), "s", details, at_most=latest)
