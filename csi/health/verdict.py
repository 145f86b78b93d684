"""What is known of a volume's health, as frozen values that binder reads and the CSI client writes."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final


class HealthState(StrEnum):
    """State of a volume. The unhealthy ones have the names of KEP-1432's VolumeHealth statuses."""

    HEALTHY = "Healthy"
    DEGRADED = "Degraded"
    INACCESSIBLE = "Inaccessible"
    DATA_LOSS = "DataLoss"
    UNKNOWN = "Unknown"
    UNSUPPORTED = "Unsupported"


UNHEALTHY = frozenset({HealthState.DEGRADED, HealthState.INACCESSIBLE, HealthState.DATA_LOSS})
USABLE = frozenset({HealthState.HEALTHY, HealthState.UNSUPPORTED})
"""States in which a volume may be used, whatever the policy."""

UNKNOWN_KEPT_FOR: Final = timedelta(seconds=1)
"""How long a failure is served from the cache: enough for a burst of requests, short compared to any recovery."""

UNKNOWN_BELIEVED_FOR: Final = timedelta(seconds=15)
"""How long a plan excludes a volume, at least, because its driver could not report: longer than a call to a driver that
hangs, and longer than an attempt for a pod, in which no volume is offered twice.
"""

LEARNED_SINCE: Final = timedelta(seconds=5)
"""How much later than `now` a verdict may have arrived: a plan may have begun before its driver responded."""

_BADNESS: Final = (
    HealthState.UNSUPPORTED,
    HealthState.HEALTHY,
    HealthState.UNKNOWN,
    HealthState.DEGRADED,
    HealthState.INACCESSIBLE,
    HealthState.DATA_LOSS,
)


def severity(state: HealthState) -> int:
    """Return a rank: of two reports about a volume the worse one, with the higher rank, counts.

    A source that cannot report outranks no other, but one that should report and does not outranks "healthy".
    """
    return _BADNESS.index(state)


@dataclass(frozen=True, slots=True)
class Segment:
    """One accessible topology segment: sorted (key, value) label pairs that a node must all carry.

    A volume reports a list of segments, of which any one suffices. An empty segment matches every node.
    """

    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a source reported about a volume, and when.

    `topology` is None if the source did not report where the volume is accessible; an empty tuple means that the driver
    named no constraint. `believed_for`: how long a plan excludes the volume if the state is Unknown.
    """

    state: HealthState
    reason: str
    message: str
    source: str
    observed_at: datetime
    topology: tuple[Segment, ...] | None = None
    believed_for: timedelta = UNKNOWN_BELIEVED_FOR

    @property
    def unhealthy(self) -> bool:
        """Whether the volume is known to be unhealthy: Degraded, Inaccessible or DataLoss."""
        return self.state in UNHEALTHY

    def fresh(self, now: datetime, max_age: timedelta) -> bool:
        """Whether it can be used without another probe. A failure is outdated sooner than a result."""
        limit = min(max_age, UNKNOWN_KEPT_FOR) if self.state is HealthState.UNKNOWN else max_age
        # A verdict from the future, after the clock was set back, is of unknown age.
        return timedelta() <= now - self.observed_at <= limit

    def stands(self, now: datetime, max_age: timedelta) -> bool:
        """Whether a plan may still use it; otherwise the volume is probed again before anything is written."""
        limit = self.believed_for if self.state is HealthState.UNKNOWN else max_age
        return -LEARNED_SINCE <= now - self.observed_at <= limit
