"""What changes while a write waits for its turn at the rate limit: it is not sent on what was checked before."""

import pytest

from binder.model.decision import Mode
from tests.binder.world import Process, World
from tests.fakes.objects import claim_object, pod_object, volume_object


def one_pod(mode: Mode) -> World:
    """One request in five seconds, and a gated pod with one claim."""
    world = World(mode, qps=0.2)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], gated=True))
    return world


async def only_its_gate_is_left(world: World, process: Process) -> None:
    while [write.plural for write in world.server.writes] != ["persistentvolumes", "persistentvolumeclaims"]:
        await process.run(1)


def is_gated(world: World) -> bool:
    return bool(world.server.get("pods", "default/web")["spec"].get("schedulingGates"))


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
