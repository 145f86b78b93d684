"""The jobs that sweep, against a scripted driver and a store with two of its volumes."""

from datetime import timedelta
from pathlib import Path

from binder.health.published_sweeps import published_sweeps
from binder.reservation.contract import Annotations
from csi.client.endpoint import Endpoint
from csi.drivers import Drivers
from csi.health.complete_sweep import CompleteSweep
from csi.health.verdict import HealthState
from csi.sweep import SweepProgress
from kube.clock import SystemClock
from kube.store.store import Store
from prebinder.config.settings import HealthSettings, Settings
from prebinder.controller.sweeps import ClusterSweeps, all_job_names, sweep_jobs
from tests.builders import EPOCH, volume
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
        cluster = ClusterSweeps(settings, store, observed)
        jobs = sweep_jobs(settings, drivers, cluster, lambda: leading[0])
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
    (published,) = published_sweeps(cluster.on_lease()[Annotations().sweeps], "ns/lease")
    assert (published.report.driver, published.report.volumes, published.report.exceptions) == (NAME, 2, frozenset())
    assert published.report.interval == timedelta(seconds=20), "the driver that is absent was not swept to the end"


async def test_the_report_names_what_is_not_healthy_and_does_not_say_so_itself() -> None:
    store = Store("scheduler.cloud.example/")
    reported = volume("told", driver=NAME, annotations={Annotations().health: "DataLoss"}, resource_version=7)
    for stored in (reported, volume("new", driver=NAME), volume("well", driver=NAME, resource_version=9)):
        store.volumes.upsert(stored)
    cluster = ClusterSweeps(Settings(), store, Sweeps())
    assert cluster.on_lease() == {}
    handles = await cluster.handles(NAME)
    ailing = {f"handle-{name}": HealthState.DATA_LOSS for name in ("told", "new")}
    assert ailing.keys() < set(handles)
    sweep = CompleteSweep(NAME, EPOCH, EPOCH, 3, ailing)
    cluster.swept(SweepProgress(NAME, 3, 3, 0.5, complete=sweep))
    (published,) = published_sweeps(cluster.on_lease()[Annotations().sweeps], "ns/lease")
    report = published.report
    assert (report.volumes, report.unhealthy, report.exceptions) == (3, 2, frozenset({"handle-new"}))
    assert report.version == 9
    cluster.swept(SweepProgress(NAME, 1, 3, 0.5, answered=False))
    assert published_sweeps(cluster.on_lease()[Annotations().sweeps], "ns/lease") == [published], "the last one stands"


async def test_a_loss_counts_as_reported_twice_when_two_complete_sweeps_in_a_row_report_it() -> None:
    cluster = ClusterSweeps(Settings(), Store("scheduler.cloud.example/"), Sweeps())

    def swept(*lost: str, answered: bool = True) -> tuple[int, frozenset[str] | None]:
        sweep = CompleteSweep(NAME, EPOCH, EPOCH, 9, dict.fromkeys(lost, HealthState.DATA_LOSS), frozenset(lost))
        cluster.swept(SweepProgress(NAME, 9, 9, 0.5, answered=answered, complete=sweep if answered else None))
        (published,) = published_sweeps(cluster.on_lease()[Annotations().sweeps], "ns/lease")
        return published.report.lost, published.report.lost_twice

    assert swept("a", "b") == (2, frozenset())
    assert swept("b", "c") == (2, frozenset({"b"}))
    assert swept(answered=False) == (2, frozenset({"b"})), "a sweep that broke off changes nothing"
    assert swept() == (0, frozenset())
    assert swept("b") == (1, frozenset())
