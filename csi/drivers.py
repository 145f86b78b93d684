"""All configured drivers: returns the verdict on any volume, from the cache if recent, otherwise by a probe."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from csi.client.endpoint import Endpoint
from csi.health.health import Debounce, reliable_verdict
from csi.health.report_source import BUSY, ReportSource
from csi.health.size_limit import SizeLimit
from csi.health.verdict import HealthState, Verdict
from csi.records import REMEMBERED, HealthRecords
from csi.report_memory import LEFT_OUT
from kube.clock import Clock

if TYPE_CHECKING:
    # They load gRPC, which takes 9 MB: only if there is a driver to probe.
    from csi.circuit import Circuit
    from csi.client.channel import Limits
    from csi.probe import DriverProbe, ProbeObserver
    from csi.sweep import DriverVolumes, Sweep, SweepObserver
    from csi.volume_probes import Pace

Key = tuple[str, str]
"""A driver's name and a volume's handle."""


class Drivers:
    """The health of volumes, as probed through their drivers. Drivers are independent: none waits for another.

    Create, use and close it within one running event loop. `records` holds what is known of each volume, with the
    listeners for transitions.
    """

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        clock: Clock,
        observer: "ProbeObserver",
        limits: "Limits | None" = None,
        debounce: Debounce | None = None,
        remembered: int = REMEMBERED,
    ) -> None:
        """Raise ValueError if two endpoints name the same driver. Nothing is opened before the first probe."""
        by_name: dict[str, Endpoint] = {}
        for endpoint in endpoints:
            if endpoint.driver in by_name:
                raise ValueError(f"CSI endpoint {endpoint.driver!r} is given twice; expected one endpoint per driver")
            by_name[endpoint.driver] = endpoint
        self._clock = clock
        self._probes = _probes_of(by_name, limits, clock, observer) if by_name else {}
        self._circuits = _circuits_of(self._probes, clock) if self._probes else {}
        self.records = HealthRecords(debounce or Debounce(), remembered)
        self.records.crowded.append(lambda driver: observer.exceeded(driver, SizeLimit.REPORTS, LEFT_OUT))
        self.answering: list[Callable[[str], None]] = []
        """Called with the name of a driver that responds again, or for the first time."""
        for name, probe in self._probes.items():
            probe.session.answering.append(partial(self._answers, name))
        self._probing: dict[Key, asyncio.Task[Verdict]] = {}

    async def verdict(self, driver: str, handle: str, max_age: timedelta) -> Verdict:
        """Return a verdict that is at most `max_age` old. Raises nothing but cancellation.

        An Unknown result is probed again sooner. Concurrent callers for the same volume share one probe; cancelling one
        of them does not affect the others. A volume that was found unhealthy stays so until enough good results end
        that. While the driver does not respond, the verdict is Unknown at once, without a call for each volume.
        """
        probe = self._probes.get(driver)
        if probe is None:
            source = ReportSource("pvc-prebinder", self._clock.now())
            return source.verdict(HealthState.UNSUPPORTED, "NoEndpoint", f"no CSI endpoint for driver {driver!r}")
        key = (driver, handle)
        known = self.records.state(driver, handle)
        if known is not None and known.last.fresh(self._clock.now(), max_age) and probe.is_complete(known.last):
            return reliable_verdict(known)
        silence = self._circuits[driver].silence(handle)
        if silence is not None:
            return reliable_verdict(self.records.observe(driver, handle, silence))
        task = self._probing.get(key)
        if task is None:
            task = self._probing[key] = asyncio.create_task(self._probe(probe, key))
        return await asyncio.shield(task)

    @contextmanager
    def listening(self, listener: Callable[[str], None]) -> Iterator[None]:
        """Call the listener with each driver that responds again, or for the first time, while inside the context."""
        self.answering.append(listener)
        try:
            yield
        finally:
            self.answering.remove(listener)

    def silent(self) -> Mapping[str, Verdict]:
        """Return the drivers that do not respond, with the verdict that this is for each of their volumes.

        Whether they respond again is found out in the background, with one call at a time.
        """
        silences = ((driver, circuit.silence()) for driver, circuit in self._circuits.items())
        return {driver: silence for driver, silence in silences if silence is not None}

    def sweep(self, driver: str, order: "DriverVolumes", pace: "Pace", observer: "SweepObserver") -> "Sweep":
        """Return the sweep over all volumes of a configured driver, to be run at every interval."""
        from csi.sweep import Sweep  # noqa: PLC0415 - see above

        return Sweep(self._probes[driver], self.records, order, pace, self._clock, observer)

    def endpoints_up(self) -> Mapping[str, bool]:
        """Return for each configured driver whether it responded last time; False before the first call."""
        return {driver: probe.session.up is True for driver, probe in self._probes.items()}

    async def close(self) -> None:
        """End all probes and connections. Callers that still wait for a verdict are cancelled."""
        probing = list(self._probing.values())
        for task in probing:
            task.cancel()
        await asyncio.gather(*probing, return_exceptions=True)
        await asyncio.gather(*(circuit.close() for circuit in self._circuits.values()))
        await asyncio.gather(*(probe.close() for probe in self._probes.values()))

    def _answers(self, driver: str) -> None:
        for listener in self.answering:
            listener(driver)

    async def _probe(self, probe: "DriverProbe", key: Key) -> Verdict:
        try:
            verdict = await probe.probe(key[1])
        finally:
            del self._probing[key]
        if verdict.reason == BUSY:
            # Nothing was sent, so nothing was learned.
            known = self.records.state(*key)
            return verdict if known is None else reliable_verdict(replace(known, last=verdict))
        return reliable_verdict(self.records.observe(*key, verdict))


def _probes_of(
    endpoints: Mapping[str, Endpoint], limits: "Limits | None", clock: Clock, observer: "ProbeObserver"
) -> "dict[str, DriverProbe]":
    from csi.client.channel import Limits  # noqa: PLC0415 - see above
    from csi.probe import DriverProbe  # noqa: PLC0415

    return {name: DriverProbe(each, limits or Limits(), clock, observer) for name, each in endpoints.items()}


def _circuits_of(probes: "Mapping[str, DriverProbe]", clock: Clock) -> "dict[str, Circuit]":
    from csi.circuit import Circuit  # noqa: PLC0415 - see above

    return {name: Circuit(probe, clock) for name, probe in probes.items()}
