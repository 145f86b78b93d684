"""Each way to learn a volume's health, by the jobs of the controller, against real driver processes.

One story for all: a volume becomes unhealthy and recovers; the driver is stopped, goes on, is killed, and comes back as
another that can be asked in another way. Beside it another driver is swept all the time.
"""

import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from csi.client.channel import Limits
from csi.drivers import Drivers
from csi.health.health import HealthRecord
from devcluster.driver.generation import Generation
from devcluster.driver.health import VolumeFault
from devcluster.driver.volumes import break_volume, create_volume, delete_volume, make_well
from kube.clock import SystemClock
from kube.store.store import Store
from prebinder.config.settings import HealthSettings, Settings
from prebinder.controller.sweeps import ClusterSweeps, sweep_jobs
from prebinder.metrics.process import JobMetrics
from prebinder.runtime.jobs import scheduled
from tests.builders import volume
from tests.csi.observers import Recorder, Sweeps
from tests.driver_process import DriverProcess, eventually

SUBJECT, OTHER = "subject.csi.example", "other.csi.example"
SECONDS = 0.2
"""Between two looks."""


GET, LIST = "ControllerGetVolume", "ListVolumes"
GET_HEALTH, LIST_HEALTH = "ControllerGetVolumeHealth", "ControllerListVolumeHealth"


@dataclass(frozen=True)
class Row:
    """A generation, by how its volumes are probed, and what one is called while it is well, and when it is gone.

    Gone means that its directory is.
    """

    generation: Generation
    calls: frozenset[str]
    well: str
    gone: str


ROWS = [
    Row(Generation.HEALTH, frozenset({LIST_HEALTH, GET_HEALTH}), "Healthy", "DataLoss"),
    Row(Generation.CONDITION, frozenset({LIST}), "Healthy", "Inaccessible"),
    Row(Generation.HEALTH_GET, frozenset({GET_HEALTH}), "Healthy", "DataLoss"),
    Row(Generation.CONDITION_LIST, frozenset({LIST}), "Healthy", "Inaccessible"),
    Row(Generation.EXISTENCE, frozenset({GET}), "Healthy", "Healthy"),
    Row(Generation.CONDITION_GET, frozenset({GET}), "Healthy", "Inaccessible"),
    Row(Generation.NOTHING, frozenset(), "Unsupported", "Unsupported"),
]
EACH_AND_THE_NEXT = [pytest.param(row, ROWS[(n + 1) % len(ROWS)], id=row.generation) for n, row in enumerate(ROWS)]


class SkippedRuns(JobMetrics):
    def __init__(self) -> None:
        super().__init__(CollectorRegistry(), ())
        self.causes = set[str]()

    def skipped(self, job: str, cause: str) -> None:
        super().skipped(job, cause)
        self.causes.add(cause)


class Watched:
    """Two drivers with a volume v each, swept by the controller's jobs, only sooner."""

    def __init__(self, directory: Path, row: Row) -> None:
        self.process = DriverProcess(directory, SUBJECT, "--generation", row.generation)
        self.other = DriverProcess(directory, OTHER, "--generation", Generation.CONDITION)
        endpoints = (self.process.endpoint, self.other.endpoint)
        self.recorder, self.sweeps, store = Recorder(), Sweeps(), Store()
        self.drivers = Drivers(endpoints, SystemClock(), self.recorder, Limits(deadline=1))
        for name in (SUBJECT, OTHER):
            store.volumes.upsert(volume(name, driver=name, handle="v"))
        settings = Settings(health=HealthSettings(endpoints))
        jobs = sweep_jobs(settings, self.drivers, ClusterSweeps(settings, store, self.sweeps), lambda: True)
        self.skipped = SkippedRuns()
        self.jobs = {name: replace(job, every=SECONDS, jitter=0) for name, job in jobs.items()}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for process in (self.process, self.other):
                create_volume(process.root, "v", 1024)
                await stack.enter_async_context(process)
            stack.push_async_callback(self.drivers.close)
            stack.enter_context(scheduled(self.jobs, self.skipped, SystemClock()))
            yield
        assert self.skipped.causes <= {"still_running"}, "only while the driver hangs runs are left out"

    def record(self, driver: str = SUBJECT) -> HealthRecord | None:
        return self.drivers.records.state(driver, "v")

    async def becomes(self, state: str, driver: str = SUBJECT) -> HealthRecord:
        async def there() -> bool:
            record = self.record(driver)
            return record is not None and record.state == state

        await eventually(there, f"the volume of {driver} is {state}, it is {self.record(driver)}")
        record = self.record(driver)
        assert record is not None
        return record

    def calls_about_volumes(self) -> set[str]:
        """The answered calls about volumes of the driver, by short name."""
        answered = [method for driver, method, code in self.recorder.operations if (driver, code) == (SUBJECT, "OK")]
        return {method.rpartition("/")[2] for method in answered} & {GET, LIST, GET_HEALTH, LIST_HEALTH}

    async def other_is_swept(self, times: int = 3) -> None:
        before = len(self._sweeps_of_other())

        async def there() -> bool:
            return len(self._sweeps_of_other()) >= before + times

        await eventually(there, f"{OTHER} is swept {times} times more")
        assert all(self._sweeps_of_other())

    def _sweeps_of_other(self) -> list[bool]:
        return [end.answered for end in self.sweeps.ended if end.driver == OTHER]


@pytest.mark.parametrize(("row", "following"), EACH_AND_THE_NEXT)
async def test_the_life_of_a_driver(tmp_path: Path, row: Row, following: Row) -> None:
    watched = Watched(tmp_path, row)
    async with watched.running():
        await watched.becomes(row.well)
        await watched.becomes("Healthy", OTHER)
        await becomes_unhealthy_and_recovers(watched, row)
        await hangs(watched, row)
        await dies(watched, row, following)


async def becomes_unhealthy_and_recovers(watched: Watched, row: Row) -> None:
    root = watched.process.root
    if row.generation is Generation.EXISTENCE:
        delete_volume(root, "v")
        await watched.becomes("Inaccessible")
        create_volume(root, "v", 1024)
    else:
        break_volume(root, "v", VolumeFault.GONE)
        await watched.becomes(row.gone)
        make_well(root, "v")
    assert not (await watched.becomes(row.well)).unhealthy


async def hangs(watched: Watched, row: Row) -> None:
    """It is not unhealthy and delays no other driver."""
    await watched.process.send(signal.SIGSTOP)
    record = await watched.becomes("Unknown")
    assert not record.unhealthy
    assert record.current.reason == "DeadlineExceeded"
    break_volume(watched.other.root, "v", VolumeFault.GONE)
    await watched.becomes("Inaccessible", OTHER)
    make_well(watched.other.root, "v")
    await watched.becomes("Healthy", OTHER)
    await watched.other_is_swept()
    still = watched.record()
    assert still is not None
    assert (still.state, still.unhealthy, still.current.since) == ("Unknown", False, record.current.since)
    await watched.process.send(signal.SIGCONT)
    await watched.becomes(row.well)


async def dies(watched: Watched, row: Row, following: Row) -> None:
    """What was found before is not forgotten, and the driver that comes back is probed by its own protocol."""
    break_volume(watched.process.root, "v", VolumeFault.GONE)
    unhealthy = (await watched.becomes(row.gone)).unhealthy
    await watched.process.send(signal.SIGKILL)
    assert (await watched.becomes("Unknown")).unhealthy is unhealthy
    watched.recorder.operations.clear()
    watched.process.arguments = ("--generation", following.generation)
    await watched.process.start()
    await watched.becomes(following.gone)
    make_well(watched.process.root, "v")
    await watched.becomes(following.well)
    assert watched.calls_about_volumes() == following.calls
