"""What a complete sweep implies for volumes without health annotations: most are healthy, and that takes no write."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from csi.health.report_source import NOT_FOUND
from csi.health.verdict import UNHEALTHY, HealthState

OLD: Final = timedelta(minutes=5)
"""A volume that was this old when a sweep began was swept: a watch that missed it would have been repaired by then."""
MAX_NAMED: Final = 100
"""Handles of one kind named in one report: the Lease is written every two seconds, and must stay small."""

_WRITTEN_WITHIN: Final = timedelta(seconds=10)
"""From the end of a sweep until its report can be read; it is written with the next renewal of the Lease."""
_FROM_THE_FUTURE: Final = timedelta(minutes=1)
"""A sweep that ended this much later than now is of unknown age: one of the clocks is wrong."""


def says_lost(state: HealthState, reason: str) -> bool:
    """Whether a driver says by this state and reason that a volume's data is lost, or that it does not exist."""
    return state is HealthState.DATA_LOSS or (state is HealthState.INACCESSIBLE and reason == NOT_FOUND)


@dataclass(frozen=True, slots=True)
class CompleteSweep:
    """A sweep that the driver answered to the end.

    `exceptions` are the handles that it did not find healthy, with what it knows of them instead; all others of its
    `volumes` are Healthy. Of the exceptions the driver says of those in `lost` that the data is lost, or that the
    volume does not exist.
    """

    driver: str
    began: datetime
    ended: datetime
    volumes: int
    exceptions: Mapping[str, HealthState] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What is published of a driver's last complete sweep. `interval` is the time from one sweep to the next.

    `version` is the resource version up to which the sweeping process had seen PersistentVolumes. `volumes` were
    probed; of these `unhealthy`, `unknown` and `unsupported` were not Healthy. `exceptions` are the handles among them
    whose volume has no health annotation; None if there are too many to be named. `lost` counts the volumes whose data
    is lost, or that do not exist, by this sweep; `lost_twice` are the handles of which the complete sweep before it
    reported the same, None if there are too many to be named, or the process that published the report names none.
    """

    driver: str
    began: datetime
    ended: datetime
    interval: timedelta
    version: int
    volumes: int
    unhealthy: int = 0
    unknown: int = 0
    unsupported: int = 0
    exceptions: frozenset[str] | None = frozenset()
    lost: int = 0
    lost_twice: frozenset[str] | None = frozenset()

    def recent(self, now: datetime) -> bool:
        """Whether it still counts: until the next but one sweep should have been reported."""
        age = now - self.ended
        return -_FROM_THE_FUTURE <= age <= 2 * (self.interval + (self.ended - self.began)) + _WRITTEN_WITHIN

    def covers(self, version: int, created: datetime | None) -> bool:
        """Whether a volume of this resource version, created then, was among those swept.

        Versions order all objects of a kind (KEP-5504): one that was seen, or is older, was swept. A volume that
        changed since is judged by its age, because the clocks of the API server and of the sweeping process differ.
        """
        return version <= self.version or (created is not None and self.began - created >= OLD)

    def state_of(self, handle: str) -> HealthState:
        """Return the sweep's result for a volume that it covers and that has no health annotations."""
        if 0 < self.volumes == self.unsupported:
            return HealthState.UNSUPPORTED
        if not self.volumes or self.exceptions is None or handle in self.exceptions:
            return HealthState.UNKNOWN
        return HealthState.HEALTHY


def report_of(
    sweep: CompleteSweep,
    interval: timedelta,
    version: int,
    exceptions: frozenset[str] | None,
    lost_before: frozenset[str] = frozenset(),
) -> SweepReport:
    """Return what to publish; `exceptions` are those of the sweep without health annotations on their volumes, and
    `lost_before` is what the complete sweep before it reported as lost.
    """
    twice = sweep.lost & lost_before
    states = list(sweep.exceptions.values())
    return SweepReport(
        sweep.driver,
        sweep.began,
        sweep.ended,
        interval,
        version,
        sweep.volumes,
        unhealthy=sum(state in UNHEALTHY for state in states),
        unknown=states.count(HealthState.UNKNOWN),
        unsupported=states.count(HealthState.UNSUPPORTED),
        exceptions=exceptions,
        lost=len(sweep.lost),
        lost_twice=twice if len(twice) <= MAX_NAMED else None,
    )
