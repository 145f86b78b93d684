"""The sweeps over the volumes of every configured driver, as jobs of the controller."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from binder.health.health_order import health_order
from binder.reservation.contract import Annotations
from csi.drivers import Drivers
from kube.store.store import Store
from prebinder.config.settings import HealthSettings, Settings
from prebinder.runtime.jobs import Job

if TYPE_CHECKING:
    from csi.sweep import SweepObserver

RECHECK_SECONDS: Final = 5.0
"""How often a driver that did not answer is asked whether it does again."""
JITTER: Final = 0.1
"""Share of the interval by which a sweep may begin early; none begins later than the interval after the last."""


class ClusterOrder:
    """Port of csi.sweep: the volumes of the cluster, those first about which a decision may be near."""

    def __init__(self, store: Store, annotations: Annotations) -> None:
        self._store, self._annotations = store, annotations

    async def handles(self, driver: str) -> list[str]:
        # A hundred thousand volumes take a while to go through, and a snapshot can be read anywhere.
        return await asyncio.to_thread(health_order, self._store.snapshot(), driver, self._annotations)


def sweep_jobs(
    settings: Settings, drivers: Drivers, store: Store, observer: "SweepObserver", leads: Callable[[], bool]
) -> Mapping[str, Job]:
    """Return two jobs for each driver: the sweep at every interval, and one that sweeps at once when it is due.

    Only the leader sweeps: others would double the load and decide nothing.
    """
    if not settings.health.endpoints:
        return {}
    from csi.sweep import Pace  # noqa: PLC0415 - loads gRPC: only where there is a driver to probe

    health, order = settings.health, ClusterOrder(store, settings.binding.annotations)
    interval = health.sweep_interval.total_seconds()
    jobs: dict[str, Job] = {}
    for endpoint in health.endpoints:
        sweep = drivers.sweep(endpoint.driver, order, Pace(health.sweep_rate), observer)
        at_interval, if_due = job_names(endpoint.driver)
        # A second run waits for the first: a sweep that lasts longer than the interval is followed by the next at once.
        jobs[at_interval] = Job(interval * (1 - JITTER), interval * JITTER, _led(sweep.run, leads), at_once=2)
        # A look that finds the sweep running returns at once, so a second one beside a long one is no overlap.
        jobs[if_due] = Job(RECHECK_SECONDS, RECHECK_SECONDS / 10, _led(sweep.run_if_due, leads), at_once=2)
    return jobs


def job_names(driver: str) -> tuple[str, str]:
    """Return the names of a driver's two jobs."""
    return f"sweep {driver}", f"recheck {driver}"


def all_job_names(health: HealthSettings) -> tuple[str, ...]:
    """Return the names of all jobs that `sweep_jobs` makes."""
    return tuple(name for endpoint in health.endpoints for name in job_names(endpoint.driver))


def _led(run: Callable[[], Awaitable[None]], leads: Callable[[], bool]) -> Callable[[], Awaitable[None]]:
    async def run_if_leading() -> None:
        if leads():
            await run()

    return run_if_leading
