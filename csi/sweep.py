"""Probes every volume of a driver once: by lists where the driver supports them, otherwise individually, at a limited
rate. In between those that pods wait for or use are probed more often, by what the rate leaves.

The caller determines which volumes, and their order as long as nothing is known. A driver that does not respond ends
its own sweep early and delays no other.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, Protocol

from csi.client.channel import CallFailed
from csi.client.session import UNREACHED
from csi.health.capabilities import HealthProtocol, Negotiation
from csi.health.complete_sweep import CompleteSweep, says_lost
from csi.health.probe_order import next_in_use, spare_probes
from csi.health.verdict import HealthState
from csi.probe import DriverProbe, list_method
from csi.records import HealthRecords
from csi.volume_list import Listed
from csi.volume_probes import YIELD_EVERY, Pace, Round, VolumeProbes
from kube.clock import Clock

IN_USE_TICK: Final = 1.0
"""Seconds between two calls of `run_in_use`."""
_LIST_SHARE: Final = 0.5
"""Of the time, at most, that a driver spends on lists for volumes in use."""
_NO_AGE: Final = timedelta()


class DriverVolumes(Protocol):
    """Provides the volumes of a driver."""

    async def handles(self, driver: str) -> Iterable[str]:
        """Return the handles of the driver's volumes, the most important first."""

    async def in_use(self, driver: str) -> Sequence[Collection[str]]:
        """Return the handles of those that pods wait for, then of those that running pods use."""


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """The progress of a driver's sweep. `seconds` is its duration, None while it runs.

    `answered` is False if the driver stopped responding. `oldest` is the age of the oldest result of any volume.
    `complete` is the result of a sweep that ran to the end; None while it runs, and if the driver stopped responding.
    """

    driver: str
    done: int
    total: int
    seconds: float | None = None
    answered: bool = True
    oldest: timedelta = timedelta()
    complete: CompleteSweep | None = None


class SweepObserver(Protocol):
    """Observes the progress of sweeps."""

    def swept(self, progress: SweepProgress) -> None:
        """Called for each volume, and once more at the end."""

    def listed(self, driver: str, method: str, code: str, seconds: float) -> None:
        """A list was read (`code` is OK) or broke off, for csi_volume_health_probe_total as well."""


class Sweep:
    """Sweeps a driver whenever `run` is called, but never twice concurrently."""

    def __init__(
        self,
        probe: DriverProbe,
        records: HealthRecords,
        order: DriverVolumes,
        pace: Pace,
        clock: Clock,
        observer: SweepObserver,
    ) -> None:
        self._driver, self._probe, self._records, self._order = probe.driver, probe, records, order
        self._pace, self._clock, self._observer = pace, clock, observer
        self._probes = VolumeProbes(probe, records, pace, clock)
        self._running, self._in_use = asyncio.Lock(), asyncio.Lock()
        self._ran = False
        self._number = 0
        self._done = self._total = 0
        self._last_in_use = self._next_in_use = clock.monotonic()

    async def run(self) -> None:
        """Probe all volumes. Raises nothing but cancellation and what a listener raises."""
        async with self._running:
            self._ran = True
            self._number += 1
            await self._run()

    async def run_if_due(self) -> None:
        """Sweep now if there was no sweep yet, or if the driver did not respond and now does.

        Cheap otherwise: to be called every few seconds.
        """
        if self._running.locked():
            return
        session = self._probe.session
        if not self._ran or (session.up is False and await session.answers()):
            await self.run()

    async def run_in_use(self) -> None:
        """Probe the volumes that pods wait for or use if they are due, also beside a sweep: a part of them where only
        as many fit into the rate.

        To be called every IN_USE_TICK seconds. Does nothing before the first sweep, while the driver does not respond,
        and if sweeps are as frequent.
        """
        now = self._clock.monotonic()
        if not self._total or self._probe.session.up is False or self._pace.in_use_interval >= self._pace.interval:
            return
        if self._in_use.locked() or now < self._next_in_use:
            return
        async with self._in_use:
            since, self._last_in_use = now - self._last_in_use, now
            listing = await self._probe_in_use(
                await self._order.in_use(self._driver), min(since, self._pace.in_use_interval)
            )
            took = self._clock.monotonic() - now
            self._next_in_use = now + max(listing / _LIST_SHARE, self._pace.in_use_interval - took - IN_USE_TICK)

    async def _probe_in_use(self, classes: Sequence[Collection[str]], since: float) -> float:
        """Probe once what is due after so many seconds; return how many of these the driver took for a list."""
        if not any(classes):
            return 0.0
        this = Round(max(1, self._pace.at_once // 2), began=self._clock.now())
        try:
            negotiation = await self._probe.session.negotiated()
            if negotiation.protocol is None:
                return 0.0
            if negotiation.listing is not None:
                began, handles = self._clock.monotonic(), list(chain.from_iterable(classes))
                listed = await self._list(negotiation.listing, handles)
                took = self._clock.monotonic() - began
                await self._probes.take_in(handles, negotiation, listed, this)
                return took
        except CallFailed:
            # The next sweep notices, and records it for all volumes.
            return 0.0
        count = spare_probes(self._total, self._pace.rate, self._pace.interval, since)
        await self._probes.each(next_in_use(classes, self._probes.known_at, count), this)
        return 0.0

    async def _run(self) -> None:
        handles = self._ordered(await self._order.handles(self._driver))
        started, started_at = self._clock.monotonic(), self._clock.now()
        self._done, self._total = 0, len(handles)
        answered = await self._sweep(handles, Round(self._pace.at_once, self._number, started_at, self._count))
        self._records.keep(self._driver, handles, started_at)
        now = self._clock.now()
        oldest = max((now - record.checked_at for _, record in self._records.of_driver(self._driver)), default=_NO_AGE)
        seconds = self._clock.monotonic() - started
        complete = await self._completed(handles, started_at) if answered else None
        self._observer.swept(
            SweepProgress(self._driver, self._done, self._total, seconds, answered, max(oldest, _NO_AGE), complete)
        )

    async def _completed(self, handles: Sequence[str], began: datetime) -> CompleteSweep:
        """Return the result of a sweep to the end. A volume without a result of this sweep is an exception too."""
        exceptions: dict[str, HealthState] = {}
        lost: set[str] = set()
        for number, handle in enumerate(handles):
            record = self._records.state(self._driver, handle)
            if record is None or record.checked_at < began:
                exceptions[handle] = HealthState.UNKNOWN
            elif record.state is not HealthState.HEALTHY:
                exceptions[handle] = record.state
                if says_lost(record.state, record.current.reason):
                    lost.add(handle)
            if number % YIELD_EVERY == 0:
                await self._clock.sleep(0)
        return CompleteSweep(self._driver, began, self._clock.now(), len(handles), exceptions, frozenset(lost))

    def _ordered(self, handles: Iterable[str]) -> list[str]:
        """Put unknown volumes first, in the given order; then those probed longest ago.

        So no volume waits longer than from one sweep to the next, whatever becomes more urgent.
        """
        return sorted((handle for handle in dict.fromkeys(handles) if handle), key=self._probes.known_at)

    async def _sweep(self, handles: Sequence[str], this: Round) -> bool:
        """Return whether the driver responded to the end."""
        session = self._probe.session
        try:
            # Probe first: it detects that a different driver has taken over before anything is sent in the old
            # protocol.
            if not await session.answers():
                raise session.trouble
            negotiation = await session.negotiated()
        except CallFailed as failed:
            self._probe.exceeded(failed)
            await self._probes.failed(handles, failed, this)
            return False
        if negotiation.protocol is None:
            await self._probes.unsupported(handles, this)
            return True
        if negotiation.listing is None:
            return await self._probes.each(handles, this)
        return await self._by_list(handles, negotiation, negotiation.listing, this)

    async def _by_list(
        self, handles: Sequence[str], negotiation: Negotiation, listing: HealthProtocol, this: Round
    ) -> bool:
        try:
            listed = await self._list(listing, handles)
        except CallFailed as failed:
            if negotiation.getting and (failed.code not in UNREACHED or await self._probe.session.answers()):
                return await self._probes.each(handles, this)
            await self._probes.failed(handles, failed, this)
            return False
        return await self._probes.take_in(handles, negotiation, listed, this)

    async def _list(self, listing: HealthProtocol, handles: Collection[str]) -> Listed:
        """Return what the driver lists of these volumes when it is its turn, which is no part of the observed time."""
        await self._probes.wait_for_turn()
        started, code = self._clock.monotonic(), "OK"
        try:
            return await self._probe.listed(handles)
        except CallFailed as failed:
            code = failed.code
            raise
        finally:
            self._observer.listed(self._driver, list_method(listing), code, self._clock.monotonic() - started)

    def _count(self) -> None:
        self._done += 1
        self._observer.swept(SweepProgress(self._driver, self._done, self._total))
