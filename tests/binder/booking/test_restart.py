"""Room that pods have on nodes by what was committed for them before the process began."""

from typing import Any

import pytest

from binder.model.decision import Mode
from tests.binder.world import World
from tests.fakes.objects import claim_object, pod_object, volume_object

COMMITTING = pytest.mark.parametrize("mode", [Mode.PREBIND, Mode.COMPLETE])


def gated(name: str, claim: str, cpu: str) -> dict[str, Any]:
    pod = pod_object(name, [claim], gated=True)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return pod


def waits(world: World, name: str) -> bool:
    return bool(world.server.get("pods", f"default/{name}")["spec"].get("schedulingGates"))


def world_of(mode: Mode, **where: str | None) -> World:
    """Two volumes of a place, and claims for them; each node has 8 CPUs."""
    world = World(mode, binds=True)
    for name in ("pv-1", "pv-2"):
        world.put(volume_object(name, **where))  # type: ignore[arg-type]
    world.put(claim_object("first"), claim_object("second"))
    return world


@COMMITTING
async def test_after_a_restart_the_only_node_of_a_pod_that_is_still_to_be_placed_is_not_given_to_another(
    mode: Mode,
) -> None:
    world = world_of(mode, zone=None, node="node-a1")
    world.put(gated("first", "first", "5"))
    async with world.process() as process:
        await process.run()
    assert not waits(world, "first")
    world.put(gated("second", "second", "5"))
    async with world.process(transition=2) as process:
        await process.run()
        assert waits(world, "second"), "its volumes would be committed where only one of the two can run"
        assert world.claim("second")["spec"].get("volumeName") is None
        world.server.remove("pods", "default/first")
        await process.run(70)
    assert not waits(world, "second")


@COMMITTING
async def test_a_pod_that_its_only_node_has_no_room_for_books_nothing(mode: Mode) -> None:
    world = world_of(mode, zone=None, node="node-a1")
    world.put(gated("first", "first", "5"))
    async with world.process() as process:
        await process.run()
    world.put(gated("first", "first", "50"), gated("second", "second", "5"))
    async with world.process(transition=2) as process:
        await process.run()
    assert not waits(world, "second")
