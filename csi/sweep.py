"""Probes every volume of a driver once: by lists where the driver supports them, otherwise individually, at a limited
rate.

The caller determines which volumes, and their order as long as nothing is known. A driver that does not respond ends
its own sweep early and delays no other.
"""

import asyncio
from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol
from zlib import crc32

from csi.client.channel import CallFailed
from csi.client.session import UNREACHED
from csi.health import interpret
from csi.health.capabilities import HealthProtocol, Negotiation
from csi.health.complete_sweep import CompleteSweep
from csi.health.health import Absence, HealthRecord, Observation
from csi.health.interpret import BUSY
from csi.health.verdict import HealthState, Verdict
from csi.probe import DriverProbe, Listed, list_method
from csi.records import HealthRecords
from kube.client.rate_limit import TokenBucket
from kube.clock import Clock

SWEEPS_PER_GET: Final = 20
"""Sweeps by a list of unhealthy volumes until each volume that the list omits has been probed individually."""
_BREATH: Final = 500
"""Records written before other tasks get to run."""
_NO_AGE: Final = timedelta()
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class AskingOrder(Protocol):
    """Provides the volumes of a driver."""

    async def handles(self, driver: str) -> Iterable[str]:
        """Return the handles of the driver's volumes, the most important first."""


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


@dataclass(frozen=True, slots=True)
class Pace:
    """Limits on probes of a driver: volumes a second, and concurrency, which is below that of the driver's calls."""

    rate: float = 200.0
    at_once: int = 8


class Sweep:
    """Sweeps a driver whenever `run` is called, but never twice concurrently."""

    def __init__(
        self,
        probe: DriverProbe,
        records: HealthRecords,
        order: AskingOrder,
        pace: Pace,
        clock: Clock,
        observer: SweepObserver,
    ) -> None:
        self._driver, self._probe, self._records, self._order = probe.driver, probe, records, order
        self._pace, self._clock, self._observer = pace, clock, observer
        self._turns = TokenBucket(clock, pace.rate, pace.at_once)
        self._running = asyncio.Lock()
        self._ran = False
        self._number = 0
        self._done = self._total = 0

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

    async def _run(self) -> None:
        handles = self._ordered(await self._order.handles(self._driver))
        started, started_at = self._clock.monotonic(), self._clock.now()
        self._done, self._total = 0, len(handles)
        answered = await self._sweep(handles)
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
        for number, handle in enumerate(handles):
            record = self._records.state(self._driver, handle)
            state = record.state if record is not None and record.checked_at >= began else HealthState.UNKNOWN
            if state is not HealthState.HEALTHY:
                exceptions[handle] = state
            if number % _BREATH == 0:
                await self._clock.sleep(0)
        return CompleteSweep(self._driver, began, self._clock.now(), len(handles), exceptions)

    def _ordered(self, handles: Iterable[str]) -> list[str]:
        """Put unknown volumes first, in the given order; then those probed longest ago.

        So no volume waits longer than from one sweep to the next, whatever becomes more urgent. Results from before the
        clock was set back are of unknown age, and come first too.
        """
        now = self._clock.now()
        return sorted(
            (handle for handle in dict.fromkeys(handles) if handle), key=lambda handle: self._known_at(handle, now)
        )

    def _known_at(self, handle: str, now: datetime) -> datetime:
        record = self._records.state(self._driver, handle)
        known = record is not None and record.silence is None and record.checked_at <= now
        return record.checked_at if record is not None and known else _NEVER

    async def _sweep(self, handles: Sequence[str]) -> bool:
        """Return whether the driver responded to the end."""
        session = self._probe.session
        try:
            # Probe first: it detects that a different driver has taken over before anything is sent in the old
            # protocol.
            if not await session.answers():
                raise session.trouble
            negotiation = await session.negotiated()
        except CallFailed as failed:
            await self._all(handles, interpret.failed_call(self._probe.witness(), failed.code, failed.details))
            return False
        if negotiation.protocol is None:
            await self._all(handles, interpret.unsupported(self._probe.witness()))
            return True
        if negotiation.listing is None:
            return await self._ask(handles, {})
        try:
            listed = await self._list(negotiation.listing)
        except CallFailed as failed:
            if negotiation.getting and (failed.code not in UNREACHED or await session.answers()):
                return await self._ask(handles, {})
            await self._all(handles, interpret.failed_call(self._probe.witness(), failed.code, failed.details))
            return False
        return await self._take_in(handles, negotiation, listed)

    async def _list(self, listing: HealthProtocol) -> Listed:
        await self._wait_for_turn()
        started, code = self._clock.monotonic(), "OK"
        try:
            return await self._probe.listed()
        except CallFailed as failed:
            code = failed.code
            raise
        finally:
            self._observer.listed(self._driver, list_method(listing), code, self._clock.monotonic() - started)

    async def _take_in(self, handles: Sequence[str], negotiation: Negotiation, listed: Listed) -> bool:
        """Use the list where it suffices, and probe the other volumes individually."""
        doubtful: dict[str, Observation] = {}
        due: dict[str, Observation] = {}
        for number, handle in enumerate(handles):
            verdict = listed.get(handle)
            observation = verdict or Absence(self._implied(negotiation))
            record = self._records.state(self._driver, handle)
            if negotiation.getting and needs_get(negotiation.listing, record, verdict):
                doubtful[handle] = observation
            elif verdict is None and self._is_due(handle, negotiation):
                due[handle] = observation
            else:
                self._took(handle, observation)
            if number % _BREATH == 0:
                await self._clock.sleep(0)
        return await self._ask([*doubtful, *due], doubtful | due, believed=due)

    def _is_due(self, handle: str, negotiation: Negotiation) -> bool:
        """Whether a volume that a list of unhealthy volumes omits is due for a probe of its own.

        Such a list omits both healthy and deleted volumes; only a get tells them apart (NOT_FOUND).
        """
        by_list = negotiation.listing is HealthProtocol.HEALTH_BY_LIST
        return by_list and crc32(handle.encode()) % SWEEPS_PER_GET == self._number % SWEEPS_PER_GET

    def _implied(self, negotiation: Negotiation) -> Verdict:
        """Return the verdict on a volume that a list omits: healthy in a list of unhealthy ones, else gone."""
        if negotiation.listing is HealthProtocol.HEALTH_BY_LIST:
            well = "not in the driver's list of unhealthy volumes"
            return self._probe.witness().says(HealthState.HEALTHY, "NotListed", well)
        gone = "not in the driver's list of all volumes"
        return self._probe.witness().says(HealthState.INACCESSIBLE, interpret.NOT_FOUND, gone)

    async def _ask(
        self, handles: Sequence[str], listed: Mapping[str, Observation], believed: Container[str] = ()
    ) -> bool:
        """Probe each volume; if that fails, its entry in a list is used. Return whether the driver responded to the
        end.

        For `believed` volumes the list suffices: a failed probe does not contradict it.
        """
        # Volumes whose probe hung last time come last, so that they delay no other.
        waiting = deque(sorted(handles, key=self._hung))
        silent: list[Verdict] = []

        async def work() -> None:
            while waiting:
                handle = waiting.popleft()
                await self._wait_for_turn()
                verdict = await self._probe.glance(handle)
                self._got(handle, verdict, listed.get(handle), believed=handle in believed)
                if verdict.reason in UNREACHED and not await self._probe.session.answers():
                    silent.append(verdict)
                    return
                if silent:
                    return

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._pace.at_once, len(handles))):
                group.create_task(work())
        if silent:
            await self._all(list(waiting), silent[0])
        return not silent

    def _got(self, handle: str, verdict: Verdict, listed: Observation | None, *, believed: bool) -> None:
        """Record the result of a get. Nothing was learned from a call that was never sent."""
        failed = verdict.state is HealthState.UNKNOWN
        if verdict.reason != BUSY and not (failed and believed):
            self._records.observe(self._driver, handle, verdict)
        if listed is not None and failed:
            self._records.observe(self._driver, handle, listed)
        self._count()

    async def _all(self, handles: Sequence[str], verdict: Verdict) -> None:
        for number, handle in enumerate(handles):
            self._took(handle, verdict)
            if number % _BREATH == 0:
                await self._clock.sleep(0)

    def _took(self, handle: str, observation: Observation) -> None:
        self._records.observe(self._driver, handle, observation)
        self._count()

    def _count(self) -> None:
        self._done += 1
        self._observer.swept(SweepProgress(self._driver, self._done, self._total))

    def _hung(self, handle: str) -> bool:
        record = self._records.state(self._driver, handle)
        return record is not None and record.last.reason in UNREACHED

    async def _wait_for_turn(self) -> None:
        wait = self._turns.take()
        if wait:
            await self._clock.sleep(wait)


def needs_get(listing: HealthProtocol | None, record: HealthRecord | None, verdict: Verdict | None) -> bool:
    """Whether the entry of a volume in a complete list (`verdict`, None if omitted) has to be confirmed by a get.

    A list of unhealthy volumes (CSI 1.13) is confirmed where it changes what is known; a list of all volumes is final
    for those it names.
    """
    if listing is not HealthProtocol.HEALTH_BY_LIST:
        return verdict is None
    if verdict is None:
        return record is None or record.state is not HealthState.HEALTHY
    return verdict.unhealthy and (record is None or record.state is not verdict.state)
