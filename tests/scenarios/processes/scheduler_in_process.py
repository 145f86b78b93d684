"""The standalone scheduler composed in the test's own process: the real parts on a real API server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

from binder.model.view import PlanSettings
from binder.reservation.contract import Annotations
from kube.background import in_background
from kube.client.api import KubeApi
from kube.client.connect import connect
from kube.client.event_recorder import EventRecorder
from kube.client.transport import Transport
from kube.clock import SystemClock
from kube.leaderelection.leadership import Leadership
from kube.store.store import Store
from prebinder.metrics.scheduler import SchedulerInstruments
from prebinder.runtime.informers import Informers
from prebinder.scheduler.term import compose
from prebinder.scheduler.watches import Watches
from scheduler.framework.config import Configuration
from scheduler.plugins.registry import default_profile
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.standalone.cache import SchedulerCache
from scheduler.standalone.scheduler import Scheduler
from tests.scheduler.counted import CountedMetrics


@dataclass
class InProcessScheduler:
    """A scheduler that runs."""

    scheduler: Scheduler
    waiting: SchedulingQueue
    cluster: SchedulerCache
    configuration: "FixedConfiguration"
    metrics: CountedMetrics


@dataclass
class FixedConfiguration:
    """The configuration in force."""

    current: Configuration


@asynccontextmanager
async def running_scheduler(
    kubeconfig: Path,
    name: str,
    prefix: str,
    *,
    through: Callable[[Transport], Transport] = lambda transport: transport,
    volume_seconds: float = 600.0,
) -> AsyncIterator[InProcessScheduler]:
    """Run a scheduler for pods that name `name` while inside. `through` may intercept its requests."""
    clock, rng, metrics = SystemClock(), Random(1), CountedMetrics()
    async with await connect(str(kubeconfig)) as transport:
        api = KubeApi(through(transport), fence=Leadership.unelected(clock, name).fence)
        store = Store(prefix)
        watches = Watches(store, [name])
        instruments = SchedulerInstruments("lease", watches.collections, clock.now())
        cache = Informers(api, watches.collections, prefix, clock, rng, instruments.watches)
        recorder = EventRecorder(api, clock, instruments.events, controller=name, instance=name)
        planning = PlanSettings(annotations=Annotations(prefix))
        cluster = SchedulerCache(store, planning)
        configuration = FixedConfiguration(Configuration({name: default_profile(name)}))
        scheduler = compose(
            api,
            store=store,
            pods=watches.pods,
            cluster=cluster,
            configuration=configuration,
            planning=planning,
            bind_timeout=timedelta(seconds=volume_seconds),
            events=recorder,
            metrics=metrics,
            clock=clock,
        )
        async with in_background(cache.run()), in_background(recorder.run()):
            await cache.synced()
            running = asyncio.ensure_future(scheduler.run())
            yield InProcessScheduler(scheduler, scheduler.queue, cluster, configuration, metrics)
            scheduler.stop()
            await running
