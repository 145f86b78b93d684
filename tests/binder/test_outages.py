"""After an outage of the API server, until the watches are open again: nothing that is read shows nodes as they are.

Requests may be answered a while before that (seed 9010).
"""

from typing import Any

import pytest

from binder.model.decision import Mode
from tests.binder.provisioner import pool_world, selected
from tests.binder.world import World, bind
from tests.fakes.objects import claim_object, pod_object, volume_object


def cordon(world: World, *nodes: str) -> None:
    for node in nodes:
        world.server.change("nodes", node, lambda it: it["spec"].update(unschedulable=True))


def see_all(world: World) -> None:
    """The watches are open again, and have caught up."""
    world.server.lagging = False
    world.server.catch_up()
    world.recovered.set()


@pytest.mark.parametrize("mode", [Mode.PREBIND, Mode.COMPLETE])
async def test_no_volume_is_committed_for_a_node_that_was_cordoned_meanwhile(mode: Mode) -> None:
    world = World(mode)
    world.put(claim_object("data"), pod_object("web", ["data"], gated=True))
    world.put(volume_object("pv-a", zone="a"), volume_object("pv-b", "20Gi", zone="b"))
    world.recovered.clear()
    async with world.process() as process:
        world.server.lagging = True
        cordon(world, "node-a1", "node-a2")
        await process.run()
        assert world.server.writes == []
        see_all(world)
        await process.run()
    assert "claimRef" not in world.volume("pv-a")["spec"]
    assert world.volume("pv-b")["spec"]["claimRef"]["name"] == "data"


async def test_no_node_is_selected_that_was_cordoned_meanwhile() -> None:
    world = pool_world({"node-a1": "10Gi", "node-b1": "20Gi"})
    world.put(claim_object("data", storage_class="made"), pod_object("web", ["data"], gated=True))
    world.recovered.clear()
    async with world.process() as process:
        world.server.lagging = True
        cordon(world, "node-a1")
        await process.run()
        assert world.server.writes == []
        see_all(world)
        await process.run()
    assert selected(world) == {"data": "node-b1"}


@pytest.mark.parametrize("bound", [True, False], ids=["gate", "commit"])
async def test_what_was_decided_before_another_pod_lost_its_other_node_is_planned_again(bound: bool) -> None:
    """That pod has a volume of zone a, and needs most of a node."""
    world = World(Mode.PREBIND)
    world.put(volume_object("pv-first", zone="a"), claim_object("first"), sized("first", "6"))
    world.put(volume_object("pv-web", zone=None, node="node-a1"), claim_object("web"), sized("web", "4", gated=True))
    bind(world, "first", "pv-first")
    if bound:
        bind(world, "web", "pv-web")
    world.recovered.clear()
    async with world.process() as process:
        world.server.lagging = True
        cordon(world, "node-a2")
        await process.run()
        see_all(world)
        await process.run()
    assert world.server.writes == []


def sized(name: str, cpu: str, *, gated: bool = False) -> dict[str, Any]:
    pod = pod_object(name, [name], gated=gated)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return pod
