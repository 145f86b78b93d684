"""The controller: builds every part, hands each what it needs, starts them and stops them in order.

Read `Controller.__init__` as a table of contents. What the holder of the Lease does is in `prebinder.term`. Another
duty (`prebinder.duty`) makes another controller of it: the agent beside a CSI driver.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Final

from csi.drivers import Drivers
from csi.health import Debounce, HealthRecord
from kube.api import KubeApi
from kube.clock import Clock, SystemClock
from kube.connect import connect
from kube.elector import Elector, new_identity
from kube.errors import KubeconfigError
from kube.events import EventRecorder
from kube.leadership import Leadership
from kube.model import StorageClass
from kube.pacing import PacedTransport
from kube.store import Store
from kube.transport import Transport
from prebinder.cache import DRIFT_SECONDS, Cache, calm_collector, settle_heap
from prebinder.duty import CONTROLLER, Duty, Work
from prebinder.errors import CommandError
from prebinder.extender_part import ExtenderPart
from prebinder.health_server import HealthServer, metrics_page, probe_pages
from prebinder.heartbeat import STUCK_SECONDS, Heartbeat
from prebinder.jobs import Job, scheduled
from prebinder.logs import configure
from prebinder.metrics.instruments import Instruments
from prebinder.metrics.state import ClusterState
from prebinder.rehearsal import LoggedEvents, ReadOnlyTransport
from prebinder.settings import Settings, parse_address
from prebinder.signals import stop_requested
from prebinder.sweeps import all_job_names, sweep_jobs
from prebinder.term import Surroundings

FINISH_SECONDS: Final = 20.0
"""For what is in work when we are asked to stop; less than a pod's grace period of 30 s."""
FLUSH_SECONDS: Final = 5.0
NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

logger = logging.getLogger(__name__)


def run_controller(settings: Settings, duty: Duty = CONTROLLER) -> int:
    """Run until a signal stops it; return the exit code. Raises CommandError if it cannot start."""
    configure(settings.logging)
    calm_collector()
    try:
        return asyncio.run(_run(settings, duty))
    except KubeconfigError as error:
        raise CommandError(str(error)) from error


async def _run(settings: Settings, duty: Duty) -> int:
    transport = await connect(settings.cluster.kubeconfig, settings.cluster.context)
    async with transport:
        controller = Controller(settings, transport, duty)
        about = {"component": duty.component, "mode": settings.binding.mode.value}
        logger.info("Starting", extra={"server": transport.server, **about})
        with stop_requested() as stop:
            await controller.run(stop)
    logger.info("Stopped")
    return 0


class Controller:
    """All parts of one process. `run` it once."""

    def __init__(
        self, settings: Settings, transport: Transport, duty: Duty = CONTROLLER, clock: Clock | None = None
    ) -> None:
        self._settings, self._duty = settings, duty
        self._clock = clock = clock or SystemClock()
        self._identity = new_identity()
        binding, lease = settings.binding, settings.leader_election
        namespace = lease.namespace or _own_namespace()
        rng = Random()

        jobs = ("drift", *all_job_names(settings.health))
        self._instruments = instruments = Instruments(lease.name, jobs, duty.resources)
        transport = ReadOnlyTransport(transport) if binding.dry_run else transport
        self._store = Store(binding.annotation_prefix)
        self._store.classes.listeners.append(self._class_changed)
        self._extender = ExtenderPart(settings, self._store, self._not_ready, clock, instruments.extender)
        self._cache = Cache(
            self._api(transport),
            self._store,
            binding.annotation_prefix,
            clock,
            rng,
            instruments.watches,
            watched=duty.resources,
        )
        health = settings.health
        debounce = Debounce(worse=health.unhealthy_after, better=health.healthy_after)
        self._drivers = Drivers(health.connections, clock, instruments.drivers, debounce=debounce)
        self._drivers.records.listeners += [instruments.drivers.health_changed, self._health_changed]
        self._drivers.answering.append(self._driver_answers)
        instruments.drivers.expect_drivers(endpoint.driver for endpoint in health.endpoints)
        self._recorder = EventRecorder(
            self._api(transport),
            clock,
            instruments.events,
            controller=duty.component,
            instance=self._identity,
        )
        self._elector = Elector(
            # An api of its own: a renewal must not wait behind anything else.
            self._api(transport),
            namespace,
            lease.name,
            self._identity,
            clock=clock,
            rng=rng,
            observer=instruments.leader,
        )
        events = LoggedEvents(None if binding.dry_run else self._recorder)
        self._around = Surroundings(
            settings, transport, self._store, self._drivers, events, instruments, clock, rng, namespace
        )
        self._heartbeat = Heartbeat(clock)
        self._leadership: Leadership | None = None
        self._term: Work | None = None
        self._stopping = False

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then finish what has begun, send what was said and give the Lease back."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._drivers.close)
            await self._serve(stack)
            await stack.enter_async_context(self._extender.serving())
            # A part that fails ends all of it: half a controller looks healthy and is not.
            group = await stack.enter_async_context(asyncio.TaskGroup())
            parts = (self._heartbeat.run(), self._recorder.run(), self._cache.run())
            tasks = [group.create_task(part) for part in parts]
            drift = Job(DRIFT_SECONDS, DRIFT_SECONDS / 10, self._cache.drift.check)
            sweeps = sweep_jobs(
                self._settings, self._drivers, self._store, self._instruments.drivers, lambda: self._term is not None
            )
            with scheduled({"drift": drift, **sweeps}, self._instruments.jobs):
                await self._lead_until(stop)
            await self._recorder.flush(FLUSH_SECONDS)
            for task in tasks:
                task.cancel()

    async def _lead_until(self, stop: asyncio.Event) -> None:
        leading = asyncio.create_task(self._lead())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({leading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            self._stopping = True
            if self._term is not None and not leading.done():
                self._term.stop()
                await asyncio.wait({leading}, timeout=FINISH_SECONDS)
        finally:
            leading.cancel()
            stopping.cancel()
            await asyncio.gather(leading, stopping, return_exceptions=True)
        if not leading.cancelled():
            leading.result()

    async def _lead(self) -> None:
        await self._cache.synced()
        settle_heap()
        logger.info(
            "Synced", extra={"volumes": len(self._store.volumes.items), "claims": len(self._store.claims.items)}
        )
        if self._settings.binding.dry_run or not self._settings.leader_election.enabled:
            self._instruments.leader.leading(not self._settings.binding.dry_run)
            await self._work(Leadership.unelected(self._clock, self._identity))
        else:
            await self._elector.run(self._work)

    async def _work(self, leadership: Leadership) -> None:
        if self._stopping:
            return
        self._leadership, self._term = leadership, self._duty.term(self._around, leadership)
        try:
            await self._term.run()
        finally:
            self._leadership, self._term = None, None

    async def _serve(self, stack: AsyncExitStack) -> None:
        serving = self._settings.serving
        health, metrics = parse_address(serving.health_bind_address), parse_address(serving.metrics_bind_address)
        live = {"event loop": self._loop_problem, "lease": self._lease_problem}
        ready = {"shutdown": self._stops, "caches": self._cache.waiting_for}
        pages = [(health, page) for page in probe_pages(live, ready)]
        try:
            await stack.enter_async_context(HealthServer([*pages, (metrics, metrics_page(self._render))]))
        except OSError as error:
            raise CommandError(
                f"cannot serve metrics or probes: {error.strerror or error}; choose another address with "
                "--metrics-bind-address or --health-bind-address (0 serves none)"
            ) from error

    def _not_ready(self) -> str | None:
        return self._stops() or self._cache.waiting_for()

    def _stops(self) -> str | None:
        return "stopping" if self._stopping else None

    def _loop_problem(self) -> str | None:
        lag = self._heartbeat.lag()
        return f"{lag:.0f} s late" if lag > STUCK_SECONDS else None

    def _lease_problem(self) -> str | None:
        overdue = 0.0 if self._leadership is None else -self._leadership.left()
        return f"still working {overdue:.0f} s after its term" if overdue > STUCK_SECONDS else None

    def _class_changed(self, _old: StorageClass | None, new: StorageClass | None) -> None:
        if new is not None:
            self._instruments.binding.expect_class(new.name, new.binding_mode or "")
            self._instruments.reservations.expect_class(new.name)

    def _health_changed(self, driver: str, handle: str, old: HealthRecord | None, new: HealthRecord) -> None:
        if self._term is not None:
            self._term.health_changed(driver, handle, old, new)

    def _driver_answers(self, driver: str) -> None:
        if self._term is not None:
            self._term.driver_answers(driver)

    async def _render(self) -> bytes:
        term = self._term
        state = ClusterState(
            snapshot=self._store.snapshot() if term is not None and self._duty.sees_the_cluster else None,
            health=self._drivers.state,
            told=term.told() if term is not None else {},
            quarantine=term.quarantine() if term is not None else {},
            prefix=self._settings.binding.annotation_prefix,
            synced=self._cache.synced_kinds(),
            endpoints_up=self._drivers.endpoints_up(),
            queues=term.queue_seconds() if term is not None else {},
            loop_lag=self._heartbeat.lag(),
        )
        return await self._instruments.render(state, self._clock.now())

    def _api(self, transport: Transport) -> KubeApi:
        cluster = self._settings.cluster
        return KubeApi(
            PacedTransport(transport, self._clock, self._instruments.requests, qps=cluster.qps, burst=cluster.burst)
        )


def _own_namespace() -> str:
    """Return the pod's namespace; outside a cluster one that every cluster has."""
    return NAMESPACE_FILE.read_text().strip() if NAMESPACE_FILE.exists() else "kube-system"
