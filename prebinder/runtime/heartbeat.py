"""How late the event loop runs: a blocked loop delays every watch, renewal and deadline alike."""

from typing import Final

from kube.clock import Clock

INTERVAL_SECONDS: Final = 0.5
STUCK_SECONDS: Final = 30.0
"""An event loop with this lag is not alive: Leases, deadlines and watches all depend on it."""


class Heartbeat:
    """Beats twice a second as long as `run` runs, and measures the lag."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due = clock.monotonic() + INTERVAL_SECONDS
        self._late = 0.0

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            self._due = self._clock.monotonic() + INTERVAL_SECONDS
            await self._clock.sleep(INTERVAL_SECONDS)
            self._late = max(0.0, self._clock.monotonic() - self._due)

    def lag(self) -> float:
        """Return by how many seconds the last beat was late, or the next one is."""
        return max(self._late, self._clock.monotonic() - self._due)

    def problem(self) -> str | None:
        """Return that the loop is stuck, for livez."""
        lag = self.lag()
        return f"{lag:.0f} s late" if lag > STUCK_SECONDS else None
