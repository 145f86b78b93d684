"""The health gate: no volume is reserved unless its driver was asked about it lately enough.

The gate asks and remembers; what a verdict means for a volume is decided in the plan, which reads it here. The loop is:
plan, ask about what was chosen, plan again, until all that is chosen has a fresh verdict.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Final, Protocol

from immutables import Map

from binder.model.decision import Finish, Reserve
from csi.health.verdict import USABLE, HealthState, Verdict
from kube.objects.model import Volume

Key = tuple[str, str]
"""A driver's name and a volume's handle."""

LONGEST_MEMORY: Final = 20_000
"""Verdicts kept before the outdated ones are dropped: many times what is chosen within one maximal age."""


class HealthSource(Protocol):
    """Asks drivers about volumes (csi.drivers.Drivers)."""

    async def verdict(self, driver: str, handle: str, max_age: timedelta) -> Verdict:
        """Return a verdict at most so old. Raises nothing, and answers within the driver's own deadlines."""


class HealthGate:
    """Verdicts on the volumes that were chosen lately. `max_age` is the plan's: an older one says nothing."""

    def __init__(self, source: HealthSource, max_age: timedelta) -> None:
        self._source = source
        self._max_age = max_age
        self.verdicts: Map[Key, Verdict] = Map()

    async def ask(self, decision: Reserve | Finish, now: datetime) -> bool:
        """Ask about the chosen volumes without a fresh verdict, all at once; return False if there were none.

        Volumes that are not CSI have no driver to ask.
        """
        stale = self.unanswered(decision, now)
        await asyncio.gather(*(self._ask(volume) for volume in stale))
        if len(self.verdicts) > LONGEST_MEMORY:
            kept = {key: verdict for key, verdict in self.verdicts.items() if verdict.stands(now, self._max_age)}
            self.verdicts = Map(kept)
        return bool(stale)

    def unanswered(self, decision: Reserve | Finish, now: datetime) -> list[Volume]:
        """Return the chosen volumes about which nothing fresh is known."""
        chosen = (placement.volume for placement in decision.placements)
        return [volume for volume in chosen if volume.driver and not self._fresh(volume, now)]

    def outdated(self, driver: str, handle: str) -> bool:
        """Forget a verdict because something else was learned since: a sweep found the volume unhealthy, or well again.

        Without that, a volume of a driver that came back would stay Unknown here for the whole maximal age. Return
        whether pods may have been refused because of it.
        """
        verdict = self.verdicts.get((driver, handle))
        if verdict is None:
            return False
        self.verdicts = self.verdicts.delete((driver, handle))
        return verdict.state not in USABLE

    def driver_answers(self, driver: str) -> None:
        """Forget what a driver could not say while it did not answer."""
        silent = [
            key for key, verdict in self.verdicts.items() if key[0] == driver and verdict.state is HealthState.UNKNOWN
        ]
        for key in silent:
            self.verdicts = self.verdicts.delete(key)

    def _fresh(self, volume: Volume, now: datetime) -> bool:
        verdict = self.verdicts.get((volume.driver, volume.handle))
        return verdict is not None and verdict.stands(now, self._max_age)

    async def _ask(self, volume: Volume) -> None:
        verdict = await self._source.verdict(volume.driver, volume.handle, self._max_age)
        self.verdicts = self.verdicts.set((volume.driver, volume.handle), verdict)
