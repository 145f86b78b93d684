"""Collects what the measurements of sweeps report while they run."""
# ruff: noqa: ARG002  (the ports give the arguments)

from csi.health.size_limit import SizeLimit
from csi.health.verdict import HealthState
from csi.sweep import SweepProgress


class Meter:
    """Ports of csi.drivers and csi.sweep: counts calls, keeps each driver's last sweep."""

    def __init__(self) -> None:
        self.calls = 0
        self.ended: dict[str, SweepProgress] = {}

    def exceeded(self, driver: str, limit: SizeLimit, details: str) -> None: ...

    def operation(self, driver: str, method: str, code: str, seconds: float) -> None:
        self.calls += 1

    def probed(self, driver: str, method: str, state: HealthState, seconds: float) -> None: ...

    def listed(self, driver: str, method: str, code: str, seconds: float) -> None: ...

    def swept(self, progress: SweepProgress) -> None:
        if progress.seconds is not None:
            self.ended[progress.driver] = progress
