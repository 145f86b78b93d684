"""Room of a pod to which volumes are committed is not given to another, whatever happens in between.

Two pods of 5 CPUs with local volumes of one node, which has 8: the volumes of the second one must not be committed
before the first one has gone.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from binder.model.decision import Mode
from binder.reservation.contract import DEFAULT_PREFIX
from kube.client.transport import Request
from kube.errors import Unavailable
from tests.binder.world import World, bind
from tests.fakes.objects import claim_object, pod_object, volume_object

COMMITTING = pytest.mark.parametrize("mode", [Mode.PREBIND, Mode.COMPLETE])
NODE = "node-a1"


def pod(name: str, claims: Iterable[str] | None = None, cpu: str = "5", **more: Any) -> dict[str, Any]:
    document = pod_object(name, [name] if claims is None else claims, **{"gated": True} | more)
    document["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return document


def world_of(mode: Mode, volumes: int = 2) -> World:
    """Volumes of one node, and a claim for each pod."""
    world = World(mode, binds=True)
    for number in range(1, volumes + 1):
        world.put(volume_object(f"pv-{number}", zone=None, node=NODE))
    world.put(claim_object("first"), claim_object("second"))
    return world


def waits(world: World, name: str) -> bool:
    return bool(world.server.get("pods", f"default/{name}")["spec"].get("schedulingGates"))


def committed(world: World, claim: str) -> str | None:
    for volume in world.server.all("persistentvolumes"):
        if volume["spec"].get("claimRef", {}).get("name") == claim:
            return str(volume["metadata"]["name"])
    return None


def place(world: World, name: str, node: str = NODE) -> None:
    """As kube-scheduler does."""
    world.server.change("pods", f"default/{name}", lambda document: document["spec"].update(nodeName=node))


def gone(world: World, name: str) -> None:
    world.server.remove("pods", f"default/{name}")


@COMMITTING
async def test_no_annotation_that_a_user_writes_makes_a_committed_pod_uncounted(mode: Mode) -> None:
    world = world_of(mode)
    world.put(pod("first"))
    async with world.process() as process:
        await process.run()
        held = committed(world, "first")
        thief = claim_object("thief", namespace="evil")
        thief["metadata"]["annotations"] = {
            f"{DEFAULT_PREFIX}reserved-volume": str(held),
            f"{DEFAULT_PREFIX}bound-at": "2026-01-01T00:00:00Z",
            f"{DEFAULT_PREFIX}expires-at": "9999-12-31T00:00:00Z",
        }
        world.put(thief)
        world.put(claim_object("thief", namespace="evil"))
        world.put(pod("second"))
        await process.run()
        assert waits(world, "second")
        assert committed(world, "second") is None
        gone(world, "first")
        await process.run(70)
        assert not waits(world, "second")


@COMMITTING
@pytest.mark.parametrize("written", [True, False], ids=["response-lost", "not-written"])
async def test_an_outage_between_two_writes_does_not_make_a_half_committed_pod_uncounted(
    mode: Mode, written: bool
) -> None:
    """The first volume is written, everything after it fails, the rollback too."""
    world = world_of(mode, volumes=3)
    world.put(claim_object("more"), pod("first", ["first", "more"]))
    concerned = {"pv-1", "pv-2"}

    def fail(request: Request) -> None:
        if request.path.rpartition("/")[2] in concerned and len(world.server.writes) >= 1:
            world.server.reject_next.append((request.path, Unavailable("PATCH", request.path, 0, "Timeout", "down")))

    if written:
        world.server.lose_responses = {1}
    world.server.before_write = fail
    world.server.reject_next += [("GET", Unavailable("GET", "", 0, "Timeout", "down"))] * (1 if written else 0)
    async with world.process() as process:
        await process.run(0.2)
        assert committed(world, "first") == "pv-1" or committed(world, "more") == "pv-1"
        world.put(pod("second"))
        await process.run(4)
        assert waits(world, "first")
        assert committed(world, "second") is None, "its room is that of a pod that already has a volume there"
        world.server.before_write = None
        await process.run(70)
        assert not waits(world, "first")
        assert waits(world, "second")
        gone(world, "first")
        await process.run(70)
        assert not waits(world, "second")


@COMMITTING
async def test_a_recreated_pod_whose_volume_is_bound_already_counts_as_soon_as_it_is_let_go(mode: Mode) -> None:
    world = world_of(mode)
    world.put(pod("first", gated=False, node=NODE))
    bind(world, "first", "pv-1")
    async with world.process() as process:
        await process.run()
        gone(world, "first")
        world.put(pod("first"))
        await process.run()
        assert not waits(world, "first")
        world.put(pod("second"))
        await process.run()
        assert waits(world, "second")
        assert committed(world, "second") is None
        place(world, "first")
        await process.run(70)
        assert waits(world, "second")
        gone(world, "first")
        await process.run(70)
        assert not waits(world, "second")


@COMMITTING
async def test_a_recreated_pod_is_not_let_go_into_the_room_of_a_committed_one(mode: Mode) -> None:
    world = world_of(mode)
    world.put(pod("second"))
    bind(world, "first", "pv-1")
    async with world.process() as process:
        await process.run()
        assert not waits(world, "second")
        world.put(pod("first"))
        await process.run(20)
        assert waits(world, "first"), "kube-scheduler would give it the room of the other one"
        assert process.sink.reasons_of("Pod", "first") == ["OtherPodPending"]
        place(world, "second")
        await process.run(12)
        assert not waits(world, "first"), "kube-scheduler may preempt for it"


@COMMITTING
async def test_a_recreated_pod_does_not_wait_for_ever_for_one_that_is_not_scheduled(mode: Mode) -> None:
    world = world_of(mode)
    world.put(pod("second"))
    bind(world, "first", "pv-1")
    async with world.process() as process:
        await process.run()
        world.put(pod("first"))
        await process.run(60)
        assert not waits(world, "first")


UNRUNNABLE: dict[str, dict[str, Any]] = {
    "another component's gate": {"schedulingGates": [{"name": "example.com/other"}]},
    "a node selector that no node has": {"nodeSelector": {"disk": "none"}},
    "more than the node has": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "9"}}}]},
}


@COMMITTING
@pytest.mark.parametrize("why", UNRUNNABLE)
@pytest.mark.parametrize("gated", [True, False])
async def test_pods_that_cannot_run_take_no_room_although_they_have_a_volume(mode: Mode, why: str, gated: bool) -> None:
    """One bound claim and a hundred pods that use it would book the node of another tenant."""
    world = world_of(mode)
    bind(world, "first", "pv-1")
    for number in range(10):
        unrunnable = pod(f"idle-{number}", ["first"], gated=gated)
        gates = [*unrunnable["spec"].get("schedulingGates", ()), *UNRUNNABLE[why].get("schedulingGates", ())]
        unrunnable["spec"] |= UNRUNNABLE[why] | ({"schedulingGates": gates} if gates else {})
        world.put(unrunnable)
    world.put(pod("second"))
    async with world.process() as process:
        await process.run()
        assert not waits(world, "second")


@COMMITTING
async def test_a_pod_with_a_claim_that_nothing_fits_takes_no_room(mode: Mode) -> None:
    world = world_of(mode)
    bind(world, "first", "pv-1")
    world.put(claim_object("huge", "1000Gi"), pod("idle", ["first", "huge"]), pod("second"))
    async with world.process() as process:
        await process.run(30)
        assert not waits(world, "second")


@COMMITTING
async def test_a_pod_that_two_nodes_can_take_is_counted_on_the_one_that_is_not_needed(mode: Mode) -> None:
    """A zonal volume of zone a, and then a local one of a node of that zone."""
    world = World(mode, binds=True)
    world.put(volume_object("zonal"), claim_object("first"), pod("first"))
    async with world.process() as process:
        await process.run()
        assert not waits(world, "first")
        for number, node in enumerate(("node-a1", "node-a2"), 1):
            world.put(volume_object(f"local-{number}", "20Gi", zone=None, node=node))
            world.put(claim_object(f"late-{number}", "20Gi"), pod(f"late-{number}"))
            await process.run()
        assert sorted(name for name in ("late-1", "late-2") if waits(world, name)) == ["late-2"]
