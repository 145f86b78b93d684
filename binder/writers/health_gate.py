"""The verdicts on the volumes that a plan chose, for the next plan to read, which decides what they mean for a volume.

Plan, probe what was chosen, plan again, until everything chosen has a recent verdict.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta

from csi.drivers import Key
from csi.health.verdict import USABLE, HealthState, Verdict
from kube.objects.model import Volume
from kube.persistent_map import Map

Probing = Callable[[str, str, timedelta], Awaitable[Verdict]]
"""`Drivers.verdict`: driver, handle, and the age that a verdict may have."""


class HealthGate:
    """Verdicts on recently chosen volumes. `max_age` is the plan's: older ones do not count."""

    def __init__(self, probing: Probing, max_age: timedelta) -> None:
        self._probing = probing
        self._max_age = max_age
        self._drop_at: datetime | None = None
        self.verdicts: Map[Key, Verdict] = Map()

    async def probe(self, chosen: Iterable[Volume], now: datetime) -> bool:
        """Probe the volumes without a recent verdict, concurrently; return False if there were none.

        Volumes that are not CSI have no driver to probe.
        """
        stale = self.unprobed(chosen, now)
        if stale:
            self._drop_outdated(now)
        await asyncio.gather(*(self._probe(volume) for volume in stale))
        return bool(stale)

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
        self.verdicts = self.verdicts.delete((driver, handle))
        return verdict.state not in USABLE

    def driver_answers(self, driver: str) -> None:
        """Drop what a driver could not report while it did not respond."""
        silent = [
            key for key, verdict in self.verdicts.items() if key[0] == driver and verdict.state is HealthState.UNKNOWN
        ]
        for key in silent:
            self.verdicts = self.verdicts.delete(key)

    def _fresh(self, volume: Volume, now: datetime) -> bool:
        verdict = self.verdicts.get((volume.driver, volume.handle))
        return verdict is not None and verdict.stands(now, self._max_age)

    def _drop_outdated(self, now: datetime) -> None:
        """Do so once within the maximum age: what was reported of volumes that are no longer chosen takes memory."""
        if self._drop_at is not None and now < self._drop_at:
            return
        self._drop_at = now + self._max_age
        kept = {key: verdict for key, verdict in self.verdicts.items() if verdict.stands(now, self._max_age)}
        self.verdicts = Map(kept)

    async def _probe(self, volume: Volume) -> None:
        verdict = await self._probing(volume.driver, volume.handle, self._max_age)
        self.verdicts = self.verdicts.set((volume.driver, volume.handle), verdict)
