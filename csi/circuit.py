"""While a driver does not respond, none of its volumes is probed: one call at a time finds out whether it does again.

That is known of the driver, not of a volume: a volume that hangs at a driver that responds says nothing about others.
"""

import asyncio
from typing import Final

from csi.health import interpret
from csi.health.verdict import Verdict
from csi.probe import DriverProbe
from kube.clock import Clock

CHECK_AGAIN: Final = 1.0
"""Seconds after a check of a driver that did not respond before the next one begins."""


class Circuit:
    """Whether a driver responds. Close it before its probe."""

    def __init__(self, probe: DriverProbe, clock: Clock) -> None:
        self._probe, self._clock = probe, clock
        self._checking: asyncio.Task[None] | None = None
        self._checked_at = float("-inf")
        self._wanted: str | None = None

    def silence(self, wanted: str | None = None) -> Verdict | None:
        """Return the verdict on every volume while the driver does not respond; None if it does, or was never called.

        Begins a check if one is due: of the driver itself, and of the volume last `wanted`, because there are drivers
        whose Probe hangs while they report on volumes. A response to either ends the silence.
        """
        self._wanted = wanted or self._wanted
        session = self._probe.session
        if session.up is not False:
            return None
        due = self._clock.monotonic() - self._checked_at >= CHECK_AGAIN
        if due and (self._checking is None or self._checking.done()):
            self._checking = asyncio.create_task(self._check())
        return interpret.failed_call(self._probe.source(), session.trouble.code, session.trouble.details)

    async def close(self) -> None:
        """End a check in progress."""
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.gather(self._checking, return_exceptions=True)

    async def _check(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._probe.session.answers())
                if self._wanted is not None:
                    group.create_task(self._probe.glance(self._wanted))
        finally:
            self._checked_at = self._clock.monotonic()
