"""`pvc-prebinder scheduler`: the standalone scheduler as a process. Of several replicas only the leader is active.

Read `SchedulerProcess.__init__` as a table of contents. What the leader does is in `prebinder.scheduler.term`.
"""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

from binder.model.view import PlanSettings
from binder.reservation.contract import DEFAULT_PREFIX
from kube.client.connect import KubernetesTransport
from kube.client.event_recorder import EventRecorder, ObjectRef
from kube.client.transport import Transport
from kube.clock import Clock, SystemClock
from kube.leaderelection.elector import new_identity
from kube.leaderelection.leadership import Leadership
from kube.objects.api_resource import LEASES
from kube.store.store import Store
from prebinder.config.scheduler_settings import SchedulerSettings, lease_name
from prebinder.config.settings import parse_address
from prebinder.control.part import serving_control
from prebinder.control.token import default_token_file
from prebinder.metrics.collectors.scheduler import SchedulerState
from prebinder.metrics.scheduler import SchedulerInstruments
from prebinder.preflight.requirements import SCHEDULER
from prebinder.preflight.server_skew import kinds_to_do_without
from prebinder.runtime.clients import Clients, own_namespace
from prebinder.runtime.heartbeat import Heartbeat
from prebinder.runtime.informers import DRIFT_SECONDS, Informers, settle_heap
from prebinder.runtime.jobs import Job, scheduled
from prebinder.runtime.leader_loop import Candidate, LeaderLoop
from prebinder.runtime.process import run_process
from prebinder.scheduler.config_news import ConfigurationNews
from prebinder.scheduler.plugin_failures import PluginFailures
from prebinder.scheduler.profiles import configuration_for
from prebinder.scheduler.term import compose
from prebinder.scheduler.watches import Watches
from prebinder.serving.health_server import Checks, serve_pages
from scheduler.standalone.cache import SchedulerCache
from scheduler.standalone.config_watch import WatchedConfiguration
from scheduler.standalone.manual_binding import ManualBinding
from scheduler.standalone.scheduler import Scheduler

COMPONENT: Final = "pvc-prebinder-scheduler"
FLUSH_SECONDS: Final = 5.0

logger = logging.getLogger(__name__)


def run_scheduler(settings: SchedulerSettings) -> int:
    """Run until a signal stops it; return the exit code. Raises CommandError if it cannot start."""

    def composed(transport: KubernetesTransport) -> SchedulerProcess:
        process = SchedulerProcess(settings, transport, SystemClock())
        logger.info("Starting", extra={"server": transport.server, "schedulers": ",".join(process.names)})
        return process

    return run_process(settings, composed)


class SchedulerProcess:
    """All parts of one process. `run` it once. `names` are those of its schedulers."""

    def __init__(self, settings: SchedulerSettings, transport: Transport, clock: Clock) -> None:
        """Raises UsageError for a configuration that cannot be used."""
        self._settings, self._clock = settings, clock
        rng = self._rng = Random()
        identity = new_identity()
        namespace = settings.leader_election.namespace or own_namespace()
        prefix = settings.scheduling.annotation_prefix
        planning = self._planning = PlanSettings(annotations=settings.scheduling.annotations)
        failures = PluginFailures()
        self._configuration = configuration_for(settings.scheduling, failures)
        self.names = tuple(self._configuration.current.profiles)
        lease = replace(settings.leader_election, name=lease_name(settings.leader_election, self.names))

        self._store = Store(prefix)
        self._cluster = SchedulerCache(self._store, planning)
        watches = self._watches = Watches(self._store, self.names)
        self._instruments = instruments = SchedulerInstruments(
            lease.name, watches.collections, clock.now(), gates=settings.feature_gates
        )
        instruments.attempts.expect_profiles(self.names)
        failures.counted.append(instruments.attempts.plugin_failed)
        access = self._access = Clients(transport, clock, settings.cluster, instruments.requests)
        self._recorder = EventRecorder(
            access.api(), clock, instruments.events, controller=DEFAULT_PREFIX + COMPONENT, instance=identity
        )
        about = ObjectRef(LEASES.api_version, LEASES.kind, lease.name, namespace)
        news = ConfigurationNews(instruments.configuration, self._recorder, about, clock, self._rules_changed)
        self._configuration.changed.append(news.configuration_changed)
        self._cache = Informers(access.api(), watches.collections, prefix, clock, rng, instruments.watches)
        self._elector = Candidate(identity, namespace, rng).elector(access, lease, instruments.leader)
        self._heartbeat = Heartbeat(clock)
        self._suited = asyncio.Event()
        self._leader_loop: LeaderLoop[Scheduler] = LeaderLoop(
            self._elector, Leadership.unelected(clock, identity), self._begin, self._cache.current
        )
        self._manual: ManualBinding | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until `stop` is set; then finish what has begun, send the pending Events and release the Lease."""
        async with AsyncExitStack() as stack:
            checks = Checks(
                {"event loop": self._heartbeat.problem, "lease": self._leader_loop.overdue},
                {"shutdown": self._leader_loop.stops, "caches": self._cache.waiting_for},
            )
            await serve_pages(stack, self._settings.serving, checks, self._render)
            await stack.enter_async_context(self._serving_control())
            group = await stack.enter_async_context(asyncio.TaskGroup())
            parts = [self._heartbeat.run(), self._recorder.run(), self._follow_cluster()]
            if isinstance(self._configuration, WatchedConfiguration):
                parts.append(self._configuration.follow(self._clock))
            tasks = [group.create_task(part) for part in parts]
            drift = Job(DRIFT_SECONDS, DRIFT_SECONDS / 10, self._cache.drift.check)
            with scheduled({"drift": drift}, self._instruments.jobs, self._clock):
                await self._leader_loop.until(stop, self._synced)
            await self._recorder.flush(FLUSH_SECONDS)
            for task in tasks:
                task.cancel()

    def _begin(self, leadership: Leadership) -> Scheduler:
        scheduler = compose(
            self._access.fenced(leadership),
            store=self._store,
            pods=self._watches.pods,
            cluster=self._cluster,
            configuration=self._configuration,
            planning=self._planning,
            bind_timeout=self._settings.scheduling.bind_timeout,
            events=self._recorder,
            metrics=self._instruments.attempts,
            clock=self._clock,
        )
        self._manual = ManualBinding(scheduler)
        return scheduler

    async def _render(self) -> bytes:
        term = self._leader_loop.term
        state = SchedulerState(
            synced=self._cache.synced_kinds(),
            loop_lag=self._heartbeat.lag(),
            queues=term.queue.sizes() if term is not None else {},
            # Only the leader reports on nodes, otherwise sums over replicas would double.
            nodes=(await self._cluster.current(self._clock)).nodes if term is not None else (),
        )
        return await self._instruments.render(state)

    def _serving_control(self) -> AbstractAsyncContextManager[int]:
        control = self._settings.control
        return serving_control(
            parse_address(control.bind_address),
            Path(control.token_file) if control.token_file else default_token_file(),
            lambda: self._manual if self._leader_loop.term is not None else None,
            self._configuration,
            self._clock,
        )

    def _rules_changed(self) -> None:
        if self._leader_loop.term is not None:
            self._leader_loop.term.rules_changed()

    async def _follow_cluster(self) -> None:
        for kind in await kinds_to_do_without(self._access.transport, SCHEDULER, self._clock, self._rng):
            self._cache.do_without(kind)
        self._suited.set()
        await self._cache.run()

    async def _synced(self) -> None:
        await self._suited.wait()
        await self._cache.synced()
        settle_heap()
        logger.info("Caches synced", extra={"nodes": len(self._store.nodes.items), "pods": len(self._store.pods.items)})
        if self._elector is None:
            self._instruments.leader.leading(True)
