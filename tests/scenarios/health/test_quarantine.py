"""Unhealthy Available volumes are kept from claims, though claims race for them, and released on recovery."""

import asyncio
from collections import defaultdict
from contextlib import nullcontext
from functools import partial

import pytest

from devcluster.driver.health import VolumeFault
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import IMMEDIATE, claim, claim_spec
from tests.scenarios.environment.drivers import Directories, endpoint_flag
from tests.scenarios.environment.waiting import eventually, never
from tests.scenarios.environment.world import World
from tests.scenarios.health.probed_volumes import (
    annotation,
    health,
    quarantined,
    reserve_another,
    volume_events,
    volumes,
    watched,
)

ROUNDS = 100
AT_ONCE = 10


async def claim_phases(world: World) -> dict[str, str]:
    return {name: claim["status"]["phase"] for name, claim in (await world.claims()).items()}


async def test_no_claim_gets_an_unhealthy_available_volume_until_it_is_healthy(own_world: World) -> None:
    disks = await own_world.storage_class(None, binding=IMMEDIATE)
    async with watched(own_world, "--quarantine") as (driver, controller):
        ((name, handle),) = (await volumes(own_world, driver, disks, 1)).items()
        driver.break_volume(handle, VolumeFault.GONE)
        await eventually(partial(quarantined, own_world), lambda inside: inside == {name}, "it is in quarantine")
        volume = (await own_world.own_volumes())[name]
        assert volume["status"]["phase"] == "Available"
        assert volume["spec"]["claimRef"]["namespace"] == own_world.namespace
        assert "uid" not in volume["spec"]["claimRef"]
        assert annotation(own_world, volume, "health") == "Inaccessible"
        await own_world.admin.create(claim(own_world.namespace, "data", claim_spec(disks)))
        await eventually(
            partial(own_world.admin.list, "Event", own_world.namespace),
            lambda events: any(event["reportingController"] == "persistentvolume-controller" for event in events),
            "the PV controller looked for a volume for the claim",
        )
        await never(partial(claim_phases, own_world), lambda phases: phases["data"] == "Bound", "it is bound")
        assert await controller.metric("pvc_prebinder_quarantined_volumes", storage_class=disks) == 1
        driver.recover(handle)
        await eventually(own_world.bound, lambda bound: bound == {"data": name}, "the claim has it")
        assert await quarantined(own_world) == set()
        expected = ["VolumeConditionAbnormal", "Quarantined", "VolumeConditionNormal", "QuarantineReleased"]
        await eventually(
            partial(volume_events, own_world, name), lambda events: sorted(events) == sorted(expected), "told"
        )


async def test_a_new_process_keeps_and_ends_what_a_dead_one_quarantined(own_world: World) -> None:
    disks = await own_world.storage_class(None)
    async with watched(own_world, "--quarantine", "--no-leader-elect") as (driver, controller):
        ((name, handle),) = (await volumes(own_world, driver, disks, 1)).items()
        driver.break_volume(handle, VolumeFault.GONE)
        await eventually(partial(quarantined, own_world), lambda inside: inside == {name}, "it is in quarantine")
        await controller.kill()
        before = (await own_world.own_volumes())[name]["metadata"]["resourceVersion"]
        await controller.start()
        await eventually(
            partial(controller.metric, "pvc_prebinder_volumes", health="Inaccessible"), bool, "it was looked at again"
        )
        assert (await own_world.own_volumes())[name]["metadata"]["resourceVersion"] == before
        driver.recover(handle)
        await eventually(partial(quarantined, own_world), lambda inside: not inside, "it is free")
        assert "claimRef" not in (await own_world.own_volumes())[name]["spec"]


async def test_a_volume_restored_from_a_backup_is_in_quarantine_as_before(own_world: World) -> None:
    """As a restore does: the same annotations and claimRef, another uid, and Pending until the PV controller looks."""
    disks = await own_world.storage_class(None)
    async with watched(own_world, "--quarantine") as (driver, _):
        ((name, handle),) = (await volumes(own_world, driver, disks, 1)).items()
        driver.break_volume(handle, VolumeFault.GONE)
        await eventually(partial(quarantined, own_world), lambda inside: inside == {name}, "it is in quarantine")
        backup = (await own_world.own_volumes())[name]
        async with own_world.pv_controller_paused():
            await own_world.admin.patch("PersistentVolume", name, {"metadata": {"finalizers": None}})
            await own_world.admin.delete("PersistentVolume", name)
            kept = {
                key: backup["metadata"][key] for key in ("name", "annotations", "labels") if key in backup["metadata"]
            }
            head = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": kept}
            await own_world.admin.create({**head, "spec": backup["spec"]})
            assert await own_world.volume_phases() == {name: "Pending"}
            await never(partial(quarantined, own_world), lambda inside: inside != {name}, "it is let out")
        await eventually(own_world.volume_phases, lambda phases: phases == {name: "Available"}, "it is Available")
        assert await quarantined(own_world) == {name}
        driver.recover(handle)
        await eventually(partial(quarantined, own_world), lambda inside: not inside, "it is free")
        assert "claimRef" not in (await own_world.own_volumes())[name]["spec"]


async def test_a_driver_that_calls_everything_unhealthy_does_not_empty_a_class(
    own_world: World, directories: Directories
) -> None:
    """At most 30 % of the volumes are quarantined, a metric tells of the rest, and pods get those of another driver."""
    disks, honest = await own_world.storage_class("prebind"), endpoint_flag(directories.driver)
    async with watched(own_world, "--quarantine", honest) as (driver, controller):
        made = await volumes(own_world, driver, disks, 9)
        well = {"driver": directories.driver.driver_name, "handle": directories.healthy("zone-a")}
        await own_world.volumes(disks, own_world.volume("well", disks, zone="zone-a", **well))
        for handle in made.values():
            driver.break_volume(handle, VolumeFault.GONE)
        await eventually(
            partial(health, own_world),
            lambda health: {health[name] for name in made} == {"Inaccessible"},
            "all are unhealthy",
        )
        held_back = partial(controller.metric, "pvc_prebinder_quarantine_held_back_volumes", storage_class=disks)
        await eventually(held_back, lambda count: count == 6, "the metric says how many are held back")
        assert len(await quarantined(own_world)) == 3
        await own_world.pod("served", {"first": claim_spec(disks)}, gated=True)
        await own_world.all_run("served")
        assert await own_world.bound() == {"first": own_world.name("well")}
        await own_world.pod("waiting", {"second": claim_spec(disks)}, gated=True)
        await own_world.noted("waiting", "Unhealthy")
        assert set(await own_world.held()) - {f"quarantine-{name}" for name in made} == {"first"}
        name = min(set(made) - await quarantined(own_world))
        driver.recover(made[name])
        await own_world.all_run("waiting")
        assert (await own_world.bound())["second"] == name


@pytest.mark.parametrize("mode", ["annotate", "prebind"])
async def test_a_reservation_goes_to_another_volume(own_world: World, mode: str) -> None:
    disks = await own_world.storage_class(mode)
    paused = own_world.pv_controller_paused if mode == "prebind" else nullcontext
    async with watched(own_world, "--quarantine") as (driver, _), own_world.scheduler_paused():
        made = await volumes(own_world, driver, disks, 2)
        async with paused():
            first, second = await reserve_another(own_world, driver, disks, made)
            await eventually(partial(quarantined, own_world), lambda inside: inside == {first}, "the first is kept")
            await own_world.event("ReservationLost", "app")
        await eventually(
            own_world.pods, lambda pods: not pods["app"]["spec"].get("schedulingGates"), "the gate is gone"
        )
    await own_world.all_run("app")
    assert await own_world.bound() == {"data": second}


async def test_quarantine_and_the_pv_controller_race_for_the_same_volumes(own_world: World) -> None:
    """Each volume is known to be unhealthy when it becomes free, and at that moment a claim asks for one."""
    disks = await own_world.storage_class(None, binding=IMMEDIATE)
    async with watched(own_world, "--quarantine", "--quarantine-max-share=1") as (driver, _):
        made = await volumes(own_world, driver, disks, ROUNDS)
        elsewhere = {"spec": {"claimRef": {"namespace": own_world.namespace, "name": "nobody"}}}
        await asyncio.gather(*(own_world.admin.patch("PersistentVolume", name, elsewhere) for name in made))
        for handle in made.values():
            driver.break_volume(handle, VolumeFault.GONE)
        await eventually(
            partial(health, own_world),
            lambda health: set(health.values()) == {"Inaccessible"},
            "all are known as unhealthy",
        )
        history: defaultdict[str, list[Document]] = defaultdict(list)
        recording = asyncio.create_task(record(own_world, history))
        turns = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(race(own_world, disks, name, turns, number) for number, name in enumerate(made)))
        await eventually(partial(undecided, own_world), lambda names: not names, "each volume went to one of the two")
        inside, bound = await quarantined(own_world), await own_world.bound()
        assert inside.isdisjoint(bound.values())
        for handle in made.values():
            driver.recover(handle)
        await eventually(own_world.bound, lambda bound: sorted(bound.values()) == sorted(made), "all are bound", 180)
        recording.cancel()
        await asyncio.gather(recording, return_exceptions=True)
    assert {name for name in history if name.startswith(own_world.name(""))} == set(made)
    assert [fault for name in made for fault in faults(own_world, name, history[name])] == []


async def race(world: World, disks: str, name: str, turns: asyncio.Semaphore, number: int) -> None:
    """Free one volume and ask for one: one before the other, the other way round, or at the same time."""
    freed = partial(world.admin.patch, "PersistentVolume", name, {"spec": {"claimRef": None}})
    create = partial(world.admin.create, claim(world.namespace, f"claim-{number}", claim_spec(disks)))
    async with turns:
        match number % 3:
            case 0:
                await freed()
                await create()
            case 1:
                await create()
                await freed()
            case _:
                await asyncio.gather(freed(), create())


async def record(world: World, history: defaultdict[str, list[Document]]) -> None:
    async for volume in world.admin.changes("PersistentVolume"):
        history[volume["metadata"]["name"]].append(volume)


async def undecided(world: World) -> list[str]:
    return [
        name
        for name, volume in (await world.own_volumes()).items()
        if volume["status"]["phase"] != "Bound" and not annotation(world, volume, "quarantine")
    ]


def faults(world: World, name: str, versions: list[Document]) -> list[str]:
    """Say where in its life a volume was in quarantine and a claim's at once, or lost the claim that had it."""
    violations, holder = [], ""
    for version in versions:
        reference = version["spec"].get("claimRef", {})
        uid = reference.get("uid", "")
        if annotation(world, version, "quarantine") and (uid or reference.get("name") != f"quarantine-{name}"):
            violations.append(f"{name} is in quarantine and has {reference}")
        if holder and uid != holder:
            violations.append(f"{name} lost claim {holder} to {reference}")
        holder = holder or uid
    return violations
