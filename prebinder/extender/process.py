"""`pvc-prebinder extender`: the extender as a process of its own, which reads the cluster and writes nothing."""

import asyncio
import logging
from contextlib import AsyncExitStack
from random import Random

from kube.client.connect import KubernetesTransport
from kube.client.dry_run import DryRun
from kube.client.transport import Transport
from kube.clock import Clock, SystemClock
from kube.store.store import Store
from prebinder.config.settings import Settings
from prebinder.extender.part import ExtenderPart
from prebinder.metrics.extender import ExtenderInstruments
from prebinder.runtime.clients import Clients
from prebinder.runtime.heartbeat import Heartbeat
from prebinder.runtime.informers import DRIFT_SECONDS, Informers, collections_in, settle_heap
from prebinder.runtime.jobs import Job, scheduled
from prebinder.runtime.process import run_process
from prebinder.serving.health_server import Checks, serve_pages
from scheduler.extender.extender import KINDS

logger = logging.getLogger(__name__)


def run_extender(settings: Settings) -> int:
    """Run until a signal stops it; return the exit code. Raises CommandError if it cannot start."""

    def composed(transport: KubernetesTransport) -> ExtenderProcess:
        process = ExtenderProcess(settings, transport, SystemClock())
        logger.info("Starting", extra={"server": transport.server, "address": settings.extender.bind_address})
        return process

    return run_process(settings, composed)


class ExtenderProcess:
    """All parts of one process. `run` it once."""

    def __init__(self, settings: Settings, transport: Transport, clock: Clock) -> None:
        self._serving = settings.serving
        self._instruments = instruments = ExtenderInstruments(KINDS)
        self._store = Store(settings.binding.annotation_prefix)
        self._extender = ExtenderPart(settings, self._store, self._waiting_for, clock, instruments.extender)
        access = Clients(DryRun(transport), clock, settings.cluster, instruments.requests)
        self._cache = Informers(
            access.api(),
            collections_in(self._store, KINDS),
            settings.binding.annotation_prefix,
            clock,
            Random(),
            instruments.watches,
        )
        self._clock = clock
        self._heartbeat = Heartbeat(clock)
        self._stopping = False

    async def run(self, stop: asyncio.Event) -> None:
        """Answer until `stop` is set, and then until the endpoints no longer include this replica."""
        async with AsyncExitStack() as stack:
            ready = {"shutdown": self._stops, "caches": self._waiting_for}
            checks = Checks({"event loop": self._heartbeat.problem}, ready)
            await serve_pages(stack, self._serving, checks, self._instruments.render)
            await stack.enter_async_context(self._extender.serving())
            group = await stack.enter_async_context(asyncio.TaskGroup())
            parts = (self._heartbeat.run(), self._cache.run(), self._settle())
            tasks = [group.create_task(part) for part in parts]
            drift = Job(DRIFT_SECONDS, DRIFT_SECONDS / 10, self._cache.drift.check)
            with scheduled({"drift": drift}, self._instruments.jobs, self._clock):
                await stop.wait()
                self._stopping = True
                await self._extender.drain()
            for task in tasks:
                task.cancel()

    async def _settle(self) -> None:
        await self._cache.synced()
        settle_heap()
        logger.info(
            "Caches synced", extra={"volumes": len(self._store.volumes.items), "nodes": len(self._store.nodes.items)}
        )

    def _stops(self) -> str | None:
        return "stopping" if self._stopping else None

    def _waiting_for(self) -> str | None:
        return self._cache.waiting_for()
