"""What is known of a volume's health, as frozen values: the words binder reads and the CSI client writes."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class HealthState(StrEnum):
    """State of one volume. The sick ones carry the names of KEP-1432's VolumeHealth statuses."""

    HEALTHY = "Healthy"
    DEGRADED = "Degraded"
    INACCESSIBLE = "Inaccessible"
    DATA_LOSS = "DataLoss"
    UNKNOWN = "Unknown"
    UNSUPPORTED = "Unsupported"


SICK = frozenset({HealthState.DEGRADED, HealthState.INACCESSIBLE, HealthState.DATA_LOSS})


@dataclass(frozen=True, slots=True)
class Segment:
    """One accessible topology segment: sorted (key, value) label pairs that a node must all carry.

    A volume reports a list of segments, of which any one suffices. An empty segment matches every node.
    """

    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one source said about one volume, and when.

    `topology` is None when the source did not say where the volume is accessible; an empty tuple means the
    driver named no constraint.
    """

    state: HealthState
    reason: str
    message: str
    source: str
    observed_at: datetime
    topology: tuple[Segment, ...] | None = None

    @property
    def sick(self) -> bool:
        """Whether the volume is known to be unwell: Degraded, Inaccessible or DataLoss."""
        return self.state in SICK
