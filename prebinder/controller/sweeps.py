"""The sweeps over the volumes of every configured driver, as jobs of the controller."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from binder.health.health_order import health_order, in_use
from binder.health.published_sweeps import sweeps_annotation, unpublished_exceptions
from csi.drivers import Drivers
from csi.health.complete_sweep import SweepReport, report_of
from kube.store.store import Store
from prebinder.config.settings import HealthSettings, Settings
from prebinder.runtime.jobs import Job

if TYPE_CHECKING:
    from csi.sweep import SweepObserver, SweepProgress

RECHECK_SECONDS: Final = 5.0
"""How often a driver that did not respond is probed again."""
JITTER: Final = 0.1
"""Share of the interval by which a sweep may begin early; none begins later than the interval after the last."""


class ClusterSweeps:
    """Both ports of csi.sweep: names the volumes, and keeps the report of each driver's last complete sweep."""

    def __init__(self, settings: Settings, store: Store, observer: "SweepObserver", *, sees_pods: bool = True) -> None:
        """`observer` is notified of everything too."""
        self._store, self._observer, self._sees_pods = store, observer, sees_pods
        self._annotations, self._interval = settings.binding.annotations, settings.health.sweep_interval
        self._versions: dict[str, int] = {}
        self._reports: dict[str, SweepReport] = {}
        self._lost: dict[str, frozenset[str]] = {}

    async def handles(self, driver: str) -> list[str]:
        """Return the handles of the driver's volumes, those first about which a decision may be near."""
        self._versions[driver] = self._store.volumes.version
        # Iterating over a hundred thousand volumes takes a while, and a snapshot can be read in any thread.
        return await asyncio.to_thread(health_order, self._store.snapshot(), driver, self._annotations)

    async def in_use(self, driver: str) -> Sequence[Collection[str]]:
        """Return the handles of volumes that pods wait for, then of those that running pods use."""
        work = partial(in_use, self._store.snapshot(), driver, self._annotations, sees_pods=self._sees_pods)
        return await asyncio.to_thread(work)

    def swept(self, progress: "SweepProgress") -> None:
        self._observer.swept(progress)
        sweep = progress.complete
        if sweep is not None:
            exceptions = unpublished_exceptions(sweep, self._store.volumes.items.values(), self._annotations)
            before, self._lost[sweep.driver] = self._lost.get(sweep.driver, frozenset()), sweep.lost
            self._reports[sweep.driver] = report_of(
                sweep, self._interval, self._versions.get(sweep.driver, 0), exceptions, before
            )

    def listed(self, driver: str, method: str, code: str, seconds: float) -> None:
        self._observer.listed(driver, method, code, seconds)

    def on_lease(self) -> Mapping[str, str]:
        """Return the annotations for our Lease."""
        return sweeps_annotation(self._reports, self._annotations)


def sweep_jobs(
    settings: Settings, drivers: Drivers, cluster: ClusterSweeps, leads: Callable[[], bool]
) -> Mapping[str, Job]:
    """Return three jobs for each driver: the sweep at every interval, one that sweeps at once when it is due, and one
    that probes volumes in use more often.

    Only the leader sweeps: others would double the load for nothing.
    """
    if not settings.health.endpoints:
        return {}
    from csi.sweep import IN_USE_TICK  # noqa: PLC0415 - loads gRPC: only where there is a driver to probe
    from csi.volume_probes import Pace  # noqa: PLC0415 - as above

    health = settings.health
    interval = health.sweep_interval.total_seconds()
    pace = Pace(health.sweep_rate, interval=interval, in_use_interval=health.in_use_interval.total_seconds())
    jobs: dict[str, Job] = {}
    for endpoint in health.endpoints:
        sweep = drivers.sweep(endpoint.driver, cluster, pace, cluster)
        at_interval, if_due, often = job_names(endpoint.driver)
        # A second run waits for the first: a sweep that lasts longer than the interval is followed by the next at once.
        jobs[at_interval] = Job(interval * (1 - JITTER), interval * JITTER, _led(sweep.run, leads), at_once=2)
        # A check that finds the sweep running returns at once, so running it beside a long one is no overlap.
        jobs[if_due] = Job(RECHECK_SECONDS, RECHECK_SECONDS / 10, _led(sweep.run_if_due, leads), at_once=2)
        # A call that is not due, or finds another one working, returns at once.
        jobs[often] = Job(IN_USE_TICK, 0.0, _led(sweep.run_in_use, leads), at_once=2)
    return jobs


def job_names(driver: str) -> tuple[str, str, str]:
    """Return the names of a driver's three jobs."""
    return f"sweep {driver}", f"recheck {driver}", f"in use {driver}"


def all_job_names(health: HealthSettings) -> tuple[str, ...]:
    """Return the names of all jobs that `sweep_jobs` makes."""
    return tuple(name for endpoint in health.endpoints for name in job_names(endpoint.driver))


def _led(run: Callable[[], Awaitable[None]], leads: Callable[[], bool]) -> Callable[[], Awaitable[None]]:
    async def run_if_leading() -> None:
        if leads():
            await run()

    return run_if_leading
