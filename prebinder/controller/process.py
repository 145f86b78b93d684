"""The controller: builds every part, gives each its dependencies, starts them and stops them in order.

Read `Controller.__init__` as a table of contents. What the leader does is in `prebinder.controller.term`. If it watches
PersistentVolumes only, it publishes their health and does nothing else: that is the agent beside a CSI driver.
"""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Collection
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from random import Random
from typing import Final

from binder.matching.rejection import Reason
from binder.model.decision import Mode
from binder.reporting.tracing import UNTRACED, Tracing
from binder.reservation.contract import DEFAULT_PREFIX, Holder
from csi.drivers import Drivers
from csi.health.health import Debounce
from kube.client.connect import KubernetesTransport
from kube.client.dry_run import DryRun
from kube.client.event_recorder import EventRecorder
from kube.client.transport import Transport
from kube.clock import Clock, SystemClock
from kube.errors import KubeError
from kube.leaderelection.elector import new_identity
from kube.leaderelection.leadership import Leadership
from kube.objects.api_resource import NAMESPACES, RESOURCE_QUOTAS, STATEFUL_SETS, VOLUMES, WATCHED, Resource
from kube.objects.model import StorageClass
from kube.store.store import Store
from prebinder.config.settings import LogFormat, Settings
from prebinder.controller.driver_events import DriverEvents
from prebinder.controller.dry_run_report import DryRunReport, Pass
from prebinder.controller.logged_events import LoggedEvents
from prebinder.controller.sweeps import ClusterSweeps, all_job_names, sweep_jobs
from prebinder.controller.term import Term, compose
from prebinder.errors import CommandError, ExitCode
from prebinder.extender.part import ExtenderPart
from prebinder.metrics.collectors.cluster import ClusterState
from prebinder.metrics.instruments import Instruments
from prebinder.preflight.class_outlook import outlooks
from prebinder.runtime.clients import Clients, own_namespace
from prebinder.runtime.heartbeat import Heartbeat
from prebinder.runtime.informers import DRIFT_SECONDS, Informers, collections_in, settle_heap
from prebinder.runtime.jobs import Job, scheduled
from prebinder.runtime.leader_loop import Candidate, LeaderLoop
from prebinder.runtime.process import run_process
from prebinder.serving.health_server import Checks, serve_pages
from prebinder.tracing.requests import TracedTransport
from prebinder.tracing.start import tracing
from why.rendering.lines import write_line

COMPONENT: Final = "pvc-prebinder"
FLUSH_SECONDS: Final = 5.0

logger = logging.getLogger(__name__)


def run_controller(settings: Settings, component: str = COMPONENT, watched: Collection[Resource] = WATCHED) -> int:
    """Run until a signal stops it, or until a dry run with `once` ends; return the exit code.

    Raises CommandError if it cannot start. `component` names it in Events and logs.
    """

    def composed(transport: KubernetesTransport) -> Controller:
        traces = stack.enter_context(tracing(settings.tracing, component))
        controller = Controller(settings, transport, component, watched, tracing=traces)
        mode = settings.binding.mode.value
        logger.info("Starting", extra={"server": transport.server, "component": component, "mode": mode})
        if off := settings.feature_gates.off():
            logger.info("Feature gates are off", extra={"gate": ", ".join(off)})
        composed_for.append(controller)
        return controller

    composed_for: list[Controller] = []
    with ExitStack() as stack:
        return run_process(settings, composed) or composed_for[0].exit_code


class Controller:
    """All parts of one process. `run` it once."""

    def __init__(
        self,
        settings: Settings,
        transport: Transport,
        component: str = COMPONENT,
        watched: Collection[Resource] = WATCHED,
        clock: Clock | None = None,
        *,
        tracing: Tracing = UNTRACED,
    ) -> None:
        self._settings, self._tracing = settings, tracing
        self._clock = clock = clock or SystemClock()
        self._sees_cluster = set(watched) == set(WATCHED)
        if self._sees_cluster and settings.holds_volumes:
            watched = (*watched, STATEFUL_SETS, NAMESPACES, RESOURCE_QUOTAS)
        self.exit_code = ExitCode.FINE
        binding, lease, identity = settings.binding, settings.leader_election, new_identity()
        self._namespace = lease.namespace or own_namespace()
        rng = self._rng = Random()

        self._instruments = instruments = self._counted(watched)
        if binding.dry_run:
            lease = replace(lease, enabled=False)
        access = self._access = Clients(self._wrapped(transport), clock, settings.cluster, instruments.requests)
        self._store = Store(binding.annotation_prefix)
        self._store.classes.listeners.append(self._class_changed)
        self._extender = ExtenderPart(settings, self._store, self._waiting_for, clock, instruments.extender)
        kinds, prefix = collections_in(self._store, watched), binding.annotation_prefix
        self._cache = Informers(access.api(), kinds, prefix, clock, rng, instruments.watches)
        self._recorder = EventRecorder(
            access.api(),
            clock,
            instruments.events,
            controller=DEFAULT_PREFIX + component,
            instance=identity,
            busy=self._is_writing,
        )
        self._drivers = self._probed_drivers()
        self._sweeps = ClusterSweeps(settings, self._store, instruments.drivers, sees_pods=self._sees_cluster)
        competing = Candidate(identity, self._namespace, rng)
        self._elector = competing.elector(access, lease, instruments.leader, self._sweeps.on_lease)
        self._report = DryRunReport(self._recorder, clock, self._say) if binding.dry_run else None
        self._heartbeat = Heartbeat(clock)
        self._leader_loop: LeaderLoop[Term] = LeaderLoop(
            self._elector, Leadership.unelected(clock, identity), self._begin, self._cache.current
        )

    def _counted(self, watched: Collection[Resource]) -> Instruments:
        settings, jobs = self._settings, ("drift", *all_job_names(self._settings.health))
        return Instruments(
            settings.leader_election.name,
            jobs,
            watched,
            dry_run=settings.binding.dry_run,
            gates=settings.feature_gates,
        )

    def _wrapped(self, transport: Transport) -> Transport:
        if self._settings.binding.dry_run:
            transport = DryRun(transport)
        return transport if self._tracing is UNTRACED else TracedTransport(transport, self._tracing)

    def _probed_drivers(self) -> Drivers:
        """Return the drivers with an endpoint. A term subscribes to what they report while it runs."""
        health, metrics = self._settings.health, self._instruments.drivers
        debounce = Debounce(worse=health.unhealthy_after, better=health.healthy_after)
        events = DriverEvents(metrics, self._recorder, self._uid_of_driver, self._clock)
        drivers = Drivers(health.connections, self._clock, events, debounce=debounce)
        drivers.records.listeners.append(metrics.health_changed)
        metrics.expect_drivers(endpoint.driver for endpoint in health.endpoints)
        return drivers

    def _uid_of_driver(self, name: str) -> str:
        driver = self._store.csi_drivers.items.get(name)
        return driver.uid if driver is not None else ""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then finish what has begun, send the pending Events and release the Lease."""
        if self._settings.binding.once:
            await self._require_server()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._drivers.close)
            await self._serve(stack)
            await stack.enter_async_context(self._extender.serving())
            # A part that fails ends all of it: half a controller would look healthy.
            group = await stack.enter_async_context(asyncio.TaskGroup())
            parts = (self._heartbeat.run(), self._recorder.run(), self._cache.run())
            tasks = [group.create_task(part) for part in parts]
            if self._report is not None:
                tasks.append(group.create_task(self._first_pass(self._report, stop)))
            drift = Job(DRIFT_SECONDS, DRIFT_SECONDS / 10, self._cache.drift.check)
            sweeps = sweep_jobs(self._settings, self._drivers, self._sweeps, lambda: self._leader_loop.term is not None)
            with scheduled({"drift": drift, **sweeps}, self._instruments.jobs, self._clock):
                # The Lease is released meanwhile: the next leader need not wait until kube-scheduler has moved on.
                draining = group.create_task(self._drain(stop))
                await self._leader_loop.until(stop, self._synced)
                if stop.is_set():
                    await draining
                draining.cancel()
            await self._recorder.flush(FLUSH_SECONDS)
            for task in tasks:
                task.cancel()

    async def _require_server(self) -> None:
        """Raise CommandError if the API server cannot be read: a run that ends by itself does not wait until it can."""
        try:
            await self._access.api().list_page(VOLUMES, limit=1)
        except KubeError as error:
            raise CommandError(error.message) from error

    def _begin(self, leadership: Leadership) -> Term:
        return compose(
            self._settings,
            self._access.fenced(leadership),
            store=self._store,
            probes=self._drivers,
            known=self._drivers.records,
            events=LoggedEvents(self._recorder) if self._report is None else self._recorder,
            announcer=self._report,
            metrics=self._instruments,
            clock=self._clock,
            rng=self._rng,
            holder=Holder(leadership.holder, leadership.transition),
            namespace=self._namespace,
            publish_only=not self._sees_cluster,
            tracing=self._tracing,
            recovered=self._cache.recovered,
        )

    async def _synced(self) -> None:
        await self._cache.synced()
        # Pods come in bursts. An agent, of which there is one on each node, and a dry run commit none.
        if self._sees_cluster and not self._settings.binding.dry_run:
            await self._access.connect_ahead(self._settings.leader_election.name, self._namespace)
        settle_heap()
        logger.info(
            "Caches synced", extra={"volumes": len(self._store.volumes.items), "claims": len(self._store.claims.items)}
        )
        if self._settings.binding.dry_run:
            self._report_classes_left_alone()
        elif self._elector is None:
            self._instruments.leader.leading(True)

    async def _first_pass(self, report: DryRunReport, stop: asyncio.Event) -> None:
        """In a dry run, sum up the first pass; end with it if that is what the user wants."""

        def progress() -> Pass | None:
            term = self._leader_loop.term
            return None if term is None else term.progress()

        complete = await report.first_pass(progress)
        if self._settings.binding.once:
            self.exit_code = ExitCode.FINE if complete else ExitCode.PROBLEM_FOUND
            stop.set()

    def _say(self, line: str) -> None:
        if self._settings.logging.format is LogFormat.JSON:
            logger.info("Dry run", extra={"note": line})
        else:
            write_line(line)
            sys.stdout.flush()

    def _report_classes_left_alone(self) -> None:
        """In a dry run, report once for each class why nothing is reserved for its claims."""
        snapshot, annotations = self._store.snapshot(), self._settings.binding.annotations
        pools = Counter(report.storage_class for report in snapshot.capacities.values())
        made = self._settings.binding.dynamic_mode is Mode.PROVISION
        for outlook in outlooks(snapshot.classes.values(), snapshot.volumes.values(), annotations, pools):
            if outlook.left_alone is not None and not (made and outlook.left_alone is Reason.DYNAMIC_CLASS):
                about = {"storage_class": outlook.storage_class, "reason": outlook.left_alone, "note": outlook.meaning}
                logger.info("Claims of the class are not handled", extra=about)

    async def _serve(self, stack: AsyncExitStack) -> None:
        checks = Checks(
            {"event loop": self._heartbeat.problem, "lease": self._leader_loop.overdue},
            {"shutdown": self._leader_loop.stops, "caches": self._cache.waiting_for},
        )
        await serve_pages(stack, self._settings.served, checks, self._render)

    def _is_writing(self) -> bool:
        return self._leader_loop.term is not None and self._leader_loop.term.is_writing()

    def _waiting_for(self) -> str | None:
        return self._cache.waiting_for()

    async def _drain(self, stop: asyncio.Event) -> None:
        await stop.wait()
        await self._extender.drain()

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        binding, reservations = self._instruments.binding, self._instruments.reservations
        if new is not None:
            binding.expect_class(new.name, new.binding_mode or "")
            reservations.expect_class(new.name)
        elif old is not None:
            binding.forget_class(old.name)
            reservations.forget_class(old.name)

    async def _render(self) -> bytes:
        term = self._leader_loop.term
        state = ClusterState(
            leads=term is not None,
            snapshot=self._store.snapshot() if term is not None and self._sees_cluster else None,
            health=self._drivers.records.state,
            reasons=term.reasons() if term is not None else {},
            quarantine=term.quarantine() if term is not None else {},
            not_in_flight=term.not_in_flight() if term is not None else {},
            annotations=self._settings.binding.annotations,
            synced=self._cache.synced_kinds(),
            endpoints_up=self._drivers.endpoints_up() if term is not None else {},
            queues=term.queue_seconds() if term is not None else {},
            loop_lag=self._heartbeat.lag(),
        )
        return await self._instruments.render(state, self._clock.now())
