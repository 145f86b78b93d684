"""Volumes are held for replicas to come, competing pods do not get them, and a scale-up binds exactly these."""

import pytest

from tests.scenarios.environment.documents import ZONES, claim_spec
from tests.scenarios.environment.waiting import eventually, never
from tests.scenarios.environment.world import World
from tests.scenarios.holds.sets import FLAGS, claims_of, disks_in_zones, held_exactly, running_set, scale
from tests.scenarios.processes.controller import start_controller

RIVALS = [f"rival-{number}" for number in range(10)]


@pytest.mark.parametrize("mode", ["prebind", "complete"])
async def test_held_volumes_go_to_the_replicas_to_come_and_to_no_other_pod(own_world: World, mode: str) -> None:
    world = own_world
    disks = await disks_in_zones(world, each=2, mode=mode)
    await running_set(world, disks, replicas=3, hold=6)
    controller = await start_controller(world, *FLAGS)
    held = await held_exactly(world, 3, 4, 5)
    await world.noted("db", "held for replicas 3-5")

    for rival in RIVALS:
        await world.pod(rival, {rival: claim_spec(disks)}, gated=rival < RIVALS[5])
    await never(world.bound, lambda bound: not bound.keys().isdisjoint(RIVALS), "a rival got a volume", looks=30)

    await scale(world, 6)
    await world.all_run(*(f"db-{number}" for number in range(6)))
    bound = await world.bound()
    assert {claim: bound[claim] for claim in claims_of(3, 4, 5)} == held
    zones = await world.zones()
    assert sorted(str(zones[held[f"data-db-{number}"]]) for number in (3, 4, 5)) == sorted(ZONES)
    await eventually(world.own_volumes, lambda own: f"{world.prefix}held-" not in str(own), "no hold is left")
    assert await controller.metric("pvc_prebinder_holds_ended_total", cause="fulfilled") == 6 or mode == "complete"
    await controller.stop()
