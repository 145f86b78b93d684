"""Turns: one worker for each key; and what may happen while a pod waits for one: others act, the process dies."""

import asyncio
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from binder.matching.rejection import Reason
from binder.model.decision import Lost, Mode, Placement, Reserve
from binder.reservation.contract import DEFAULT_PREFIX, Annotations
from binder.writers.attempt import LostPlacement, same_offer
from binder.writers.keyed_locks import KeyedLocks
from csi.health.verdict import HealthState
from kube.client.transport import Request
from kube.objects.model import Volume
from tests import builders
from tests.binder.world import Process, World, bind, reservation
from tests.fake_clock import START, settle
from tests.fakes.objects import claim_object, pod_object, volume_object

PODS = [f"web-{number}" for number in range(8)]
CLAIMS = {name: [name, "shared"] if name in {"web-0", "web-1"} else [name] for name in PODS}


class Others:
    """Users, an administrator and the PV controller: one step of one of them at random."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world, self.rng, self.number = world, rng, 0

    def step(self) -> None:
        self.rng.choice([self.bind, self.recreate_claim, self.recreate_pod, self.release])()

    def bind(self) -> None:
        """The PV controller binds one claim that a volume names."""
        for volume in self.world.server.all("persistentvolumes"):
            reference = volume["spec"].get("claimRef")
            claim = self.world.claim(reference["name"]) if reference else None
            if claim is None or claim["spec"].get("volumeName"):
                continue
            if reference.get("uid") in {None, claim["metadata"]["uid"]}:
                bind(self.world, reference["name"], volume["metadata"]["name"])
                return

    def recreate_claim(self) -> None:
        name = self.rng.choice([*PODS, "shared"])
        if not self.world.claim(name)["spec"].get("volumeName"):
            self.world.server.remove("persistentvolumeclaims", f"default/{name}")
            self.world.put(self.with_new_uid(claim_object(name)))

    def recreate_pod(self) -> None:
        name = self.rng.choice(PODS)
        self.world.server.remove("pods", f"default/{name}")
        self.world.put(self.with_new_uid(pod_object(name, CLAIMS[name], gated=True)))

    def release(self) -> None:
        """The administrator removes what is reserved from a volume that is not bound."""
        volume = self.rng.choice(list(self.world.server.all("persistentvolumes")))
        if not volume["spec"].get("claimRef", {}).get("uid"):
            self.world.server.change("persistentvolumes", volume["metadata"]["name"], _clear)

    def with_new_uid(self, document: dict[str, Any]) -> dict[str, Any]:
        self.number += 1
        document["metadata"]["uid"] = f"uid-{self.number}"
        return document


def _clear(volume: dict[str, Any]) -> None:
    volume["spec"].pop("claimRef", None)
    volume["metadata"].pop("annotations", None)


@pytest.mark.parametrize("mode", [Mode.ANNOTATE, Mode.PREBIND])
@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("seed", range(5))
async def test_all_pods_are_served_while_others_write_between_turns(mode: Mode, concurrency: int, seed: int) -> None:
    rng = Random(seed)
    world = World(mode, ttl=timedelta(minutes=1), concurrency=concurrency, binds=True)
    world.put(*(volume_object(f"pv-{number}") for number in range(20)), claim_object("shared"))
    world.put(*map(claim_object, PODS), *(pod_object(name, CLAIMS[name], gated=True) for name in PODS))
    others, violations = Others(world, rng), list[str]()

    def before_write(_: Request) -> None:
        if rng.random() < 0.4:
            others.step()
        violations.extend(world.violations())

    world.server.before_write = before_write
    for transition, dies_after in enumerate((rng.randrange(1, 20), rng.randrange(1, 20)), 1):
        async with world.process(dies_after, transition) as process:
            await process.run(5)
    world.server.before_write = lambda _: violations.extend(world.violations())
    async with world.process(transition=3) as process:
        await process.run(120)
    assert violations == world.violations() == []
    assert not any(pod["spec"].get("schedulingGates") for pod in world.server.all("pods"))


async def test_a_key_is_held_by_one_at_a_time_and_others_do_not_wait() -> None:
    locks, log, go = KeyedLocks(), list[str](), asyncio.Event()

    async def work(name: str, *keys: str) -> None:
        async with locks.held(keys):
            log.append(name)
            await go.wait()

    tasks = [asyncio.create_task(work(*args)) for args in (("one", "a", "b"), ("two", "b", "a"), ("three", "c"))]
    await settle()
    assert log == ["one", "three"]
    go.set()
    await asyncio.gather(*tasks)
    assert log == ["one", "three", "two"]
    assert vars(locks) == {"_locks": {}}


async def test_a_cancelled_waiter_leaves_nothing_behind() -> None:
    locks = KeyedLocks()
    async with locks.held(["a"]):
        waiting = asyncio.create_task(locks.held(["a"]).__aenter__())
        await settle()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert vars(locks) == {"_locks": {}}


async def ready_to_write(world: World) -> tuple[Process, Reserve]:
    """A decision whose volume was healthy when it was chosen; nothing is written."""
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], unschedulable=True))
    process = world.process()
    world.server.feed(process.store)
    seen = process.store.snapshot()
    placement = Placement(seen.claims["default/data"], seen.volumes["pv-1"])
    decision = Reserve(seen.pods["default/web"], Mode.ANNOTATE, "a", "node-a1", (), (placement,))
    await process.reconciler.gate.probe(decision.volumes, world.clock.now())
    return process, decision


async def test_a_decision_that_waited_long_is_probed_again_before_it_is_written() -> None:
    world = World(Mode.ANNOTATE)
    process, decision = await ready_to_write(world)
    await world.clock.advance(3_600)
    world.doctor.states["handle-pv-1"] = HealthState.DATA_LOSS
    outcome = await process.reconciler.actor.act(decision)
    assert world.doctor.probed == ["handle-pv-1"] * 2
    assert isinstance(outcome, Lost)
    assert outcome.reason is Reason.UNHEALTHY
    assert world.server.writes == []


@pytest.mark.parametrize("recreated", [False, True])
async def test_a_newer_version_of_the_same_volume_counts_and_one_of_its_successor_does_not(recreated: bool) -> None:
    world = World(Mode.ANNOTATE, drivers=frozenset())  # so the health on the volume counts
    process, decision = await ready_to_write(world)
    planned = decision.placements[0]
    if recreated:
        successor = volume_object("pv-1")
        successor["metadata"]["uid"] = "uid-2"
        world.put(successor)
    reported = {"health": "DataLoss", "health-reason": "Gone", "health-since": "2026-01-01T12:00:00Z"}
    annotations = {DEFAULT_PREFIX + key: text for key, text in reported.items()}
    world.server.change("persistentvolumes", "pv-1", lambda it: it["metadata"].update(annotations=annotations))
    checks = process.reconciler.actor.applier.checks
    if recreated:
        checks.require_healthy(planned, planned.volume)
    else:
        with pytest.raises(LostPlacement):
            checks.require_healthy(planned, planned.volume)


DATA = builders.claim("data", uid="uid-persistentvolumeclaims-default/data")


@pytest.mark.parametrize(
    ("fresh", "same"),
    [
        pytest.param(builders.volume(resource_version=9), True, id="only its version"),
        pytest.param(builders.volume(annotations={"somebody.example/note": "x"}), True, id="an annotation of others"),
        pytest.param(builders.volume(annotations=reservation("data")), True, id="reserved for the claim"),
        pytest.param(builders.volume(annotations=reservation("other")), False, id="reserved for another"),
        pytest.param(
            builders.volume(annotations=reservation("other", minutes=-10)), True, id="reserved for another till now"
        ),
        pytest.param(builders.volume(claim="ns/other"), False, id="taken"),
        pytest.param(builders.volume(phase="Failed"), False, id="failed"),
        pytest.param(builders.volume(deleting=True), False, id="being deleted"),
        pytest.param(builders.volume(size="1Gi"), False, id="shrunk"),
        pytest.param(builders.volume(labels={"tier": "gold"}), False, id="relabelled"),
        pytest.param(builders.volume(uid="other"), False, id="recreated"),
    ],
)
def test_same_offer(fresh: Volume, same: bool) -> None:
    assert same_offer(builders.volume(), fresh, DATA, Annotations(), START) is same
