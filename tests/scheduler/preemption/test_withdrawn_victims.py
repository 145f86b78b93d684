"""A victim that has no node yet is not evicted, which would delete it: its binding is given up, and it waits again."""

import asyncio

import pytest

from binder.matching.rejection import Reason, Rejection
from kube.errors import Unavailable
from scheduler.binding.binding_cycle import BindingCycle, BindingPlugins
from scheduler.framework.plugin import ScheduleResult
from scheduler.volumes.volume_binding import VolumeChoice
from tests import builders
from tests.fake_clock import settle
from tests.scheduler.scheduler_in_memory import Binder, Desk, Volumes, pod

NODE = builders.node("n1")
LOW, HIGH = pod("low", "6", claims=["data"]), pod("high", "6", priority=9)


def desk_with_volume() -> Desk:
    desk = Desk(NODE)
    desk.store.classes.upsert(builders.storage_class())
    desk.store.volumes.upsert(builders.volume())
    desk.store.claims.upsert(builders.claim())
    desk.evictions.accepts = True
    return desk


async def test_a_pod_that_waits_for_its_volumes_is_withdrawn() -> None:
    desk = desk_with_volume()
    desk.add(LOW)
    async with desk.running():
        assert list(desk.cluster.assumed()) == [LOW.key]
        desk.add(HIGH)
        await settle()
        await desk.clock.advance(1)
        assert desk.volumes.rolled_back == ["low"]
        assert desk.evictions.evicted == []
        assert desk.binder.nodes == {"high": "n1"}
        assert desk.waiting.get(LOW.key) is not None
    assert desk.notes("Preempted") == ["Preempted by pod uid-default-high on node n1 before it was assigned"]


async def test_a_binding_that_was_sent_is_waited_for_before_its_pod_is_evicted() -> None:
    desk = desk_with_volume()
    desk.volumes.ready.set()
    desk.binder.held = asyncio.Event()
    desk.add(LOW)
    async with desk.running():
        desk.add(HIGH)
        await settle()
        assert desk.evictions.evicted == []
        desk.binder.held.set()
        await settle()
        assert desk.binder.nodes == {"low": "n1"}
        assert desk.evictions.evicted == ["low"]
    assert desk.volumes.rolled_back == []


async def test_a_victim_is_not_evicted_when_that_binding_failed() -> None:
    desk = desk_with_volume()
    desk.volumes.ready.set()
    desk.binder.held = asyncio.Event()
    desk.binder.answers = [Rejection(Reason.KEPT_CHANGING, LOW.key, "this", "that")]
    desk.add(LOW)
    async with desk.running():
        desk.add(HIGH)
        await settle()
        desk.binder.held.set()
        await desk.clock.advance(1)
    assert desk.evictions.evicted == []
    assert desk.binder.nodes == {"high": "n1"}


async def test_where_it_is_unknown_whether_the_victim_has_a_node_no_pod_is_evicted() -> None:
    desk = desk_with_volume()
    desk.server.failures = [Unavailable("GET", "/", 0, "Timeout", "no answer")]
    desk.add(LOW)
    async with desk.running():
        desk.add(HIGH)
        await settle()
        assert "no answer" in desk.notes("FailedScheduling")[-1]
        await desk.clock.advance(2)
    assert desk.evictions.evicted == []
    assert desk.binder.nodes == {"high": "n1"}


@pytest.mark.parametrize("phase", ["volumes", "slot"])
async def test_what_is_withdrawn_ends_before_withdraw_returns(phase: str) -> None:
    volumes, binder = Volumes(), Binder(lambda _: None)
    binder.held = asyncio.Event()
    cycle = BindingCycle(BindingPlugins((), (volumes,), (binder,)), at_once=1)
    first = asyncio.ensure_future(cycle.carry_out(ScheduleResult(pod("first"), "n1", VolumeChoice())))
    if phase == "slot":
        volumes.ready.set()
    second = asyncio.ensure_future(cycle.carry_out(ScheduleResult(LOW, "n1", VolumeChoice())))
    await settle()
    await cycle.withdraw(pod("low", uid="another"), "not this one")
    await asyncio.gather(cycle.withdraw(LOW, "a test"), cycle.withdraw(LOW, "a test, twice"))
    assert volumes.rolled_back == ["low"]
    rejection = await second
    assert rejection is not None
    assert (rejection.reason, rejection.offered) == (Reason.WITHDRAWN, "a test")
    binder.held.set()
    assert await first is None
    assert binder.order == ["first"]
