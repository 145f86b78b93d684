"""A scripted driver, its client, and their calls."""

from collections import Counter

from csi.client.channel import Limits
from csi.client.endpoint import Endpoint
from csi.drivers import Drivers
from csi.sweep import Sweep
from csi.volume_probes import Pace
from kube.clock import Clock, SystemClock
from tests.csi.observers import Order, Recorder, Sweeps
from tests.csi.scripted_driver import NAME, ScriptedDriver

FAST = Pace(rate=100_000, at_once=2)


class Stage:
    """The driver has the volumes a, b and c, unless `order.ordered` is changed. Close `drivers` at the end."""

    def __init__(self, driver: ScriptedDriver, clock: Clock | None = None, pace: Pace = FAST) -> None:
        self.driver, self.order, self.sweeps = driver, Order("a", "b", "c"), Sweeps()
        endpoint = Endpoint(NAME, str(driver.socket))
        self.drivers = Drivers([endpoint], clock or SystemClock(), Recorder(), Limits(deadline=0.5))
        self.sweep: Sweep = self.drivers.sweep(NAME, self.order, pace, self.sweeps)

    def state(self, handle: str) -> str | None:
        record = self.drivers.records.state(NAME, handle)
        return None if record is None else str(record.state)

    def states(self) -> list[str | None]:
        return [self.state(handle) for handle in self.order.ordered]

    def calls(self) -> Counter[str]:
        """Count calls by short name, and reset."""
        counted = Counter(path.rpartition("/")[2] for path in self.driver.calls)
        self.driver.calls.clear()
        return counted
