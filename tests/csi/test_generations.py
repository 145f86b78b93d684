"""How each generation of a real driver process words each fault; its life is in prebinder.test_sweeps_protocols."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from csi.client.channel import Limits
from csi.drivers import Drivers
from csi.volume_probes import Pace
from devcluster.driver.generation import Generation
from devcluster.driver.health import VolumeFault
from devcluster.driver.volumes import break_volume, create_volume, delete_volume, make_well
from kube.clock import SystemClock
from tests.csi.observers import Order, Recorder, Sweeps
from tests.driver_process import DriverProcess

A = "a.csi.example"
PACE = Pace(rate=10_000)
CONDITIONS = (Generation.CONDITION, Generation.CONDITION_GET, Generation.CONDITION_LIST)
HEALTH = (Generation.HEALTH, Generation.HEALTH_GET)


class Driver:
    """A driver process with the volumes v and w, and who sweeps it."""

    def __init__(self, directory: Path, name: str, generation: Generation) -> None:
        self.process = DriverProcess(directory, name, "--generation", generation)
        self.root, self._name, self.sweeps = self.process.root, name, Sweeps()
        self.drivers = Drivers([self.process.endpoint], SystemClock(), Recorder(), Limits(deadline=2))
        self._sweep = self.drivers.sweep(name, Order("v", "w"), PACE, self.sweeps)

    async def __aenter__(self) -> "Driver":
        await self.process.start()
        for handle in ("v", "w"):
            create_volume(self.root, handle, 1024)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.drivers.close()
        await self.process.__aexit__()

    async def look(self) -> tuple[str, str]:
        """Sweep once and return what v is now, and the reason."""
        await self._sweep.run()
        record = self.drivers.records.state(self._name, "v")
        assert record is not None
        return str(record.state), record.current.reason


@pytest.fixture
async def driver(tmp_path: Path, generation: Generation) -> AsyncIterator[Driver]:
    async with Driver(tmp_path, A, generation) as driver:
        yield driver


WORDS = {
    **{(generation, kind): "Degraded" for generation in (*CONDITIONS, *HEALTH) for kind in VolumeFault},
    **{(generation, VolumeFault.GONE): "Inaccessible" for generation in CONDITIONS},
    **{(generation, VolumeFault.GONE): "DataLoss" for generation in HEALTH},
    **{(generation, VolumeFault.UNREADABLE): "Inaccessible" for generation in HEALTH},
}


@pytest.mark.parametrize("generation", [*HEALTH, *CONDITIONS])
async def test_the_next_sweep_sees_fault_and_recovery(driver: Driver, generation: Generation) -> None:
    assert (await driver.look())[0] == "Healthy"
    for kind in VolumeFault:
        break_volume(driver.root, "v", kind)
        assert (await driver.look())[0] == WORDS[generation, kind]
        make_well(driver.root, "v")
        assert (await driver.look())[0] == "Healthy"
    delete_volume(driver.root, "v")
    looks = [await driver.look() for _ in range(3)]
    # A list of unhealthy volumes does not name a volume that is no more; the question before a reservation finds out.
    verdict = await driver.drivers.verdict(A, "v", timedelta())
    assert verdict.unhealthy or generation is Generation.CONDITION_LIST
    if generation is not Generation.HEALTH:
        assert looks[-1] == ("Inaccessible", "VolumeNotFound")


@pytest.mark.parametrize("generation", [Generation.EXISTENCE])
async def test_existence_is_all_that_is_known(driver: Driver) -> None:
    break_volume(driver.root, "v", VolumeFault.GONE)
    assert await driver.look() == ("Healthy", "VolumeExists")
    delete_volume(driver.root, "v")
    assert await driver.look() == ("Inaccessible", "VolumeNotFound")
    create_volume(driver.root, "v", 1024)
    assert (await driver.look())[0] == "Healthy"


@pytest.mark.parametrize("generation", [Generation.NOTHING])
async def test_nothing_is_known(driver: Driver) -> None:
    assert await driver.look() == ("Unsupported", "NoHealthCapability")
