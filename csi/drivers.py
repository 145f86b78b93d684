"""All configured drivers: gives the verdict on any volume, from memory if it is fresh, else by asking now."""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from csi.channel import Limits
from csi.endpoint import Endpoint
from csi.interpret import Witness
from csi.probe import DriverProbe, Observer
from csi.verdict import HealthState, Verdict
from kube.clock import Clock

Key = tuple[str, str]
"""A driver's name and a volume's handle."""

UNKNOWN_KEPT_FOR: Final = timedelta(seconds=1)
"""How long a failure is repeated from memory: enough for a burst of questions, short beside any recovery."""

REMEMBERED: Final = 200_000
"""Verdicts kept unless told otherwise: twice the volumes of a large cluster."""


class Drivers:
    """The health of volumes, asked of their drivers. Drivers are independent: none waits for another.

    Make it, use it and close it within one running event loop.
    """

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        clock: Clock,
        observer: Observer,
        limits: Limits | None = None,
        remembered: int = REMEMBERED,
    ) -> None:
        """Raise ValueError if two endpoints name the same driver. Nothing is opened before the first question.

        Of more than `remembered` verdicts the one renewed longest ago is forgotten.
        """
        by_name: dict[str, Endpoint] = {}
        for endpoint in endpoints:
            if endpoint.driver in by_name:
                raise ValueError(f"CSI endpoint {endpoint.driver!r} is given twice; expected one for each driver")
            by_name[endpoint.driver] = endpoint
        self._clock, self._remembered = clock, remembered
        self._probes = {
            name: DriverProbe(endpoint, limits or Limits(), clock, observer) for name, endpoint in by_name.items()
        }
        self._known: dict[Key, Verdict] = {}
        self._asking: dict[Key, asyncio.Task[Verdict]] = {}

    async def verdict(self, driver: str, handle: str, max_age: timedelta) -> Verdict:
        """Return a verdict that is at most `max_age` old. Raises nothing but cancellation.

        An Unknown one is asked again sooner. All who ask about one volume at the same time share one probe; one who
        gives up does not disturb the others.
        """
        probe = self._probes.get(driver)
        if probe is None:
            witness = Witness("pvc-prebinder", self._clock.now())
            return witness.says(HealthState.UNSUPPORTED, "NoEndpoint", f"no CSI endpoint for driver {driver!r}")
        key = (driver, handle)
        known = self._known.get(key)
        if known is not None and self._fresh(known, max_age):
            return known
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._ask(probe, key))
        return await asyncio.shield(task)

    def endpoints_up(self) -> Mapping[str, bool]:
        """Return for each configured driver whether it answered last time; False before it was asked."""
        return {driver: probe.up is True for driver, probe in self._probes.items()}

    async def close(self) -> None:
        """End all probes and connections. Who still waits for a verdict sees a cancellation."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await asyncio.gather(*(probe.close() for probe in self._probes.values()))

    async def _ask(self, probe: DriverProbe, key: Key) -> Verdict:
        try:
            verdict = await probe.probe(key[1])
        finally:
            del self._asking[key]
        self._known.pop(key, None)
        self._known[key] = verdict
        if len(self._known) > self._remembered:
            del self._known[next(iter(self._known))]
        return verdict

    def _fresh(self, verdict: Verdict, max_age: timedelta) -> bool:
        limit = min(max_age, UNKNOWN_KEPT_FOR) if verdict.state is HealthState.UNKNOWN else max_age
        # A verdict from the future, after the clock was set back, is of unknown age.
        return timedelta() <= self._clock.now() - verdict.observed_at <= limit
