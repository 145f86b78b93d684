"""The scheduler as it ships loses the Lease at each of its writes: none follows, and the term ends."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

import pytest

from binder.model.view import PlanSettings
from kube.client.api import KubeApi
from kube.errors import LeadershipLost
from kube.leaderelection.leadership import Leadership
from kube.objects.model import Pod
from kube.store.collection import Collection
from kube.store.store import Store
from prebinder.scheduler.term import compose
from scheduler.framework.config import Configuration
from scheduler.plugins.registry import default_profile
from scheduler.standalone.cache import SchedulerCache
from tests.fake_clock import FakeClock
from tests.fakes.aside import at_once
from tests.fakes.kube_api import Connection, FakeKubeApi
from tests.fakes.lease_ends import LeaseEnds
from tests.fakes.objects import claim_object, class_object, node_object, pod_object, volume_object
from tests.scheduler.counted import CountedMetrics
from tests.scheduler.scheduler_in_memory import Events, Fixed

NAME: Final = "ours"
LONG: Final = 30.0
Object = dict[str, Any]


def waiting(name: str, *claims: str, priority: int = 0, cpu: str = "1") -> Object:
    pod = pod_object(name, list(claims))
    pod["spec"] |= {"schedulerName": NAME, "priority": priority}
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return pod


def placed(name: str) -> Object:
    pod = waiting(name, cpu="3")
    pod["spec"]["nodeName"] = "node-1"
    return pod


def volumes() -> list[Object]:
    pairs = [part for n in (1, 2, 3) for part in (volume_object(f"pv-{n}", zone="a"), claim_object(f"data-{n}"))]
    return [*pairs, waiting("web", "data-1", "data-2", "data-3")]


def bindings() -> list[Object]:
    return [waiting(f"web-{number}") for number in (1, 2, 3)]


def conditions() -> list[Object]:
    return [waiting(f"web-{number}", cpu="99") for number in (1, 2, 3)]


def evictions() -> list[Object]:
    return [placed("low-1"), placed("low-2"), waiting("high", priority=10, cpu="8")]


STORIES: Final[Mapping[str, Callable[[], list[Object]]]] = {
    "volumes": volumes,
    "bindings": bindings,
    "conditions": conditions,
    "evictions": evictions,
}


class World:
    """A node with 8 cores, and the scheduler on an API server in memory."""

    def __init__(self, objects: list[Object]) -> None:
        self.clock, self.server, self.store = FakeClock(), FakeKubeApi(), Store()
        node = node_object("node-1", "a")
        node["status"]["allocatable"] = {"cpu": "8", "memory": "8Gi", "pods": "110"}
        pods: Collection[Pod] = Collection()
        for document in [class_object(), node, *objects]:
            self.server.put(document)
        self.server.feed(self.store)
        for pod in list(self.store.pods.items.values()):
            if not pod.node_name:
                pods.upsert(pod)
                self.store.pods.delete(pod.key)
        self.leadership = Leadership.unelected(self.clock, "host")
        self.connection = Connection(self.server)
        planning = PlanSettings()
        self.scheduler = compose(
            KubeApi(self.connection, fence=self.leadership.fence),
            store=self.store,
            pods=pods,
            cluster=SchedulerCache(self.store, planning),
            configuration=Fixed(Configuration({NAME: default_profile(NAME)})),
            planning=planning,
            bind_timeout=timedelta(minutes=10),
            events=Events(),
            metrics=CountedMetrics(),
            clock=self.clock,
            aside=at_once,
        )

    async def run(self) -> None:
        running = asyncio.ensure_future(self.scheduler.run())
        await self.clock.advance(LONG)
        self.scheduler.stop()
        await self.clock.advance(LONG)
        await running


@pytest.mark.parametrize("story", STORIES)
async def test_no_write_follows_the_loss_of_the_lease_at_any_write(story: str) -> None:
    whole = World(STORIES[story]())
    await whole.run()
    everything = len(whole.server.writes)
    assert everything > 1
    for number in range(1, everything):
        world = World(STORIES[story]())
        sent = world.connection.on_write = LeaseEnds(world.leadership, number)
        with pytest.raises(LeadershipLost):
            await world.run()
        assert sent.writes == number, "a write was sent without the Lease"


@pytest.mark.parametrize("story", STORIES)
async def test_nothing_is_written_without_the_lease(story: str) -> None:
    world = World(STORIES[story]())
    world.leadership.end()
    with pytest.raises(LeadershipLost):
        await world.run()
    assert world.server.writes == []
