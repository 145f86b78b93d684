"""An observer that remembers what it was told."""

from csi.verdict import HealthState


class Recorder:
    """Implements csi.probe.Observer."""

    def __init__(self) -> None:
        self.operations: list[tuple[str, str, str]] = []
        self.probes: list[tuple[str, str, HealthState]] = []

    def operation(self, driver: str, method: str, code: str, seconds: float) -> None:
        self.operations.append((driver, method, code))

    def probed(self, driver: str, method: str, state: HealthState, seconds: float) -> None:
        self.probes.append((driver, method, state))
