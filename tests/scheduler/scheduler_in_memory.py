"""The standalone scheduler with everything around it in memory: a store, waiting pods, plugins that do as told."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from binder.matching.rejection import Rejection
from binder.model.view import PlanSettings
from binder.reservation.contract import Annotations
from kube.background import Aside
from kube.client.api import KubeApi
from kube.client.event_recorder import EventDraft
from kube.client.transport import Request, Response, StreamResponse
from kube.errors import KubeError, NotFound
from kube.objects.model import Node, Pod
from kube.store.collection import Collection
from kube.store.store import Store
from scheduler.binding.binding_cycle import BindingPlugins
from scheduler.binding.reserve_volumes import ReserveVolumes
from scheduler.binding.still_fits import StillFits
from scheduler.framework.config import Configuration
from scheduler.framework.plugin import ReservePlugin, ScheduleResult
from scheduler.plugins.registry import default_profile
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.preemption import Preemption
from scheduler.standalone.cache import SchedulerCache
from scheduler.standalone.pod_status import SchedulingStatus
from scheduler.standalone.post_filter import EvictsPods
from scheduler.standalone.scheduler import Scheduler
from tests import builders
from tests.fake_clock import FakeClock, settle
from tests.fakes.aside import at_once
from tests.fakes.kube_api import Object
from tests.fakes.objects import pod_object
from tests.scheduler.counted import CountedMetrics

NAME = "ours"


@dataclass
class Binder:
    """The Bind plugin. `nodes` has where pods went; `answers` come first; `held`, if there, keeps pods under way."""

    shown: Callable[[ScheduleResult], None]
    name: str = "Binder"
    answers: list[Rejection | Exception] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)
    held: asyncio.Event | None = None
    under_way: int = 0
    most_under_way: int = 0
    bound: Callable[[ScheduleResult], Rejection | None] = lambda _: None

    async def bind(self, placement: ScheduleResult) -> Rejection | None:
        self.order.append(placement.pod.name)
        self.under_way += 1
        self.most_under_way = max(self.under_way, self.most_under_way)
        try:
            await (self.held.wait() if self.held is not None else asyncio.sleep(0))
        finally:
            self.under_way -= 1
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        rejected = self.bound(placement)
        if rejected is None:
            self.nodes[placement.pod.name] = placement.node
            self.shown(placement)
        return rejected


@dataclass
class Volumes:
    """The PreBind plugin: pods with claims wait until `ready`, and what was rolled back is noted."""

    name: str = "Volumes"
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    answer: Rejection | Exception | None = None
    rolled_back: list[str] = field(default_factory=list)

    def has_work(self, placement: ScheduleResult) -> bool:
        return bool(placement.pod.claims)

    async def pre_bind(self, placement: ScheduleResult) -> Rejection | None:
        if self.has_work(placement):
            await self.ready.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def roll_back(self, placement: ScheduleResult) -> None:
        self.rolled_back.append(placement.pod.name)


@dataclass
class Status:
    """The statuses queued for pods, each once."""

    queued: list[tuple[str, SchedulingStatus]] = field(default_factory=list)
    last: dict[str, SchedulingStatus] = field(default_factory=dict)
    nominated: list[tuple[str, str]] = field(default_factory=list)

    def queue(self, pod: Pod, status: SchedulingStatus) -> bool:
        news = self.last.get(pod.key) != status
        self.last[pod.key] = status
        self.queued += [(pod.name, status)] if news else []
        return news

    def forget(self, pod_key: str) -> None:
        self.last.pop(pod_key, None)

    def nominate(self, pod: Pod, node: str) -> None:
        self.nominated.append((pod.name, node))

    async def run(self) -> None:
        await asyncio.Event().wait()


@dataclass
class Events:
    """What was published."""

    drafts: list[EventDraft] = field(default_factory=list)

    def publish(self, draft: EventDraft) -> None:
        self.drafts.append(draft)


class Server:
    """The API server, where pods are read one by one. `failures` come first; `reads` counts the requests."""

    def __init__(self) -> None:
        self.pods: dict[str, Object] = {}
        self.failures: list[KubeError] = []
        self.reads: Counter[str] = Counter()
        self.truth: Callable[[str], Pod | None] | None = None

    def assign(self, pod: Pod, node: str) -> None:
        self.pods[pod.key] = _document(replace(pod, node_name=node, resource_version=pod.resource_version + 1))

    async def send(self, request: Request) -> Response:
        path = re.fullmatch(r"/api/v1/namespaces/(.+)/pods/(.+)", request.path)
        assert path is not None
        self.reads[path[2]] += 1
        if self.failures:
            raise self.failures.pop(0)
        key = f"{path[1]}/{path[2]}"
        if self.truth is None:
            stored = self.pods.get(key)
        else:
            there = self.truth(key)
            stored = None if there is None else _document(there)
        if stored is None:
            raise NotFound("GET", path[2], 404, "NotFound", "no such pod")
        return Response(200, msgspec.json.encode(stored))

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError


def _document(pod: Pod) -> Object:
    document = pod_object(pod.name, [], node=pod.node_name)
    document["metadata"] |= {"uid": pod.uid, "resourceVersion": str(pod.resource_version)}
    document["spec"]["priority"] = pod.priority
    document["spec"]["containers"][0]["resources"] = {"requests": {name: f"{n}n" for name, n in pod.requests}}
    return document


class Evictions:
    """Notes who was to be evicted; it is rejected unless `accepts`."""

    def __init__(self) -> None:
        self.accepts = False
        self.evicted: list[str] = []

    def going(self) -> frozenset[str]:
        return frozenset()

    async def evict(self, preemption: Preemption, preemptor: Pod, budgets: Budgets) -> str:
        if preemption.victims and not self.accepts:
            return "nobody is evicted here"
        self.evicted += [victim.name for victim in preemption.victims]
        return ""


@dataclass
class Fixed:
    current: Configuration


class Desk:
    """A cluster of these nodes, and the scheduler for it. Assigned pods are shown at once unless `shows` is False."""

    def __init__(
        self,
        *nodes: Node,
        reserves: tuple[ReservePlugin, ...] = (ReserveVolumes(),),
        status: Status | None = None,
        evictor: EvictsPods | None = None,
        aside: Aside = at_once,
    ) -> None:
        self.clock, self.store, self.pods = FakeClock(), Store(), Collection[Pod]()
        self.shows, self.evictions = True, Evictions()
        self.binder, self.volumes = Binder(self._show), Volumes()
        self.status, self.metrics, self.events = status or Status(), CountedMetrics(), Events()
        self.cluster, self.server = SchedulerCache(self.store, PlanSettings()), Server()
        self.store.nodes.replace(nodes, "1")
        profile = default_profile(NAME)
        self.configuration = Fixed(Configuration({NAME: profile}))
        self.scheduler = Scheduler(
            api=KubeApi(self.server),
            store=self.store,
            pods=self.pods,
            cluster=self.cluster,
            configuration=self.configuration,
            plugins=BindingPlugins(reserves, (self.volumes,), (StillFits(self.cluster, self.clock), self.binder)),
            evictor=evictor or self.evictions,
            status=self.status,
            events=self.events,
            metrics=self.metrics,
            clock=self.clock,
            annotations=Annotations(),
            aside=aside,
        )
        self.waiting, self.room = self.scheduler.queue, self.scheduler.post_filter
        self.decider = self.scheduler.schedule_one.decider

    def add(self, *pods: Pod) -> None:
        for pod in pods:
            self.pods.upsert(pod)

    def notes(self, reason: str) -> list[str]:
        return [draft.note for draft in self.events.drafts if draft.reason == reason]

    def _show(self, placement: ScheduleResult) -> None:
        self.server.assign(placement.pod, placement.node)
        if self.shows:
            self.pods.delete(placement.pod.key)
            self.store.pods.upsert(assigned(placement))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Future[None]]:
        task = asyncio.ensure_future(self.scheduler.run())
        await settle()
        yield task
        self.scheduler.stop()
        await asyncio.gather(task, return_exceptions=True)


def assigned(placement: ScheduleResult) -> Pod:
    pod = placement.pod
    return builders.pod(
        pod.name,
        node=placement.node,
        resource_version=pod.resource_version + 1,
        scheduler_name=NAME,
        requests={"cpu": "6"} if pod.requests else {},
    )


def pod(name: str, cpu: str = "", **how: object) -> Pod:
    """A pod of ours; `cpu` as text."""
    return builders.pod(name, scheduler_name=NAME, requests={"cpu": cpu} if cpu else {}, **how)  # type: ignore[arg-type]
