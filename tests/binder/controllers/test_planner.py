"""Gathering pods into one pass, and keeping reservations in step with the store."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import TypeVar

import pytest
from msgspec.structs import replace

from binder.controllers.available_volumes import STEP
from binder.controllers.batcher import MAX_BATCH_SECONDS, MAX_IDLE_SECONDS, MIN_IDLE_SECONDS
from binder.controllers.nodes_to_come import FRESH_SECONDS, NodesToCome
from binder.controllers.planner import CHOICE, FIRST_PODS, MAX_CLAIMS_PER_PASS, Planner
from binder.data_sources.snapshots import Snapshots
from binder.model.decision import Decision, Reserve
from binder.model.view import PlanSettings
from binder.rebalance.integer_program import IntegerProgram, Solution, Solve, solve
from binder.reporting.announce import Announcer
from binder.reservation.contract import DEFAULT_PREFIX, JOIN_VOLUMES, Annotations
from binder.writers.health_gate import HealthGate
from csi.health.verdict import HealthState
from kube.background import Aside
from kube.client.api import KubeApi
from kube.objects.model import BIND_COMPLETED, Pod
from kube.store.store import Store
from prebinder.controller.term import compose
from tests.binder.world import Doctor, Sink
from tests.builders import claim, node, pod, storage_class, volume
from tests.fake_clock import FakeClock, settle
from tests.fakes.aside import at_once
from tests.fakes.kube_api import Connection, FakeKubeApi, failure

T = TypeVar("T")

FORGED = {
    f"{DEFAULT_PREFIX}bound-at": "2026-01-01T00:00:00Z",
    f"{DEFAULT_PREFIX}expires-at": "9999-12-31T00:00:00Z",
}
"""With the name of a volume, what a claim of a reservation carries."""


class Desk:
    """A planner over a store with one zonal volume for each of two pods."""

    def __init__(self, aside: Aside = at_once, *, settings: PlanSettings | None = None, solver: Solve = solve) -> None:
        self.clock, self.store = FakeClock(), Store()
        self.doctor = Doctor(self.clock)
        self.gate = HealthGate(self.doctor, timedelta(seconds=30), self.clock)
        api, announcer = KubeApi(Connection(FakeKubeApi())), Announcer(Sink(), self.clock)
        to_come = NodesToCome(api, self.store, self.clock, Annotations(), announcer)
        self.planner = Planner(
            self.store,
            self.gate,
            self.clock,
            settings or PlanSettings(),
            to_come=to_come,
            snapshots=Snapshots(api, self.clock),
            aside=aside,
            solving=lambda: nullcontext(solver),
        )
        self.store.classes.upsert(storage_class())
        self.store.nodes.upsert(node())
        for name in ("red", "blue"):
            self.store.claims.upsert(claim(name))
            self.store.pods.upsert(pod(name, claims=[name]))
        for number in (1, 2):
            self.store.volumes.upsert(volume(f"pv-{number}", zone="a"))

    def decide(self, name: str) -> "asyncio.Task[Decision | None]":
        return asyncio.create_task(self.planner.decide(f"default/{name}"))


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    with desk.planner.following():
        yield desk


def chosen(decision: Decision | None) -> str:
    assert isinstance(decision, Reserve)
    return decision.placements[0].volume.name


async def test_pods_that_come_together_are_planned_together(desk: Desk) -> None:
    tasks = [desk.decide("red"), desk.decide("blue")]
    await settle()
    assert not any(task.done() for task in tasks)
    await desk.clock.advance(2 * MAX_IDLE_SECONDS)
    assert {chosen(task.result()) for task in tasks} == {"pv-1", "pv-2"}


async def test_a_pass_begins_at_the_latest_after_its_time(desk: Desk) -> None:
    first = desk.decide("red")
    for number in range(round(MAX_BATCH_SECONDS / MAX_IDLE_SECONDS) + 1):
        desk.store.claims.upsert(claim(f"c{number}"))
        desk.store.pods.upsert(pod(f"p{number}", claims=[f"c{number}"]))
        task = desk.decide(f"p{number}")
        await desk.clock.advance(MAX_IDLE_SECONDS)
    assert first.done()
    task.cancel()


async def test_a_pod_alone_does_not_wait_for_others(desk: Desk) -> None:
    task = desk.decide("red")
    await desk.clock.advance(MIN_IDLE_SECONDS)
    assert task.done()


@pytest.mark.parametrize(
    ("volumes", "claims", "at_once"),
    [
        pytest.param(CHOICE * 2, ["blue"], True, id="volumes to spare"),
        pytest.param(CHOICE * 2 - 1, ["blue"], False, id="too few volumes"),
        pytest.param(CHOICE * 4, ["blue", "red"], False, id="a pod with two claims"),
    ],
)
async def test_the_first_pods_of_a_burst_wait_only_for_what_they_may_compete_with(
    desk: Desk, volumes: int, claims: list[str], at_once: bool
) -> None:
    for number in range(3, volumes + 1):
        desk.store.volumes.upsert(volume(f"pv-{number}", zone="a"))
    desk.store.pods.upsert(pod("blue", claims=claims))
    tasks = [desk.decide("red")]
    await desk.clock.advance(MIN_IDLE_SECONDS / 2)
    tasks.append(desk.decide("blue"))
    await desk.clock.advance(MIN_IDLE_SECONDS / 2)
    assert [task.done() for task in tasks] == [at_once] * 2
    await desk.clock.advance(MAX_BATCH_SECONDS)
    assert all(task.done() for task in tasks)


async def test_of_a_crowd_no_pod_is_planned_before_the_others(desk: Desk) -> None:
    for number in range(CHOICE * (FIRST_PODS + 1)):
        desk.store.volumes.upsert(volume(f"spare-{number}", zone="a"))
    tasks = [desk.decide("red")]
    await desk.clock.advance(MIN_IDLE_SECONDS / 2)
    for number in range(FIRST_PODS):
        desk.store.claims.upsert(claim(f"c{number}"))
        desk.store.pods.upsert(pod(f"p{number}", claims=[f"c{number}"]))
        tasks.append(desk.decide(f"p{number}"))
    await desk.clock.advance(MIN_IDLE_SECONDS / 2)
    assert not any(task.done() for task in tasks)
    await desk.clock.advance(MAX_BATCH_SECONDS)
    assert all(task.done() for task in tasks)


async def test_a_decision_stands_while_the_pod_its_reservation_and_its_volumes_do(desk: Desk) -> None:
    red, blue = desk.decide("red"), desk.decide("blue")
    await desk.clock.advance(1)
    decisions = {name: task.result() for name, task in (("red", red), ("blue", blue))}
    first, second = (decision for decision in decisions.values() if isinstance(decision, Reserve))
    assert desk.planner.stands(first)
    desk.doctor.states[first.placements[0].volume.handle] = HealthState.DATA_LOSS
    assert await desk.gate.probe(first.volumes, desk.clock.now())
    assert not desk.planner.stands(first)
    assert desk.planner.stands(second)
    desk.planner.settled(second.pod.key)
    assert not desk.planner.stands(second)


@pytest.mark.parametrize(
    "after", [None, pod("red", claims=["red"], uid="another"), pod("red", claims=["red"], node="node-1")]
)
async def test_a_decision_does_not_outlive_the_pod_it_was_made_for(desk: Desk, after: Pod | None) -> None:
    red = desk.decide("red")
    await desk.clock.advance(1)
    decision = red.result()
    assert isinstance(decision, Reserve)
    if after is None:
        desk.store.pods.delete("default/red")
    else:
        desk.store.pods.upsert(replace(after, resource_version=9))
    assert not desk.planner.stands(decision)


async def test_what_was_reserved_is_not_reserved_again_before_the_watch_shows_it(desk: Desk) -> None:
    red = desk.decide("red")
    await desk.clock.advance(1)
    blue = desk.decide("blue")
    await desk.clock.advance(1)
    assert chosen(red.result()) != chosen(blue.result())


async def test_a_reservation_that_was_not_written_is_free_for_others(desk: Desk) -> None:
    red = desk.decide("red")
    await desk.clock.advance(1)
    decision = red.result()
    assert isinstance(decision, Reserve)
    desk.planner.settled(decision.pod.key)
    assert desk.planner.ledger.keeps(chosen(decision)) is None


async def test_others_run_while_the_available_volumes_are_indexed() -> None:
    desk = Desk()
    for number in range(STEP):
        desk.store.volumes.upsert(volume(f"more-{number}", zone="a"))
    indexing = asyncio.create_task(desk.planner.prepare())
    await asyncio.sleep(0)
    assert not indexing.done()
    await indexing


async def test_a_pod_that_is_gone_gets_no_decision(desk: Desk) -> None:
    gone = desk.decide("nobody")
    await desk.clock.advance(1)
    assert gone.result() is None


async def test_what_an_attempt_may_have_written_is_kept_until_its_pod_is_settled(desk: Desk) -> None:
    red = desk.decide("red")
    await desk.clock.advance(1)
    name = chosen(red.result())
    desk.planner.doubted("default/red")
    assert desk.planner.doubts("default/red") == (name,)
    desk.store.volumes.upsert(volume(name, zone="a", resource_version=8))
    desk.store.claims.upsert(claim("red", resource_version=9, annotations={}))
    assert desk.planner.ledger.keeps(name) is not None, "no change of an object ends the doubt"
    desk.planner.settled("default/red")
    assert desk.planner.doubts("default/red") == ()
    assert desk.planner.ledger.keeps(name) is None


async def test_no_annotation_of_another_claim_ends_a_hold(desk: Desk) -> None:
    """A user who may write claims in some namespace can write these."""
    red = desk.decide("red")
    await desk.clock.advance(1)
    name = chosen(red.result())
    forged = FORGED | {f"{DEFAULT_PREFIX}reserved-volume": name}
    for version, annotations in enumerate((forged, {}), 5):
        desk.store.claims.upsert(claim("thief", namespace="evil", resource_version=version, annotations=annotations))
    assert desk.planner.ledger.keeps(name) is not None


async def test_a_pass_that_fails_for_all_is_tried_for_each() -> None:
    # A settings value no plan survives, for any pod: each asker gets the error, none waits for ever.
    desk = Desk(settings=PlanSettings(annotations=None))  # type: ignore[arg-type]
    with desk.planner.following():
        tasks = [desk.decide(name) for name in ("red", "blue")]
        await desk.clock.advance(1)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [AttributeError, AttributeError]


async def test_a_pass_that_fails_for_all_is_tried_for_the_most_urgent_first() -> None:
    def failing(_program: IntegerProgram, _seconds: float, /) -> Solution:
        raise ZeroDivisionError

    desk = Desk(solver=failing)
    desk.store.volumes.delete("pv-2")
    desk.store.pods.upsert(pod("blue", claims=["blue"], priority=9))
    with desk.planner.following():
        red, blue = desk.decide("red"), desk.decide("blue")
        await desk.clock.advance(1)
    assert not isinstance(red.result(), Reserve)
    assert chosen(blue.result()) == "pv-1"


class Held:
    """Works nothing out before it is let to; `started` counts what it was given."""

    def __init__(self) -> None:
        self.let = asyncio.Event()
        self.started = 0

    async def __call__(self, work: Callable[[], T], /) -> T:
        self.started += 1
        await self.let.wait()
        return work()


@pytest.fixture
async def held() -> AsyncIterator[tuple[Desk, Held]]:
    aside = Held()
    desk = Desk(aside)
    with desk.planner.following():
        yield desk, aside


async def test_passes_do_not_overlap_and_each_sees_what_the_one_before_reserved(held: tuple[Desk, Held]) -> None:
    desk, aside = held
    red = desk.decide("red")
    await desk.clock.advance(1)
    blue = desk.decide("blue")
    await desk.clock.advance(1)
    assert aside.started == 1
    assert not red.done()
    aside.let.set()
    await desk.clock.advance(1)
    assert aside.started == 2
    assert {chosen(red.result()), chosen(blue.result())} == {"pv-1", "pv-2"}


@pytest.mark.parametrize(
    "after", [None, pod("red", claims=["red"], uid="another"), pod("red", claims=["red"], node="node-1")]
)
async def test_a_pod_that_changes_while_it_is_planned_gets_no_reservation(
    held: tuple[Desk, Held], after: Pod | None
) -> None:
    desk, aside = held
    red = desk.decide("red")
    await desk.clock.advance(1)
    if after is None:
        desk.store.pods.delete("default/red")
    else:
        desk.store.pods.upsert(replace(after, resource_version=9))
    aside.let.set()
    await desk.clock.advance(1)
    assert red.result() is None
    assert not desk.planner.ledger.holds


class Cut:
    """Works everything out, except while it is `cut` short."""

    def __init__(self) -> None:
        self.cut = False

    async def __call__(self, work: Callable[[], T], /) -> T:
        if self.cut:
            raise asyncio.CancelledError
        return work()


async def test_pods_that_came_to_wait_before_a_pass_was_cut_short_are_known_to_the_next_one() -> None:
    aside = Cut()
    desk = Desk(aside)
    bound = claim("bound", volume_name="pv-2", phase="Bound", annotations={BIND_COMPLETED: "yes"})
    with desk.planner.following():
        for aside.cut in (False, True, False):
            asked = desk.decide("red")
            await desk.clock.advance(1)
            assert (asked.result() is None) == aside.cut
            desk.store.claims.upsert(bound)
            desk.store.pods.upsert(pod("waiting", claims=["bound"]))
    assert "default/waiting" in (desk.planner.view().waiting or ())


def composed_aside() -> Aside:
    """Return what the controller is composed with."""
    aside: Aside = inspect.signature(compose).parameters["aside"].default
    return aside


async def test_the_event_loop_continues_during_a_pass() -> None:
    """The work may not come to its end before the loop has had its turn."""
    turn = threading.Event()
    asyncio.get_running_loop().call_later(0.01, turn.set)
    assert await composed_aside()(lambda: turn.wait(30))


async def test_an_error_in_the_thread_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        await composed_aside()(lambda: 1 // 0)


async def test_so_many_claims_are_planned_in_a_pass_and_the_rest_in_the_next() -> None:
    aside = Held()
    desk = Desk(aside)
    aside.let.set()
    names = [f"c{number}" for number in range(MAX_CLAIMS_PER_PASS - 1)]
    desk.store.pods.upsert(pod("crowd", claims=names))
    with desk.planner.following():
        tasks = [desk.decide(name) for name in ("red", "crowd", "blue")]
        await desk.clock.advance(MAX_BATCH_SECONDS)
        assert aside.started == 2
        await desk.clock.advance(1)
    assert all(task.done() for task in tasks)


async def test_each_time_that_node_pools_cease_to_be_readable_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, store, server, ours = FakeClock(), Store(), FakeKubeApi(), Annotations()
    store.classes.upsert(storage_class(annotations={ours.new_nodes: JOIN_VOLUMES}))
    server.node_pools = []
    to_come = NodesToCome(KubeApi(Connection(server)), store, clock, ours, Announcer(Sink(), clock))
    warnings = []
    with to_come.following():
        for forbidden in (True, True, False, True):
            server.reject_next = [("nodepools", failure(403, "Forbidden"))] if forbidden else []
            await to_come.refresh()
            warnings.append(len(caplog.records))
            await clock.advance(FRESH_SECONDS)
    assert warnings == [1, 1, 1, 2]
