"""Probes many volumes of a driver at a limited rate and records what was learned: by a list where the driver has one,
otherwise individually.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from zlib import crc32

from csi.client.channel import CallFailed
from csi.client.session import UNREACHED
from csi.health import interpret
from csi.health.capabilities import HealthProtocol, Negotiation
from csi.health.health import Absence, HealthRecord, Observation
from csi.health.report_source import BUSY, NOT_FOUND
from csi.health.verdict import HealthState, Verdict
from csi.probe import DriverProbe
from csi.records import HealthRecords
from csi.volume_list import Listed
from kube.client.rate_limit import TokenBucket
from kube.clock import Clock

SWEEPS_PER_GET: Final = 20
"""Sweeps by a list of unhealthy volumes until each volume that the list omits has been probed individually."""
YIELD_EVERY: Final = 500
"""Records written before other tasks get to run."""
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a driver is probed: at most how many volumes a second and at once, which is below the limit of its calls.

    Within how many seconds a change is noticed: of any volume, and of one that pods wait for or use.
    """

    rate: float = 200.0
    at_once: int = 8
    interval: float = 60.0
    in_use_interval: float = 10.0


@dataclass(frozen=True, slots=True)
class Round:
    """One pass over volumes. `done` is called for each; `began` ends probes of volumes known since then.

    `at_once` probes run concurrently. In rounds with a `number` some of the volumes that a list of unhealthy ones omits
    are probed too.
    """

    at_once: int
    number: int | None = None
    began: datetime | None = None
    done: Callable[[], None] = lambda: None


class VolumeProbes:
    """The probes of one driver. All rounds share one rate limit."""

    def __init__(self, probe: DriverProbe, records: HealthRecords, pace: Pace, clock: Clock) -> None:
        self.driver, self._probe, self._records, self._clock = probe.driver, probe, records, clock
        self._turns = TokenBucket(clock, pace.rate, pace.at_once)
        self._last_list: Listed = {}
        self._taken: set[str] = set()

    def known_at(self, handle: str) -> datetime:
        """Return when the volume's present health was learned.

        The beginning of time if nothing is known. Results from before the clock was set back are of unknown age too.
        """
        record = self._records.state(self.driver, handle)
        known = record is not None and record.silence is None and record.checked_at <= self._clock.now()
        return record.checked_at if record is not None and known else _NEVER

    async def wait_for_turn(self) -> None:
        """Wait until the rate permits another call."""
        wait = self._turns.take()
        if wait:
            await self._clock.sleep(wait)

    async def take_in(self, handles: Sequence[str], negotiation: Negotiation, listed: Listed, this: Round) -> bool:
        """Use the list where it suffices, and probe the other volumes individually. Return whether the driver responded
        to the end.

        A list that another round has used already for a volume is not counted for it a second time.
        """
        if listed is not self._last_list:
            self._last_list, self._taken = listed, set()
        taken = self._taken
        entries: dict[str, Observation] = {}
        doubtful: list[str] = []
        due: dict[str, None] = {}
        for number, handle in enumerate(handles):
            verdict, record = listed.get(handle), self._records.state(self.driver, handle)
            if handle not in taken:
                implied = verdict or self._implied(negotiation)
                entries[handle] = verdict or Absence(implied)
                # What is known already may be said twice.
                if record is None or record.state is not implied.state:
                    taken.add(handle)
            if negotiation.getting and needs_get(negotiation.listing, record, verdict):
                doubtful.append(handle)
            elif verdict is None and _is_due(handle, negotiation, this.number):
                due[handle] = None
            else:
                self._took(handle, entries.pop(handle, None), this)
            if number % YIELD_EVERY == 0:
                await self._clock.sleep(0)
        return await self.each([*doubtful, *due], this, entries, believed=due)

    async def each(
        self,
        handles: Sequence[str],
        this: Round,
        listed: Mapping[str, Observation] | None = None,
        believed: Container[str] = (),
    ) -> bool:
        """Probe each volume; if that fails, its entry in a list is used. Return whether the driver responded to the
        end.

        For `believed` volumes the list suffices: a failed probe does not contradict it.
        """
        # Volumes whose probe hung last time come last, so that they delay no other.
        waiting = deque(sorted(handles, key=self._hung))
        entries = listed or {}
        silent: list[Verdict] = []

        async def work() -> None:
            while waiting:
                handle = waiting.popleft()
                if this.began is not None and self.known_at(handle) > this.began:
                    this.done()
                    continue
                await self.wait_for_turn()
                verdict = await self._probe.glance(handle)
                self._got(handle, verdict, entries.get(handle), believed=handle in believed)
                this.done()
                if verdict.reason in UNREACHED and not await self._probe.session.answers():
                    silent.append(verdict)
                    return
                if silent:
                    return

        async with asyncio.TaskGroup() as group:
            for _ in range(min(this.at_once, len(handles))):
                group.create_task(work())
        if silent:
            await self.all(list(waiting), silent[0], this)
        return not silent

    async def failed(self, handles: Sequence[str], failed: CallFailed, this: Round) -> None:
        """Record that a call about all of them failed."""
        await self.all(handles, interpret.failed_call(self._probe.source(), failed.code, failed.details), this)

    async def unsupported(self, handles: Sequence[str], this: Round) -> None:
        """Record that the driver cannot be probed for them."""
        await self.all(handles, interpret.unsupported(self._probe.source()), this)

    async def all(self, handles: Sequence[str], verdict: Verdict, this: Round) -> None:
        """Record the same verdict on all of them."""
        for number, handle in enumerate(handles):
            self._took(handle, verdict, this)
            if number % YIELD_EVERY == 0:
                await self._clock.sleep(0)

    def _implied(self, negotiation: Negotiation) -> Verdict:
        """Return the verdict on a volume that a list omits: healthy in a list of unhealthy ones, else gone."""
        if negotiation.listing is HealthProtocol.HEALTH_BY_LIST:
            well = "not in the driver's list of unhealthy volumes"
            return self._probe.source().verdict(HealthState.HEALTHY, "NotListed", well)
        gone = "not in the driver's list of all volumes"
        return self._probe.source().verdict(HealthState.INACCESSIBLE, NOT_FOUND, gone)

    def _got(self, handle: str, verdict: Verdict, listed: Observation | None, *, believed: bool) -> None:
        """Record the result of a get. Nothing was learned from a call that was never sent."""
        failed = verdict.state is HealthState.UNKNOWN
        if verdict.reason != BUSY and not (failed and believed):
            self._records.observe(self.driver, handle, verdict)
        if listed is not None and failed:
            self._records.observe(self.driver, handle, listed)

    def _took(self, handle: str, observation: Observation | None, this: Round) -> None:
        if observation is not None:
            self._records.observe(self.driver, handle, observation)
        this.done()

    def _hung(self, handle: str) -> bool:
        record = self._records.state(self.driver, handle)
        return record is not None and record.last.reason in UNREACHED


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


def _is_due(handle: str, negotiation: Negotiation, number: int | None) -> bool:
    """Whether a volume that a list of unhealthy volumes omits is due for a probe of its own.

    Such a list omits both healthy and deleted volumes; only a get tells them apart (NOT_FOUND).
    """
    if number is None or negotiation.listing is not HealthProtocol.HEALTH_BY_LIST:
        return False
    return crc32(handle.encode()) % SWEEPS_PER_GET == number % SWEEPS_PER_GET
