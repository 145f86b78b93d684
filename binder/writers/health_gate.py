"""Verdicts on the volumes that plans chose, for the next plan to read: what they mean for a volume is decided there.

Plan, probe what was chosen, plan again, until everything chosen has a recent verdict. No pod waits long for a driver: a
probe without a response counts as Unknown after PATIENCE, and the driver's late response replaces that. A driver that
leaves MAX_SLOW of them without a response gets no further ones, as one that is down: its volumes are Unknown at once.
Volumes that were Unknown are tried again one after the other, ever more rarely: else those that hang would be probed by
turns for ever, and the one behind them never.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, Protocol

from csi.drivers import Key
from csi.health.report_source import BUSY, ReportSource
from csi.health.verdict import UNKNOWN_BELIEVED_FOR, UNKNOWN_KEPT_FOR, USABLE, HealthState, Verdict
from kube.clock import Clock, within
from kube.objects.model import Volume
from kube.persistent_map import Map

PATIENCE: Final = 1.0
"""Seconds after which a probe is not waited for any longer."""
MAX_SLOW: Final = 12
"""Probes of one driver that may be without a response for longer than that. Fewer than the calls that it may get at
once, so that its sweeps go on.
"""
SLOW: Final = "NoResponseYet"
_MAX_DOUBLED: Final = 5
"""Doublings of the time for which an Unknown is believed: up to eight minutes, unless a sweep finds the volume well."""
_REMEMBERED: Final = timedelta(minutes=2)
"""How much longer than it is believed an Unknown is kept: longer than a pod waits for its next attempt."""


class Probes(Protocol):
    """Probes volumes (csi.drivers.Drivers)."""

    async def verdict(self, driver: str, handle: str, max_age: timedelta) -> Verdict:
        """Return a verdict of at most that age. Raises nothing but cancellation."""

    def silent(self) -> Mapping[str, Verdict]:
        """Return the drivers that do not respond, with the verdict on each of their volumes."""

    def listening(self, listener: Callable[[str], None], /) -> AbstractContextManager[None]:
        """Call the listener with each driver that responds again while inside the context."""


class HealthGate:
    """Verdicts on recently chosen volumes. `max_age` is the plan's: older ones do not count."""

    def __init__(self, probes: Probes, max_age: timedelta, clock: Clock) -> None:
        self._probes, self._max_age, self._clock = probes, max_age, clock
        self.verdicts: Map[Key, Verdict] = Map()
        self.usable_after_all: list[Callable[[Volume], None]] = []
        """Called with a volume that counted as Unknown for want of a response, and may be used by the late one."""
        self._drop_at: datetime | None = None
        self._unknown_in_a_row: dict[Key, int] = {}
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._since: dict[str, dict[str, float]] = {}
        """By driver and handle, when each probe in progress began; in this order."""

    @contextmanager
    def following(self) -> Iterator[None]:
        """Inside the context probes outlast those who wait for them; at its end those in progress are cancelled."""
        try:
            yield
        finally:
            for task in self._running.values():
                task.cancel()

    async def probe(self, chosen: Iterable[Volume], now: datetime, spare: Iterable[Volume] = ()) -> bool:
        """Probe the volumes without a recent verdict, concurrently; return False if there were none.

        Waits at most PATIENCE; then those without a response count as Unknown until they have one. `spare` are volumes
        that may be chosen next: they are probed along with the others, but not waited for, and only as far as their
        drivers have few probes in progress. Volumes that are not CSI have no driver to probe.
        """
        stale = self.unprobed(chosen, now)
        if stale:
            self._drop_outdated(now)
        begun = [task for volume in stale if (task := self._begin(volume)) is not None]
        for volume in self.unprobed(spare, now):
            if len(self._since.get(volume.driver, ())) < MAX_SLOW:
                self._begin(volume)
        if begun:
            await self._within_patience(begun)
        for volume in stale:
            self._count_as_unknown(volume)
        return bool(stale)

    def silent(self) -> Mapping[str, Verdict]:
        """Return the drivers whose volumes are Unknown unless they have a verdict, and that verdict: those that do not
        respond, and those that respond to none of many probes.
        """
        slow = {driver: self._slow(driver) for driver in self._since if self._is_overdue(driver)}
        return {**slow, **self._probes.silent()}

    def is_slow(self, volumes: Iterable[Volume]) -> bool:
        """Whether a driver of these volumes leaves a probe without a response for longer than PATIENCE."""
        return any(self._waits_for(volume.driver, 1) for volume in volumes)

    def unprobed(self, chosen: Iterable[Volume], now: datetime) -> list[Volume]:
        """Return the volumes without a recent verdict."""
        return [volume for volume in chosen if volume.driver and not self._fresh(volume, now)]

    def outdated(self, driver: str, handle: str) -> bool:
        """Drop a verdict because of newer information: a sweep found the volume unhealthy, or healthy again.

        Without that, a volume of a driver that recovered would stay Unknown here for the whole maximum age. Return
        whether pods may have been rejected because of it.
        """
        verdict = self.verdicts.get((driver, handle))
        if verdict is None:
            return False
        self._drop((driver, handle))
        return verdict.state not in USABLE

    def driver_answers(self, driver: str) -> None:
        """Drop what a driver could not report while it did not respond."""
        silent = [
            key for key, verdict in self.verdicts.items() if key[0] == driver and verdict.state is HealthState.UNKNOWN
        ]
        for key in silent:
            self._drop(key)

    def _fresh(self, volume: Volume, now: datetime) -> bool:
        verdict = self.verdicts.get((volume.driver, volume.handle))
        return verdict is not None and verdict.stands(now, self._max_age)

    def _begin(self, volume: Volume) -> asyncio.Task[None] | None:
        """Return the probe of the volume that is in progress, or a new one; None if its driver gets no further ones."""
        key = (volume.driver, volume.handle)
        if key not in self._running and not self._is_overdue(volume.driver):
            if key in self._unknown_in_a_row:
                self._believe_others(key)
            self._since.setdefault(volume.driver, {})[volume.handle] = self._clock.monotonic()
            self._running[key] = asyncio.create_task(self._probe(volume, key))
            self._running[key].add_done_callback(_retrieve)
        return self._running.get(key)

    async def _probe(self, volume: Volume, key: Key) -> None:
        try:
            verdict = await self._probes.verdict(volume.driver, volume.handle, self._max_age)
        finally:
            del self._running[key], self._since[volume.driver][volume.handle]
            if not self._since[volume.driver]:
                del self._since[volume.driver]
        before = self.verdicts.get(key)
        self.verdicts = self.verdicts.set(key, self._believed(key, verdict))
        if before is not None and before.reason == SLOW and verdict.state in USABLE:
            for listener in self.usable_after_all:
                listener(volume)

    def _believed(self, key: Key, verdict: Verdict) -> Verdict:
        """Return the verdict, believed longer each time that it is Unknown again."""
        if verdict.state is not HealthState.UNKNOWN:
            self._unknown_in_a_row.pop(key, None)
            return verdict
        if verdict.reason == BUSY:
            return replace(verdict, believed_for=UNKNOWN_KEPT_FOR)
        before = self._unknown_in_a_row.get(key, 0)
        self._unknown_in_a_row[key] = before + 1
        longer = UNKNOWN_BELIEVED_FOR * 2 ** min(before, _MAX_DOUBLED)
        return replace(verdict, believed_for=longer)

    def _believe_others(self, tried: Key) -> None:
        """While one volume is tried again, believe for as long again what the driver could not report about others."""
        now = self._clock.now()
        for key in self._unknown_in_a_row:
            verdict = self.verdicts.get(key)
            if key != tried and key[0] == tried[0] and verdict is not None and not verdict.stands(now, self._max_age):
                self.verdicts = self.verdicts.set(key, replace(verdict, observed_at=now))

    def _count_as_unknown(self, volume: Volume) -> None:
        """Give a volume that still has no verdict one until its driver responds, or can be called again."""
        key, now = (volume.driver, volume.handle), self._clock.now()
        if self._fresh(volume, now):
            return
        if key in self._running:
            verdict = _source(volume.driver, now).verdict(HealthState.UNKNOWN, SLOW, "no response to its probe yet")
        else:
            verdict = replace(self._slow(volume.driver), believed_for=UNKNOWN_KEPT_FOR)
        self.verdicts = self.verdicts.set(key, verdict)

    def _slow(self, driver: str) -> Verdict:
        message = f"no response to {len(self._since.get(driver, ()))} probes of its volumes yet"
        return _source(driver, self._clock.now()).verdict(HealthState.UNKNOWN, SLOW, message)

    def _is_overdue(self, driver: str) -> bool:
        return self._waits_for(driver, MAX_SLOW)

    def _waits_for(self, driver: str, count: int) -> bool:
        """Whether so many probes of the driver have had no response for longer than PATIENCE."""
        youngest = next(islice(self._since.get(driver, {}).values(), count - 1, None), None)
        return youngest is not None and self._clock.monotonic() - youngest >= PATIENCE

    async def _within_patience(self, begun: Sequence[asyncio.Task[None]]) -> None:
        with suppress(TimeoutError):
            await within(self._clock, PATIENCE, _ended(begun))
        for task in begun:
            if task.done() and not task.cancelled():
                task.result()

    def _drop(self, key: Key) -> None:
        self.verdicts = self.verdicts.delete(key)
        self._unknown_in_a_row.pop(key, None)

    def _drop_outdated(self, now: datetime) -> None:
        """Do so once within the maximum age: what was reported of volumes that are no longer chosen takes memory.

        An Unknown is kept for longer than any pod waits for its next attempt: then it is believed longer.
        """
        if self._drop_at is not None and now < self._drop_at:
            return
        self._drop_at = now + self._max_age
        for key, verdict in self.verdicts.items():
            kept_for = verdict.believed_for + _REMEMBERED if verdict.state is HealthState.UNKNOWN else self._max_age
            if now - verdict.observed_at > kept_for:
                self._drop(key)


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)


def _retrieve(task: asyncio.Task[None]) -> None:
    """No pod may be waiting for it any more: asyncio reports an exception that is never retrieved as a crash."""
    if not task.cancelled():
        task.exception()


def _source(driver: str, now: datetime) -> ReportSource:
    return ReportSource(f"CSI driver {driver}", now)
