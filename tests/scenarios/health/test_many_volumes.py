"""Many volumes on one driver: quiet while nothing changes, and one write for each that does."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial

from devcluster.driver.health import VolumeFault
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.drivers import Directories, endpoint_flag, start_directories
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import Controller, start_controller

VOLUMES, UNHEALTHY, CAP = 300, 30, 15


@asynccontextmanager
async def watched(world: World) -> AsyncIterator[tuple[Directories, Controller]]:
    driver = await start_directories(world.cluster, f"{world.namespace}.csi.example")
    flags = ["--quarantine", f"--quarantine-max-share={CAP / VOLUMES}", "--health-sweep-interval=2s"]
    controller = await start_controller(world, endpoint_flag(driver.driver), *flags)
    yield driver, controller
    await controller.stop()
    await driver.driver.stop()


async def versions(world: World) -> dict[str, str]:
    return {name: volume["metadata"]["resourceVersion"] for name, volume in (await world.own_volumes()).items()}


async def events(world: World) -> Counter[tuple[str, str]]:
    """Count our Events about the story's volumes, by volume and reason; repeats count too."""
    events = await world.admin.list("Event", "default")
    own = (event for event in events if event["regarding"]["name"].startswith(world.name("")))
    return Counter(
        {(event["regarding"]["name"], event["reason"]): event.get("series", {}).get("count", 1) for event in own}
    )


async def swept(controller: Controller, times: int) -> None:
    """Wait until the driver's list was read so many times more."""
    lists = partial(controller.metric, "csi_volume_health_probe_total", result="Listed")
    before = await lists()
    await eventually(lists, lambda now: now >= before + times, f"{times} more sweeps")


async def annotation_counts(world: World, word: str) -> Counter[str]:
    """Count the values of an annotation of ours."""
    annotations = [volume["metadata"].get("annotations", {}) for volume in (await world.own_volumes()).values()]
    return Counter(each[world.prefix + word] for each in annotations if world.prefix + word in each)


async def record(world: World, history: dict[str, list[Document]]) -> None:
    async for volume in world.admin.changes("PersistentVolume"):
        name = volume["metadata"]["name"]
        if name.startswith(world.name("")):
            history.setdefault(name, []).append(volume)


def written(history: dict[str, list[Document]], names: Iterable[str]) -> Counter[str]:
    """Count how often each was written since the history began: its first version was there before."""
    return Counter({name: len(history[name]) - 1 for name in names if len(history[name]) > 1})


async def test_one_write_for_each_change_and_none_without_one(own_world: World) -> None:
    disks = await own_world.storage_class(None)
    async with watched(own_world) as (driver, controller):
        handles = await volumes(own_world, driver, disks)
        await eventually(
            partial(controller.metric, "pvc_prebinder_volumes", health="Healthy"),
            lambda count: count == VOLUMES,
            "all were looked at",
        )
        before = await versions(own_world)
        await swept(controller, times=3)
        assert await versions(own_world) == before
        assert not await events(own_world)
        history: dict[str, list[Document]] = {}
        recording = asyncio.create_task(record(own_world, history))
        await eventually(partial(seen, history), lambda count: count == VOLUMES, "the watch has begun")
        unhealthy = list(handles)[:: VOLUMES // UNHEALTHY]
        await break_many(own_world, driver, controller, {name: handles[name] for name in unhealthy})
        await swept(controller, times=3)
        assert written(history, handles) == Counter(unhealthy), "each unhealthy one is written once, and no other"
        for name in unhealthy:
            driver.recover(handles[name])
        await eventually(
            partial(annotation_counts, own_world, "health"),
            lambda values: values == {"Healthy": UNHEALTHY},
            "all recovered",
        )
        assert not await annotation_counts(own_world, "quarantine")
        recording.cancel()
        await asyncio.gather(recording, return_exceptions=True)


async def break_many(world: World, driver: Directories, controller: Controller, handles: dict[str, str]) -> None:
    """At once: all of them are reported, once, and no more of them are quarantined than the cap allows."""
    for handle in handles.values():
        driver.break_volume(handle, VolumeFault.GONE)
    await eventually(
        partial(annotation_counts, world, "health"),
        lambda values: values == {"Inaccessible": UNHEALTHY},
        "all are told",
    )
    held_back = partial(controller.metric, "pvc_prebinder_quarantine_held_back_volumes")
    await eventually(held_back, lambda count: count == UNHEALTHY - CAP, "the metric says how many are held back")
    assert (await annotation_counts(world, "quarantine")).total() == CAP
    counts = await eventually(
        partial(events, world), lambda counts: counts.total() == UNHEALTHY + CAP, "all Events are there"
    )
    assert {name for name, reason in counts if reason == "VolumeConditionAbnormal"} == set(handles)
    assert set(counts.values()) == {1}


async def volumes(world: World, driver: Directories, disks: str) -> dict[str, str]:
    """Create healthy volumes; return their names and handles."""
    handles = {f"v{number:03}": driver.healthy("zone-a") for number in range(VOLUMES)}
    name = driver.driver.driver_name
    made = (world.volume(word, disks, zone="zone-a", driver=name, handle=handle) for word, handle in handles.items())
    await world.volumes(disks, *made)
    return {world.name(word): handle for word, handle in handles.items()}


async def seen(history: dict[str, list[Document]]) -> int:
    return len(history)
