"""Volumes are held for replicas to come, competing pods do not get them, and a scale-up binds exactly these."""

import asyncio
import logging

import pytest

from tests.scenarios.environment.documents import ZONES, claim_spec
from tests.scenarios.environment.waiting import eventually, never
from tests.scenarios.environment.world import World
from tests.scenarios.holds.sets import FLAGS, claims_of, disks_in_zones, held_exactly, running_set, scale
from tests.scenarios.processes.controller import start_controller

CROWD, AT_ONCE = 500, 25
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


@pytest.mark.timeout(900)
@pytest.mark.parametrize("holding", [True, False], ids=["held", "in-tree"])
async def test_twelve_replicas_run_on_exactly_enough_volumes_although_500_pods_compete(
    own_world: World, *, holding: bool
) -> None:
    world = own_world
    disks = await disks_in_zones(world, each=4)
    await running_set(world, disks, replicas=3, hold=12)
    held: dict[str, str] = {}
    if holding:
        controller = await start_controller(world, *FLAGS)
        held = await held_exactly(world, *range(3, 12))

    await asyncio.gather(scale(world, 12), crowd(world, disks))
    bound = await eventually(world.bound, lambda bound: len(bound) == 24, "all volumes are bound", 300)
    phases = await world.pod_phases()
    running = [number for number in range(12) if claims_of(number) <= bound.keys()]
    logging.info("%d of 12 replicas have their volumes, of %d pods", len(running), len(phases))
    if holding:
        await world.all_run(*(f"db-{number}" for number in running), seconds=120)
        assert running == list(range(12))
        assert held.items() <= bound.items()
        await controller.stop()
    else:
        assert len(running) < 12


async def crowd(world: World, disks: str) -> None:
    """Create pods, each of which could have any of the volumes; half of them gated."""
    room = asyncio.Semaphore(AT_ONCE)

    async def rival(number: int) -> None:
        async with room:
            await world.pod(f"crowd-{number}", {f"crowd-{number}": claim_spec(disks)}, gated=bool(number % 2))

    await asyncio.gather(*map(rival, range(CROWD)))
