"""What changes while a write waits for its turn at the rate limit: it is not sent on what was checked before."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from binder.model.decision import Mode
from prebinder.config.settings import HoldSettings
from tests.binder.holds.test_hold_controller import held, set_object
from tests.binder.provisioner import SELECTED, Provisioner, gated, pool_world, report, selected
from tests.binder.world import Process, World, bind
from tests.fakes.objects import Object, claim_object, pod_object, volume_object


def one_pod(mode: Mode) -> World:
    """One request in five seconds, and a gated pod with one claim."""
    world = World(mode, qps=0.2)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], gated=True))
    return world


@asynccontextmanager
async def one_of_two_selected() -> AsyncIterator[tuple[World, Process, Provisioner]]:
    """One request in five seconds, and a pod of two volumes in a pool of 100Gi: the node of the first is selected."""
    pools = {"node-a1": "100Gi"}
    world = pool_world(pools)
    world.qps = 0.2
    gated(world, "web", "60Gi", "30Gi")
    async with world.process() as process:
        while not selected(world):
            await process.run(1)
        assert selected(world) == {"web-0": "node-a1"}
        yield world, process, Provisioner(world, pools)


async def only_its_gate_is_left(world: World, process: Process) -> None:
    while [write.plural for write in world.server.writes] != ["persistentvolumes", "persistentvolumeclaims"]:
        await process.run(1)


def is_gated(world: World, name: str = "web") -> bool:
    return bool(world.server.get("pods", f"default/{name}")["spec"].get("schedulingGates"))


def two_pods_on_a_node(*, elsewhere: bool = False) -> World:
    """One request in five seconds, and two gated pods whose volumes can only be on a node that takes two pods.

    `elsewhere`: another node reaches them as well.
    """
    world = World(Mode.PREBIND, qps=0.2)
    world.server.change("nodes", "node-a1", lambda node: node["status"]["allocatable"].update(pods="2"))
    for name in ("api", "web"):
        world.put(volume_object(f"pv-{name}", node=None if elsewhere else "node-a1"), claim_object(f"data-{name}"))
        world.put(pod_object(name, [f"data-{name}"], gated=True))
    return world


async def a_third_takes_the_room(world: World, process: Process, seconds: float = 45) -> None:
    """As soon as the first of the two is looked at on the API server."""
    while process.connection.requests < 1:
        await process.run(1)
    world.put(pod_object("third", [], node="node-a1"))
    await process.run(seconds)


@pytest.mark.parametrize("mode", [Mode.PREBIND, Mode.COMPLETE])
async def test_no_volume_is_committed_for_a_pod_that_was_deleted_meanwhile(mode: Mode) -> None:
    world = one_pod(mode)
    async with world.process() as process:
        while process.connection.requests < 2:  # the pod and the claim are read
            await process.run(1)
        assert world.server.writes == []
        world.server.remove("pods", "default/web")
        await process.run(120)
    assert world.server.writes == []
    assert "claimRef" not in world.volume("pv-1")["spec"]


async def test_a_gate_stays_if_the_volume_was_released_while_its_removal_waited() -> None:
    world = one_pod(Mode.ANNOTATE)
    async with world.process() as process:
        await only_its_gate_is_left(world, process)
        world.server.change("persistentvolumes", "pv-1", lambda volume: volume["metadata"].pop("annotations"))
        await process.run(5)
        assert is_gated(world) or "annotations" in world.volume("pv-1")["metadata"]
        await process.run(120)
    assert world.reserved("data") == "pv-1"
    assert not is_gated(world)


async def test_a_gate_stays_if_the_claim_was_recreated_while_its_removal_waited() -> None:
    world = one_pod(Mode.ANNOTATE)
    async with world.process() as process:
        await only_its_gate_is_left(world, process)
        world.server.remove("persistentvolumeclaims", "default/data")
        world.server.put(claim_object("data", uid="another"))
        await process.run(5)
        assert is_gated(world)


async def test_no_node_is_selected_whose_storage_another_scheduler_gave_away_meanwhile() -> None:
    world = pool_world({"node-a1": "100Gi"})
    world.qps = 0.2
    gated(world, "web", "60Gi")
    gated(world, "other", "60Gi", gate=False)
    async with world.process() as process:
        while process.connection.requests < 2:  # the pod and the claim are read
            await process.run(1)

        def place(claim: Object) -> None:
            claim["metadata"]["annotations"] = {SELECTED: "node-a1"}

        world.server.change("persistentvolumeclaims", "default/other-0", place)
        await process.run(60)
    assert selected(world) == {"other-0": "node-a1"}


async def test_all_claims_of_a_pod_have_their_node_selected_although_the_first_volume_is_made_meanwhile() -> None:
    async with one_of_two_selected() as (world, process, provisioner):
        provisioner.begin("web-0")
        provisioner.make("web-0", "node-a1")
        report(world, "node-a1", "40Gi")
        await process.run(60)
    assert selected(world) == {"web-0": "node-a1", "web-1": "node-a1"}


async def test_no_node_is_selected_for_the_rest_of_a_pod_whose_first_volume_was_given_up_meanwhile() -> None:
    async with one_of_two_selected() as (world, process, provisioner):
        provisioner.begin("web-0")
        provisioner.give_up("web-0")
        await process.run(60)
    assert [write.name for write in world.server.writes if "claims" in write.plural][:2] == ["default/web-0"] * 2


@pytest.mark.parametrize("lagging", [False, True], ids=["seen-while-it-waits", "not-seen-yet"])
async def test_no_node_is_selected_beside_the_volume_of_a_claim_that_was_created_again(lagging: bool) -> None:
    world = pool_world({"node-a1": "100Gi"})
    world.qps = 0.2
    gated(world, "web", "60Gi", "30Gi")
    Provisioner(world, {"node-a1": "100Gi"}).make("web-0", "node-a1")
    async with world.process() as process:
        while process.connection.requests < (1 if lagging else 3):
            await process.run(1)
        world.server.lagging = lagging
        world.server.remove("persistentvolumeclaims", "default/web-0")
        world.server.remove("persistentvolumes", "pvc-web-0")
        world.put(claim_object("web-0", "60Gi", storage_class="made", uid="another"))
        await process.run(30)
        world.server.lagging = False
        world.server.catch_up()
        await process.run(90)
    assert next(write.name for write in world.server.writes) == "default/web-0"


async def test_no_volume_is_held_for_a_claim_that_was_created_meanwhile() -> None:
    world = World(Mode.PREBIND, holds=HoldSettings(enabled=True, max_share=1.0), qps=0.2)
    world.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    world.put(volume_object("pv-1"), set_object(templates=["data"]))
    async with world.process() as process:
        while process.connection.requests < 1:  # that there is no such claim is read
            await process.run(1)
        world.put(claim_object("data-db-0"))
        await process.run(60)
    assert held(world) == {}


async def test_no_volume_is_committed_for_a_pod_whose_room_beside_a_waiting_one_was_taken_meanwhile() -> None:
    world = two_pods_on_a_node()
    async with world.process() as process:
        await a_third_takes_the_room(world, process)
    assert ["claimRef" in world.volume(f"pv-{name}")["spec"] for name in ("api", "web")].count(True) == 1


async def test_a_gate_stays_if_the_room_beside_a_waiting_pod_was_taken_while_its_removal_waited() -> None:
    world = two_pods_on_a_node()
    for name in ("api", "web"):
        bind(world, f"data-{name}", f"pv-{name}")
    async with world.process() as process:
        await a_third_takes_the_room(world, process)
        assert [is_gated(world, name) for name in ("api", "web")].count(True) == 1


async def test_pods_that_another_node_can_take_as_well_do_not_wait_for_room_on_the_first_one() -> None:
    world = two_pods_on_a_node(elsewhere=True)
    async with world.process() as process:
        await a_third_takes_the_room(world, process, 30)
    assert ["claimRef" in world.volume(f"pv-{name}")["spec"] for name in ("api", "web")] == [True, True]


async def test_gates_go_from_pods_that_another_node_can_take_as_well() -> None:
    world = two_pods_on_a_node(elsewhere=True)
    for name in ("api", "web"):
        bind(world, f"data-{name}", f"pv-{name}")
    async with world.process() as process:
        await a_third_takes_the_room(world, process, 30)
    assert [is_gated(world, name) for name in ("api", "web")] == [False, False]
