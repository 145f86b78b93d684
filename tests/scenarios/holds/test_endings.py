"""How holds end, what they survive, and that a volume known unhealthy is given up before another one is held."""

import asyncio

from tests.scenarios.environment.waiting import eventually, never
from tests.scenarios.environment.world import World
from tests.scenarios.holds.sets import FLAGS, claims_of, disks_in_zones, held, held_exactly, running_set, want
from tests.scenarios.processes.controller import start_controller


async def test_holds_follow_the_annotation_and_outlive_a_restart(own_world: World) -> None:
    world = own_world
    disks = await disks_in_zones(world, each=2)
    await running_set(world, disks, replicas=3, hold=5)
    controller = await start_controller(world, *FLAGS)
    before = await held_exactly(world, 3, 4)
    await controller.kill()
    await controller.start()
    await eventually(lambda: controller.metric("pvc_prebinder_held_replicas"), lambda held: held == 2, "a pass", 60)
    assert await held(world) == before
    await want(world, 6)
    await held_exactly(world, 3, 4, 5)
    await want(world, 4)
    assert await held_exactly(world, 3) == {claim: before[claim] for claim in claims_of(3)}
    await want(world, None)
    await held_exactly(world)
    phases = await world.volume_phases()
    assert sorted(phases.values()) == ["Available"] * 6 + ["Bound"] * 6
    assert not any("claimRef" in volume["spec"] for volume in (await world.own_volumes()).values() if is_free(volume))
    await controller.stop()


def is_free(volume: dict[str, dict[str, object]]) -> bool:
    return volume["status"]["phase"] == "Available"


async def test_never_more_is_held_than_the_caps_allow_even_after_restarts(own_world: World) -> None:
    world = own_world
    disks = await disks_in_zones(world, each=3)
    await running_set(world, disks, replicas=3, hold=9)
    controller = await start_controller(world, "--hold-volumes", "--hold-max-share=1", "--hold-max-per-namespace=5")
    await held_exactly(world, 3, 4)
    await world.noted("db", "none for replica 5", "at most 5 volumes are held for namespace")
    for _ in range(2):
        await controller.kill()
        await controller.start()
        await never(lambda: held(world), lambda held: len(held) > 4, "more is held", looks=20)
    await controller.stop()


async def test_an_unhealthy_volume_is_given_up_before_another_one_is_held(own_world: World) -> None:
    world = own_world
    disks = await disks_in_zones(world, each=3)
    await running_set(world, disks, replicas=3, hold=4)
    controller = await start_controller(world, *FLAGS)
    first = await held_exactly(world, 3)
    seen: list[dict[str, list[str]]] = []
    watching = asyncio.create_task(watch_held(world, seen))
    words = {"health": "DataLoss", "health-reason": "Gone", "health-since": "2026-01-01T00:00:00Z"}
    notes = {f"{world.prefix}{key}": value for key, value in words.items()}
    await world.admin.patch("PersistentVolume", first["data-db-3"], {"metadata": {"annotations": notes}})
    second = await eventually(
        lambda: held_exactly(world, 3), lambda held: held["data-db-3"] != first["data-db-3"], "another is held", 60
    )
    watching.cancel()
    zones = await world.zones()
    assert zones[second["data-db-3"]] == zones[second["log-db-3"]]
    assert all(len(volumes) == 1 for held in seen for claim, volumes in held.items() if claim in claims_of(3))
    await controller.stop()


async def watch_held(world: World, seen: list[dict[str, list[str]]]) -> None:
    while True:
        seen.append(await world.held())


async def test_a_set_that_is_created_again_keeps_its_holds(own_world: World) -> None:
    world = own_world
    disks = await disks_in_zones(world, each=2)
    await running_set(world, disks, replicas=3, hold=4)
    controller = await start_controller(world, *FLAGS)
    before = await held_exactly(world, 3)
    await world.cluster.run_kubectl("-n", world.namespace, "delete", "statefulset", "db", "--cascade=orphan")
    await never(lambda: held(world), lambda held: held != before, "a hold ended", looks=20)
    await running_set(world, disks, replicas=3, hold=4)
    stored = await world.admin.get("StatefulSet", "db", world.namespace)
    key = f"{world.prefix}held-set-uid"
    await eventually(
        world.own_volumes,
        lambda own: (
            {own[name]["metadata"]["annotations"][key] for name in before.values()} == {stored["metadata"]["uid"]}
        ),
        "the new set's uid is recorded",
    )
    assert await held(world) == before
    await controller.stop()


async def test_holds_end_with_their_namespace(own_world: World) -> None:
    world = own_world
    disks = await disks_in_zones(world, each=2)
    await running_set(world, disks, replicas=3, hold=4)
    controller = await start_controller(world, *FLAGS)
    await held_exactly(world, 3)
    # Leases live in the namespace: the controller may be the last that works there.
    await world.admin.delete("Namespace", world.namespace)
    await held_exactly(world)
    await controller.stop()
