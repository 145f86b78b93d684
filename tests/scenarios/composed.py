"""The standalone scheduler composed in the test's own process: the real parts on a real API server."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from binder.matching.rejection import Reason
from binder.model.view import PlanSettings
from binder.reservation.contract import Annotations
from binder.writers.object_client import LiveObjects
from kube.client.api import KubeApi
from kube.client.connect import connect
from kube.client.event_recorder import EventRecorder
from kube.client.reflector import Reflector
from kube.client.transport import Transport
from kube.clock import SystemClock
from kube.decoding.decode import decoders
from kube.leaderelection.leadership import FencedTransport, Leadership
from kube.objects.api_resource import DISRUPTION_BUDGETS, PODS, WATCHED, Resource
from kube.objects.model import Pod
from kube.store.collection import Collection
from kube.store.store import Store
from prebinder.metrics.instruments import Instruments
from scheduler.binding.bind_volumes import BindVolumes
from scheduler.binding.binding_cycle import BindingPlugins
from scheduler.binding.default_binder import BindPod
from scheduler.binding.reserve_volumes import PromiseVolumes
from scheduler.cycle.memoized_cycle import Decider
from scheduler.framework.config import Configuration
from scheduler.plugins.registry import default_profile
from scheduler.queue.requeue import Changes
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.standalone.assignment_check import AssignmentCheck
from scheduler.standalone.cache import SchedulerCache
from scheduler.standalone.evict import Evictor
from scheduler.standalone.pod_status import PodStatus
from scheduler.standalone.post_filter import PostFilter
from scheduler.standalone.scheduler import Parts, Scheduler

ASSIGNED = PODS.selected("assigned", "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")


@dataclass
class Counted:
    """The metrics of a scheduler."""

    failures: Counter[Reason] = field(default_factory=Counter)
    bound: int = 0
    victims: list[int] = field(default_factory=list)

    def decided(self, profile: str, seconds: float) -> None: ...

    def preempted(self, victims: int) -> None:
        self.victims.append(victims)

    def scheduled(self, profile: str, zone: str, waited: float, binding: float) -> None:
        self.bound += 1

    def failed(self, profile: str, reason: Reason, *, error: bool) -> None:
        self.failures[reason] += 1


@dataclass
class Composed:
    """A scheduler that runs."""

    scheduler: Scheduler
    waiting: SchedulingQueue
    cluster: SchedulerCache
    configuration: "Fixed"
    metrics: Counted


@dataclass
class Fixed:
    """The configuration in force."""

    current: Configuration


@asynccontextmanager
async def composed(
    kubeconfig: Path,
    name: str,
    prefix: str,
    *,
    through: Callable[[Transport], Transport] = lambda transport: transport,
    volume_seconds: float = 600.0,
) -> AsyncIterator[Composed]:
    """Run a scheduler for pods that name `name` while inside. `through` may stand in the way of its requests."""
    clock, rng, metrics = SystemClock(), Random(1), Counted()
    instruments = Instruments("lease", ())
    async with await connect(str(kubeconfig)) as transport:
        leadership = Leadership.unelected(clock, name)
        api = KubeApi(FencedTransport(through(transport), leadership))
        store, pods = Store(prefix), Collection[Pod]()
        cluster = SchedulerCache(store, settings := PlanSettings(annotations=Annotations(prefix)))
        waiting = SchedulingQueue(default_profile(name).queue_sort.key)
        live = LiveObjects(api, store, settings.annotations)
        bind_volumes = BindVolumes(live, store, pods, clock, settings, timedelta(seconds=volume_seconds))
        recorder = EventRecorder(api, clock, instruments.events, controller=name, instance=name)
        configuration = Fixed(Configuration({name: default_profile(name)}))
        status = PodStatus(api, clock)
        parts = Parts(
            pods=pods,
            waiting=waiting,
            cluster=cluster,
            assignments=AssignmentCheck(api, store.pods, cluster, clock),
            decider=Decider(),
            room=PostFilter(store.budgets, Evictor(api, recorder, clock), status),
            configuration=configuration,
            plugins=BindingPlugins((PromiseVolumes(),), (bind_volumes,), (BindPod(api),)),
            status=status,
            events=recorder,
            metrics=metrics,
            clock=clock,
        )
        scheduler = Scheduler(parts)
        reflectors: list[Reflector[Any]] = []
        for resource, sink in _collections(store, pods, name):
            decode = decoders(prefix)[resource.kind]
            reflectors.append(Reflector(api, resource, decode, sink, clock=clock, observer=_Silent(), rng=rng))
        around = [asyncio.ensure_future(one.run()) for one in reflectors]
        around.append(asyncio.ensure_future(recorder.run()))
        try:
            await asyncio.gather(*(one.synced.wait() for one in reflectors))
            with Changes(store, scheduler.changed, settings.annotations).following():
                running = asyncio.ensure_future(scheduler.run())
                yield Composed(scheduler, waiting, cluster, configuration, metrics)
                scheduler.stop()
                await running
        finally:
            for task in around:
                task.cancel()
            await asyncio.gather(*around, return_exceptions=True)


def _collections(store: Store, pods: Collection[Pod], name: str) -> list[tuple[Resource, Collection[Any]]]:
    waiting = PODS.selected("waiting", f"spec.schedulerName={name},spec.nodeName=")
    others: dict[str, Collection[Any]] = {
        "PersistentVolumeClaim": store.claims,
        "PersistentVolume": store.volumes,
        "StorageClass": store.classes,
        "Node": store.nodes,
        "CSINode": store.csi_nodes,
        "CSIDriver": store.csi_drivers,
        "CSIStorageCapacity": store.capacities,
        "VolumeAttachment": store.attachments,
        "PodDisruptionBudget": store.budgets,
    }
    found = [(resource, others[resource.kind]) for resource in (*WATCHED, DISRUPTION_BUDGETS) if resource is not PODS]
    return [*found, (ASSIGNED, store.pods), (waiting, pods)]


class _Silent:
    """Nobody counts what the watches do."""

    def watch_restarted(self, resource: str, cause: str) -> None: ...

    def event_seen(self, resource: str, now: object) -> None: ...

    def malformed(self, resource: str) -> None: ...
