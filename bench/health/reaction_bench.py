"""(g) The controller beside a driver with 10,000 volumes: its cost while nothing changes, how soon it publishes that a
volume became unhealthy, sooner if a pod waits for it, and the load on the API server when many do at once.

All of it is real: API server, driver, and the controller as a process with the rights and the rates it ships with. It
is the driver's generation without lists, which costs most.
"""

import asyncio
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic
from typing import Final

from bench.control_plane.audit import READING, entries
from bench.control_plane.documents import NAMESPACE, claim, csi_volume, pod
from bench.control_plane.stage import Controller, Stage, stage
from bench.control_plane.timeline import Timeline
from bench.health.delay import IN_USE_GOAL, distribution, percentile
from bench.health.driver import RunningDriver, handles, make_volumes, running
from bench.health.watch import HealthWatch, Seen
from bench.progress import say
from bench.rows import Row
from bench.usage import usage
from binder.controllers.health_controller import WRITES_AT_ONCE, WRITES_PER_SECOND
from csi.client.channel import Limits
from devcluster.control_plane.nodes import DEFAULT_ZONES
from devcluster.driver.generation import Generation
from devcluster.driver.health import VolumeFault
from devcluster.driver.volumes import break_volume, make_well
from kube.objects.api_resource import CLAIMS, LEASES, PODS

DRIVER: Final = "disks.csi.example"
TOLD: Final = "pvc_prebinder_events_total"
SWEPT: Final = "pvc_prebinder_health_sweep_last_duration_seconds"
HELD_BACK: Final = "pvc_prebinder_quarantine_held_back_volumes"
_LATE: Final = 3
"""Intervals to wait for changes that were not seen; more of them would not help."""
_EVENTS_SECONDS: Final = 180.0
_BOUND_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes: volumes, those that become unhealthy spread over an interval and those at once, the cap as a share, and
    further volumes, that pods wait for.
    """

    volumes: int = 10_000
    waited_for: int = 100
    spread: int = 100
    at_once: int = 500
    share: float = 0.03
    interval: float = 60.0
    quiet_intervals: int = 3


SMALL: Final = Scale(volumes=60, waited_for=4, spread=6, at_once=12, share=0.1, interval=2.0, quiet_intervals=1)


def run(quick: bool) -> list[Row]:
    """Measure with 10,000 volumes of which 600 become unhealthy; quick: with 60, of which 18 do."""
    return asyncio.run(react(SMALL if quick else Scale()))


async def react(scale: Scale) -> list[Row]:
    """Start everything, let volumes become unhealthy one by one, then many at once, then let all recover."""
    with tempfile.TemporaryDirectory(prefix="pvc-prebinder-bench-") as name:
        directory = Path(name)
        root, audit = directory / "volumes", directory / "audit.log"
        names = handles(scale.volumes + scale.waited_for)
        make_volumes(root, names)
        async with (
            running(DRIVER, root, Generation.CONDITION_GET) as driver,
            stage(lifted=True, pods=scale.waited_for, audit=audit) as ready,
        ):
            say(f"creating {scale.volumes} volumes")
            zones = DEFAULT_ZONES
            await ready.add_volumes(
                [csi_volume(handle, zones[n % len(zones)], DRIVER, handle) for n, handle in enumerate(names)]
            )
            await _claim(ready, names[scale.volumes :])
            return await Story(scale, root, audit, ready, await _start(ready, driver, scale)).tell()


async def _claim(ready: Stage, names: Sequence[str]) -> None:
    """Have these volumes bound to claims of pods, which no kubelet ever starts."""
    timeline = Timeline(ready.api)
    async with timeline.following():
        for name in names:
            bound = claim(name)
            bound["spec"]["volumeName"] = name
            await ready.api.create(CLAIMS, bound, NAMESPACE)
            await ready.api.create(PODS, pod(name, [name], gated=False), NAMESPACE)
        await timeline.until(lambda seen: len(seen.bound) == len(seen.placed) == len(names), _BOUND_SECONDS)


async def _start(ready: Stage, driver: RunningDriver, scale: Scale) -> Controller:
    return await ready.start_controller(
        "annotate",
        f"--csi-endpoint={driver.endpoint.driver}={driver.endpoint}",
        f"--health-sweep-interval={scale.interval:g}s",
        "--quarantine",
        f"--quarantine-max-share={scale.share:g}",
    )


class Story:
    """The steps, in this order, and their measurements."""

    def __init__(self, scale: Scale, root: Path, audit: Path, ready: Stage, controller: Controller) -> None:
        self._scale, self._root, self._audit, self._controller = scale, root, audit, controller
        self._watch = HealthWatch(ready.api)
        self._changed: dict[str, float] = {}
        """Volume -> when it last changed."""
        first, second = handles(scale.volumes // 2), handles(scale.volumes)[scale.volumes // 2 :]
        self._spread = first[:: len(first) // scale.spread][: scale.spread]
        # Neighbours, so that one sweep finds them faster than they may be written.
        self._at_once = second[: scale.at_once]
        self._waited_for = handles(scale.volumes + scale.waited_for)[scale.volumes :]

    async def tell(self) -> list[Row]:
        say("the first probe of all volumes")
        while not await self._controller.total(SWEPT):  # noqa: ASYNC110 - a page has no event
            await asyncio.sleep(0.2)
        async with self._watch.following():
            rows = [*await self._quiet(), *await self._one_by_one(), *await self._all_at_once(), *await self._well()]
            return [*rows, *await self._in_use()]

    async def _quiet(self) -> list[Row]:
        """Nothing changes while sweeps go on."""
        scale, pid = self._scale, self._controller.pid
        seconds = scale.quiet_intervals * scale.interval
        say(f"nothing changes for {seconds:.0f} s")
        before, used = len(entries(self._audit)), usage(pid).processor
        await asyncio.sleep(seconds)
        seen = entries(self._audit)[before:]
        written = [entry for entry in seen if entry.verb not in READING and entry.request.resource != LEASES.plural]
        now = usage(pid)
        swept = await self._controller.total(SWEPT)
        details = f"{scale.volumes:,} volumes by get, one driver, the whole controller"
        return [
            Row("full sweep", swept, "s", details, at_most=scale.interval),
            Row("writes while nothing changes", len(written), "", f"Events included, in {seconds:.0f} s", at_most=0),
            Row("processor time", (now.processor - used) / seconds * 100, "% of a core", f"over {seconds:.0f} s"),
            Row("memory", now.memory, "MB", f"whole process, {now.peak:.0f} MB at the peak"),
        ]

    async def _one_by_one(self) -> list[Row]:
        say(f"{len(self._spread)} volumes become unhealthy, one by one")
        await self._change_one_by_one(self._spread)
        await self._known(unhealthy=len(self._spread))
        return [distribution("unhealthy until annotated", self._delays(self._spread), self._latest)]

    async def _in_use(self) -> list[Row]:
        count = len(self._waited_for)
        say(f"{count} volumes that pods wait for become unhealthy, one by one")
        await self._change_one_by_one(self._waited_for)
        await self._known(unhealthy=count)
        title = f"unhealthy until annotated, {count} that pods wait for, p99"
        return [percentile(title, self._delays(self._waited_for), min(IN_USE_GOAL, self._latest))]

    async def _change_one_by_one(self, names: Sequence[str]) -> None:
        """At random moments of one interval."""
        rng, interval = Random(1), self._scale.interval
        moments = sorted((rng.uniform(0, interval), name) for name in names)
        started = monotonic()
        for at, name in moments:
            await asyncio.sleep(max(0.0, started + at - monotonic()))
            self._change([name], self._break_volume)

    async def _all_at_once(self) -> list[Row]:
        scale, count = self._scale, len(self._at_once)
        say(f"{count} volumes become unhealthy at once")
        begin = len(self._watch.versions)
        self._change(self._at_once, self._break_volume)
        await self._known(unhealthy=len(self._spread) + count)
        cap, everyone = int(scale.share * scale.volumes), len(self._spread) + count
        abnormal = await self._events("VolumeConditionAbnormal", everyone)
        dropped = await self._controller.total(TOLD, 'result="dropped"')
        written = self._watch.versions[begin:]
        title, inside = f"{count} become unhealthy at once", self._watch.quarantined()
        held_back = await self._controller.total(HELD_BACK)
        most, latest = WRITES_PER_SECOND + WRITES_AT_ONCE, self._latest + count / WRITES_PER_SECOND
        paced = f"at most {WRITES_PER_SECOND:g} a second after the first {WRITES_AT_ONCE}"
        return [
            distribution(f"{title}: until annotated", self._delays(self._at_once), latest),
            Row(f"{title}: writes", len(written), "", "one for each", at_most=count, at_least=count),
            Row(f"{title}: writes in the busiest second", busiest(written), "1/s", paced, at_most=most),
            Row(f"{title}: Events about {everyone} volumes", abnormal, "", f"{dropped:g} dropped", at_least=everyone),
            Row(f"{title}: in quarantine", inside, "", f"of {everyone} unhealthy volumes", at_most=cap, at_least=cap),
            Row(f"{title}: held back by the cap", held_back, "", "by the metric", at_least=everyone - cap),
        ]

    async def _well(self) -> list[Row]:
        everyone = [*self._spread, *self._at_once]
        say(f"{len(everyone)} volumes recover at once")
        self._change(everyone, lambda name: make_well(self._root, name))
        await self._known(unhealthy=0)
        title = f"{len(everyone)} recover at once"
        left, latest = self._watch.quarantined(), self._latest + len(everyone) / WRITES_PER_SECOND
        return [
            distribution(f"{title}: until annotated", self._delays(everyone), latest),
            Row(f"{title}: left in quarantine", left, "", at_most=0),
        ]

    def _break_volume(self, name: str) -> None:
        break_volume(self._root, name, VolumeFault.GONE)

    def _change(self, names: Sequence[str], change: Callable[[str], None]) -> None:
        for name in names:
            self._changed[name] = monotonic()
            change(name)

    async def _known(self, unhealthy: int) -> None:
        """Wait until so many volumes are annotated as unhealthy."""
        if not await self._watch.until(lambda watch: watch.unhealthy() == unhealthy, _LATE * self._scale.interval + 60):
            say(f"only {self._watch.unhealthy()} volumes are annotated as unhealthy, expected {unhealthy}")

    async def _events(self, reason: str, expected: int) -> float:
        """Return how many Events of that reason were sent, when all were or none comes any more."""
        label, sent = f'reason="{reason}",result="sent"', 0.0
        until = monotonic() + _EVENTS_SECONDS
        while (sent := await self._controller.total(TOLD, label)) < expected and monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        return sent

    def _delays(self, names: Sequence[str]) -> list[float]:
        return [self._watch.now[name].at - self._changed[name] for name in names if name in self._watch.now]

    @property
    def _latest(self) -> float:
        """The deadline for the detection of one change. Many at once also wait for the rate of our writes."""
        return self._scale.interval + Limits().deadline


def busiest(written: Sequence[Seen]) -> int:
    """Return how many were seen in the second in which most were."""
    moments = sorted(seen.at for seen in written)
    return max((bisect_left(moments, at + 1.0) - place for place, at in enumerate(moments)), default=0)
