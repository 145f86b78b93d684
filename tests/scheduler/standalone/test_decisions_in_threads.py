"""Decisions that may take long are made beside the event loop, and what changes meanwhile is not lost."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from kube.objects.model import Pod
from scheduler.binding.pod_binding import Bound, RejectionReason
from scheduler.standalone.manual_binding import ManualBinding
from tests import builders
from tests.fake_clock import settle
from tests.scheduler.manual_bindings import rejection
from tests.scheduler.scheduler_in_memory import Desk, pod

T = TypeVar("T")
NODE = builders.node("n1", allocatable={"cpu": "8", "memory": "4Gi", "pods": "9"})


class Held:
    """Works at once, but returns what comes of it only when it is released."""

    def __init__(self) -> None:
        self.began = self.most = 0
        self._held: list[asyncio.Event] = []

    async def __call__(self, work: Callable[[], T], /) -> T:
        result, gate = work(), asyncio.Event()
        self._held.append(gate)
        self.began, self.most = self.began + 1, max(self.most, len(self._held))
        await gate.wait()
        self._held.remove(gate)
        return result

    async def release(self) -> None:
        while self._held:
            for gate in self._held:
                gate.set()
            await settle()


def with_claim(name: str, cpu: str = "1") -> Pod:
    return pod(name, cpu, claims=[f"data-{name}"])


def add(desk: Desk, name: str) -> None:
    desk.store.claims.upsert(builders.claim(f"data-{name}"))
    desk.store.volumes.upsert(builders.volume(f"pv-{name}"))
    desk.add(with_claim(name))


@asynccontextmanager
async def held(*names: str) -> AsyncIterator[tuple[Desk, Held]]:
    """A scheduler that decides about these pods, each with a claim and a volume for it, and is held meanwhile."""
    aside = Held()
    desk = Desk(NODE, aside=aside)
    desk.volumes.ready.set()
    desk.store.classes.upsert(builders.storage_class())
    for name in names:
        add(desk, name)
    async with desk.running():
        yield desk, aside
        await aside.release()


async def test_a_pod_with_claims_is_decided_in_a_thread_and_then_bound() -> None:
    async with held("web") as (desk, aside):
        assert (aside.began, desk.binder.order) == (1, [])
        await aside.release()
        assert desk.binder.nodes == {"web": "n1"}


async def test_a_plain_pod_is_decided_at_once() -> None:
    async with held() as (desk, aside):
        desk.add(pod("plain"))
        await settle()
        assert (aside.began, desk.binder.order) == (0, ["plain"])


async def test_what_another_scheduler_places_meanwhile_takes_its_room() -> None:
    async with held("web") as (desk, aside):
        desk.store.pods.upsert(builders.pod("other", node="n1", requests={"cpu": "8"}))
        await aside.release()
        assert (desk.binder.order, desk.volumes.rolled_back) == ([], [])
        desk.store.pods.delete("default/other")
        await desk.clock.advance(10)
        await aside.release()
        assert desk.binder.nodes == {"web": "n1"}


async def test_a_pod_that_is_deleted_meanwhile_is_not_placed() -> None:
    async with held("web") as (desk, aside):
        desk.pods.delete("default/web")
        await aside.release()
        assert (desk.binder.order, dict(desk.cluster.assumed())) == ([], {})
        assert desk.waiting.sizes()["in_work"] == 0


async def test_a_pod_that_is_assigned_meanwhile_is_not_placed_again() -> None:
    async with held("web") as (desk, aside):
        desk.pods.delete("default/web")
        desk.store.pods.upsert(builders.pod("web", node="n1", resource_version=2))
        await aside.release()
        assert (desk.binder.order, dict(desk.cluster.assumed())) == ([], {})


async def test_a_change_while_a_pod_is_rejected_wakes_it() -> None:
    async with held() as (desk, aside):
        desk.store.claims.upsert(builders.claim("data-web"))
        desk.add(with_claim("web"))
        await settle()
        desk.store.volumes.upsert(builders.volume("pv-web"))
        await aside.release()
        assert len(desk.notes("FailedScheduling")) == 1
        await desk.clock.advance(10)
        await aside.release()
        assert desk.binder.nodes == {"web": "n1"}


async def test_decisions_are_made_one_at_a_time() -> None:
    """Otherwise two pods could get the same volume."""
    async with held("web") as (desk, aside):
        add(desk, "db")
        asked = asyncio.create_task(ManualBinding(desk.scheduler).bind("default/db", "", "n1"))
        await settle()
        await aside.release()
        assert isinstance(await asked, Bound)
        assert aside.most == 1
        assert desk.binder.nodes == {"web": "n1", "db": "n1"}


async def test_a_placement_for_a_tool_is_rolled_back_if_the_term_has_ended_meanwhile() -> None:
    async with held() as (desk, aside):
        binding = ManualBinding(desk.scheduler)

        async def end_the_term() -> None:
            desk.scheduler.stop()
            await settle()
            await aside.release()

        add(desk, "web")
        ended = asyncio.create_task(end_the_term())
        assert rejection(await binding.bind("default/web", "", "n1")) is RejectionReason.NOT_READY
        await ended
        assert (desk.binder.order, dict(desk.cluster.assumed())) == ([], {})
