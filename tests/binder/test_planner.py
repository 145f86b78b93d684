"""Gathering pods into one pass, and keeping promises in step with the store."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from msgspec.structs import replace

from binder.decision import Decision, Reserve
from binder.gate import HealthGate
from binder.planner import LONGEST, QUIET, SHORTEST, Planner
from binder.view import PlanSettings
from csi.verdict import HealthState
from kube.model import Pod
from kube.store import Store
from tests.binder.world import Doctor, reservation
from tests.builders import claim, node, pod, storage_class, volume
from tests.fake_clock import FakeClock, settle


class Desk:
    """A planner over a store with one zonal volume for each of two pods."""

    def __init__(self) -> None:
        self.clock, self.store = FakeClock(), Store()
        self.doctor = Doctor(self.clock)
        self.gate = HealthGate(self.doctor, timedelta(seconds=30))
        self.planner = Planner(self.store, self.gate, self.clock, PlanSettings())
        self.store.classes.upsert(storage_class())
        self.store.nodes.upsert(node())
        for name in ("red", "blue"):
            self.store.claims.upsert(claim(name))
            self.store.pods.upsert(pod(name, claims=[name]))
        for number in (1, 2):
            self.store.volumes.upsert(volume(f"pv-{number}", zone="a"))

    def ask(self, name: str) -> "asyncio.Task[Decision | None]":
        return asyncio.create_task(self.planner.decide(f"default/{name}"))


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    found = Desk()
    with found.planner.following():
        yield found


def chosen(decision: Decision | None) -> str:
    assert isinstance(decision, Reserve)
    return decision.placements[0].volume.name


async def test_pods_that_come_together_are_planned_together(desk: Desk) -> None:
    tasks = [desk.ask("red"), desk.ask("blue")]
    await settle()
    assert not any(task.done() for task in tasks)
    await desk.clock.advance(2 * QUIET)
    assert {chosen(task.result()) for task in tasks} == {"pv-1", "pv-2"}


async def test_a_pass_begins_at_the_latest_after_its_time(desk: Desk) -> None:
    first = desk.ask("red")
    for number in range(round(LONGEST / QUIET) + 1):
        desk.store.claims.upsert(claim(f"c{number}"))
        desk.store.pods.upsert(pod(f"p{number}", claims=[f"c{number}"]))
        task = desk.ask(f"p{number}")
        await desk.clock.advance(QUIET)
    assert first.done()
    task.cancel()


async def test_a_pod_alone_does_not_wait_for_others(desk: Desk) -> None:
    task = desk.ask("red")
    await desk.clock.advance(SHORTEST)
    assert task.done()


async def test_a_decision_stands_while_the_pod_its_promise_and_its_volumes_do(desk: Desk) -> None:
    red, blue = desk.ask("red"), desk.ask("blue")
    await desk.clock.advance(1)
    decisions = {name: task.result() for name, task in (("red", red), ("blue", blue))}
    first, second = (decision for decision in decisions.values() if isinstance(decision, Reserve))
    assert desk.planner.stands(first)
    desk.doctor.states[first.placements[0].volume.handle] = HealthState.DATA_LOSS
    assert await desk.gate.ask(first, desk.clock.now())
    assert not desk.planner.stands(first)
    assert desk.planner.stands(second)
    desk.planner.withdrawn(second)
    assert not desk.planner.stands(second)


@pytest.mark.parametrize(
    "after", [None, pod("red", claims=["red"], uid="another"), pod("red", claims=["red"], node="node-1")]
)
async def test_a_decision_does_not_outlive_the_pod_it_was_made_for(desk: Desk, after: Pod | None) -> None:
    red = desk.ask("red")
    await desk.clock.advance(1)
    decision = red.result()
    assert isinstance(decision, Reserve)
    if after is None:
        desk.store.pods.delete("default/red")
    else:
        desk.store.pods.upsert(replace(after, resource_version=9))
    assert not desk.planner.stands(decision)


async def test_what_was_promised_is_not_promised_again_before_the_watch_shows_it(desk: Desk) -> None:
    red = desk.ask("red")
    await desk.clock.advance(1)
    blue = desk.ask("blue")
    await desk.clock.advance(1)
    assert chosen(red.result()) != chosen(blue.result())


async def test_a_withdrawn_promise_is_free_for_others(desk: Desk) -> None:
    red = desk.ask("red")
    await desk.clock.advance(1)
    decision = red.result()
    assert isinstance(decision, Reserve)
    desk.planner.withdrawn(decision)
    assert desk.planner.ledger.keeps(chosen(decision)) is None


async def test_a_pod_that_is_gone_gets_no_decision(desk: Desk) -> None:
    gone = desk.ask("nobody")
    await desk.clock.advance(1)
    assert gone.result() is None


async def test_a_hold_ends_when_the_volume_speaks_for_itself_and_then_for_nobody(desk: Desk) -> None:
    red = desk.ask("red")
    await desk.clock.advance(1)
    name = chosen(red.result())
    said = reservation("red", reserved_for_uid="uid-default-red")
    written = volume(name, zone="a", resource_version=7, annotations=said)
    desk.store.volumes.remember(written)
    desk.planner.written([written])
    assert desk.planner.ledger.keeps(name) is None
    assert desk.planner.ledger.holds[name].seen
    desk.store.volumes.upsert(volume(name, zone="a", resource_version=8))
    assert name not in desk.planner.ledger.holds


async def test_a_pass_that_fails_for_all_is_tried_for_each() -> None:
    desk = Desk()
    # A settings value no plan survives, for any pod: each asker gets the error, none waits for ever.
    broken = PlanSettings(prefix=None)  # type: ignore[arg-type]
    planner = Planner(desk.store, HealthGate(Doctor(desk.clock), timedelta(seconds=30)), desk.clock, broken)
    with planner.following():
        tasks = [asyncio.create_task(planner.decide(f"default/{name}")) for name in ("red", "blue")]
        await desk.clock.advance(1)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [TypeError, TypeError]
