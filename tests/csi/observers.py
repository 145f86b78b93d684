"""Observers that record their calls, and an order of volumes."""

from csi.health.size_limit import SizeLimit
from csi.health.verdict import HealthState
from csi.sweep import SweepProgress


class Recorder:
    """Implements csi.probe.Observer."""

    def __init__(self) -> None:
        self.operations: list[tuple[str, str, str]] = []
        self.probes: list[tuple[str, str, HealthState]] = []
        self.excesses: list[tuple[str, SizeLimit, str]] = []

    def operation(self, driver: str, method: str, code: str, seconds: float) -> None:
        self.operations.append((driver, method, code))

    def probed(self, driver: str, method: str, state: HealthState, seconds: float) -> None:
        self.probes.append((driver, method, state))

    def exceeded(self, driver: str, limit: SizeLimit, details: str) -> None:
        self.excesses.append((driver, limit, details))


class Sweeps:
    """Implements csi.sweep.SweepObserver."""

    def __init__(self) -> None:
        self.progress: list[SweepProgress] = []
        self.lists: list[tuple[str, str]] = []

    def swept(self, progress: SweepProgress) -> None:
        self.progress.append(progress)

    def listed(self, driver: str, method: str, code: str, seconds: float) -> None:
        self.lists.append((method, code))

    @property
    def ended(self) -> list[SweepProgress]:
        return [progress for progress in self.progress if progress.seconds is not None]


class Order:
    """Implements csi.sweep.DriverVolumes: these handles, whatever the driver."""

    def __init__(self, *handles: str) -> None:
        self.ordered = list(handles)
        self.used: list[list[str]] = [[], []]

    async def handles(self, driver: str) -> list[str]:
        return self.ordered

    async def in_use(self, driver: str) -> list[list[str]]:
        return self.used
