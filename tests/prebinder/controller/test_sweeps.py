"""The jobs that sweep, against a scripted driver and a store with two of its volumes."""

from datetime import timedelta
from pathlib import Path

from csi.client.endpoint import Endpoint
from csi.drivers import Drivers
from kube.clock import SystemClock
from kube.store.store import Store
from prebinder.config.settings import HealthSettings, Settings
from prebinder.controller.sweeps import all_job_names, sweep_jobs
from tests.builders import volume
from tests.csi.observers import Recorder, Sweeps
from tests.csi.scripted_driver import NAME, ScriptedDriver


async def test_the_leader_sweeps_each_driver_at_the_interval_and_when_it_is_due(tmp_path: Path) -> None:
    endpoints = tuple(Endpoint(name, str(tmp_path / f"{name}.sock")) for name in (NAME, "absent"))
    settings = Settings(health=HealthSettings(endpoints, sweep_interval=timedelta(seconds=20)))
    store, observed, leading = Store("scheduler.cloud.example/"), Sweeps(), [False]
    for number in range(2):
        store.volumes.upsert(volume(f"pv-{number}", driver=NAME))
    async with ScriptedDriver(tmp_path / f"{NAME}.sock") as driver:
        drivers = Drivers(endpoints, SystemClock(), Recorder())
        jobs = sweep_jobs(settings, drivers, store, observed, lambda: leading[0])
        assert set(jobs) == set(all_job_names(settings.health))
        assert (jobs[f"sweep {NAME}"].every, jobs[f"sweep {NAME}"].jitter) == (18, 2)
        for job in jobs.values():
            await job.run()
        assert not driver.calls, "only the leader sweeps"
        leading[0] = True
        for job in jobs.values():
            await job.run()
        await drivers.close()
    assert {(end.driver, end.done, end.answered) for end in observed.ended} == {(NAME, 2, True), ("absent", 0, False)}
    assert len(observed.ended) == 2, "what was just swept is not due"
