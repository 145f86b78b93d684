"""When the annotations of fulfilled reservations are removed: in the background, after the binds.

They block nothing, and each removal is a write of an object that others still write while many claims are bound, and
that the API server has to serve beside the binds. So they wait until no claim was bound for a moment, some minutes at
most, and are then removed at a bounded rate.
"""

from datetime import datetime
from typing import Final

from kube.client.rate_limit import TokenBucket
from kube.clock import Clock

CALM: Final = 3.0
"""Seconds without another bind after which the burst is over."""
AT_LATEST: Final = 300.0
"""Seconds after its bind from which a reservation is cleaned up even while others are bound."""
RECHECK_SECONDS: Final = 10.0
"""Seconds between two checks whether the burst is over, at most."""
PER_SECOND: Final = 5.0
AT_ONCE: Final = 5
"""Reservations, of two writes each: half of the 20 requests a second that the PV controller has."""


class CleanUp:
    """Schedules the clean-up of each fulfilled reservation."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bucket = TokenBucket(clock, PER_SECOND, AT_ONCE)
        self._kept: dict[tuple[str, str], tuple[datetime, float]] = {}
        self._turns: dict[tuple[str, str], float] = {}
        self._latest = float("-inf")

    def seconds_left(self, subject: tuple[str, str]) -> float:
        """Return how long to wait before the next call about it; 0.0 if it may be cleaned up."""
        now = self._clock.monotonic()
        if subject not in self._kept:
            self._kept[subject] = (self._clock.now(), now)
            self._latest = now
        if subject not in self._turns:
            since = self._kept[subject][1]
            due = min(self._latest + CALM, since + AT_LATEST)
            if now < due:
                # Checked less often the longer the burst lasts.
                return min(max(due - now, now - since), max(RECHECK_SECONDS, due - now))
            self._turns[subject] = now + self._bucket.take()
        return max(0.0, self._turns[subject] - now)

    def kept_since(self, subject: tuple[str, str]) -> datetime:
        """Return when the reservation was first seen as fulfilled."""
        return self._kept[subject][0]

    def forget(self, subject: tuple[str, str]) -> None:
        """Nothing is left to be removed there."""
        self._kept.pop(subject, None)
        self._turns.pop(subject, None)
