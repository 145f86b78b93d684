"""Each row of the negotiation against a real driver process: it falls sick, recovers, hangs, dies, changes."""

import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from csi.channel import Limits
from csi.drivers import Drivers
from csi.sweep import Pace
from devcluster.driver_generation import Generation
from devcluster.driver_health import Sickness
from devcluster.driver_volumes import create_volume, delete_volume, make_sick, make_well
from kube.clock import SystemClock
from tests.csi.observers import Order, Recorder, Sweeps
from tests.driver_process import DriverProcess, eventually

A, B = "a.csi.example", "b.csi.example"
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
        record = self.drivers.state(self._name, "v")
        assert record is not None
        return str(record.state), record.current.reason

    async def becomes(self, state: str) -> None:
        """For after a restart: the connection comes back within some seconds, sweep or not."""

        async def there() -> bool:
            return (await self.look())[0] == state

        await eventually(there, f"v is {state}")

    async def restart(self, *arguments: str) -> None:
        if self.process.exit_code is None:
            await self.process.send(signal.SIGKILL)
        if arguments:
            self.process.arguments = arguments
        await self.process.start()


@pytest.fixture
async def driver(tmp_path: Path, generation: Generation) -> AsyncIterator[Driver]:
    async with Driver(tmp_path, A, generation) as driver:
        yield driver


WORDS = {
    **{(generation, kind): "Degraded" for generation in (*CONDITIONS, *HEALTH) for kind in Sickness},
    **{(generation, Sickness.GONE): "Inaccessible" for generation in CONDITIONS},
    **{(generation, Sickness.GONE): "DataLoss" for generation in HEALTH},
    **{(generation, Sickness.UNREADABLE): "Inaccessible" for generation in HEALTH},
}


@pytest.mark.parametrize("generation", [*HEALTH, *CONDITIONS])
async def test_the_next_sweep_sees_sickness_and_recovery(driver: Driver, generation: Generation) -> None:
    assert (await driver.look())[0] == "Healthy"
    for kind in Sickness:
        make_sick(driver.root, "v", kind)
        assert (await driver.look())[0] == WORDS[generation, kind]
        make_well(driver.root, "v")
        assert (await driver.look())[0] == "Healthy"
    delete_volume(driver.root, "v")
    looks = [await driver.look() for _ in range(3)]
    # A list of the sick does not name a volume that is no more; the question before a reservation finds out.
    verdict = await driver.drivers.verdict(A, "v", timedelta())
    assert verdict.sick or generation is Generation.CONDITION_LIST
    if generation is not Generation.HEALTH:
        assert looks[-1] == ("Inaccessible", "VolumeNotFound")


@pytest.mark.parametrize("generation", [Generation.EXISTENCE])
async def test_existence_is_all_that_is_known(driver: Driver) -> None:
    make_sick(driver.root, "v", Sickness.GONE)
    assert await driver.look() == ("Healthy", "VolumeExists")
    delete_volume(driver.root, "v")
    assert await driver.look() == ("Inaccessible", "VolumeNotFound")
    create_volume(driver.root, "v", 1024)
    assert (await driver.look())[0] == "Healthy"


@pytest.mark.parametrize("generation", [Generation.NOTHING])
async def test_nothing_is_known(driver: Driver) -> None:
    assert await driver.look() == ("Unsupported", "NoHealthCapability")


@pytest.mark.parametrize("generation", [*HEALTH, *CONDITIONS, Generation.EXISTENCE])
async def test_a_stopped_driver_is_unknown_and_a_killed_one_recovers(tmp_path: Path, driver: Driver) -> None:
    async with Driver(tmp_path, B, Generation.HEALTH) as other:
        assert [(await one.look())[0] for one in (driver, other)] == ["Healthy"] * 2
        await driver.process.send(signal.SIGSTOP)
        assert await driver.look() == ("Unknown", "DeadlineExceeded")
        record = driver.drivers.state(A, "v")
        assert record is not None
        assert not record.sick
        assert (await other.look())[0] == "Healthy"
        assert [end.answered for end in other.sweeps.ended] == [True, True]
        await driver.process.send(signal.SIGCONT)
        await driver.becomes("Healthy")
        await driver.process.send(signal.SIGKILL)
        assert (await driver.look())[0] == "Unknown"
        await driver.restart()
        await driver.becomes("Healthy")


@pytest.mark.parametrize("generation", [Generation.HEALTH])
async def test_each_change_of_generation_is_negotiated(driver: Driver) -> None:
    make_sick(driver.root, "v", Sickness.UNREADABLE)
    assert await driver.look() == ("Inaccessible", "DirectoryUnreadable")
    for generation, expected in (
        (Generation.CONDITION, "Degraded"),
        (Generation.NOTHING, "Unsupported"),
        (Generation.EXISTENCE, "Healthy"),
        (Generation.HEALTH_GET, "Inaccessible"),
    ):
        await driver.restart("--generation", generation)
        await driver.becomes(expected)
