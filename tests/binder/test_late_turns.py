"""What changes while a write waits for its turn at the rate limit: it is not sent on what was checked before."""

import pytest

from binder.model.decision import Mode
from tests.binder.world import World
from tests.fakes.objects import claim_object, pod_object, volume_object


def two_pods(mode: Mode) -> World:
    """One request in five seconds: the second pod's volume is written after the first one's gate is removed."""
    world = World(mode, qps=0.2)
    for name in ("first", "second"):
        world.put(volume_object(f"pv-{name}"), claim_object(name), pod_object(name, [name], gated=True))
    return world


def waits(world: World) -> str:
    """Return the pod whose volume is not written yet."""
    [name] = {"first", "second"} - {
        document["metadata"]["name"].removeprefix("pv-")
        for document in world.server.all("persistentvolumes")
        if document["spec"].get("claimRef") or "annotations" in document["metadata"]
    }
    return name


@pytest.mark.parametrize("mode", [Mode.PREBIND, Mode.COMPLETE])
async def test_no_volume_is_committed_for_a_pod_that_was_deleted_meanwhile(mode: Mode) -> None:
    world = two_pods(mode)
    async with world.process() as process:
        while not world.server.writes:
            await process.run(1)
        late = waits(world)
        written = len(world.server.writes)
        while len(world.server.writes) == written:
            await process.run(1)
        world.server.remove("pods", f"default/{late}")
        await process.run(120)
    [volume] = [each for each in world.server.all("persistentvolumes") if each["metadata"]["name"] == f"pv-{late}"]
    assert "claimRef" not in volume["spec"]


async def test_a_gate_stays_if_the_volume_was_released_while_its_removal_waited() -> None:
    world = World(Mode.ANNOTATE, qps=0.2)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], gated=True))
    async with world.process() as process:
        while [write.plural for write in world.server.writes] != ["persistentvolumes", "persistentvolumeclaims"]:
            await process.run(1)
        world.server.change("persistentvolumes", "pv-1", lambda volume: volume["metadata"].pop("annotations"))
        await process.run(5)
        gated = bool(world.server.get("pods", "default/web")["spec"].get("schedulingGates"))
        held = "annotations" in world.volume("pv-1")["metadata"]
        assert gated or held
        await process.run(120)
    assert world.reserved("data") == "pv-1"
    assert not world.server.get("pods", "default/web")["spec"].get("schedulingGates")


async def test_a_gate_stays_if_the_claim_was_recreated_while_its_removal_waited() -> None:
    world = World(Mode.ANNOTATE, qps=0.2)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], gated=True))
    async with world.process() as process:
        while [write.plural for write in world.server.writes] != ["persistentvolumes", "persistentvolumeclaims"]:
            await process.run(1)
        world.server.remove("persistentvolumeclaims", "default/data")
        world.server.put(claim_object("data", uid="another"))
        await process.run(5)
        assert world.server.get("pods", "default/web")["spec"].get("schedulingGates")
