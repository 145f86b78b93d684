"""Volumes of a driver of the story's own, a controller that probes them every second, and their published health."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from devcluster.driver.health import VolumeFault
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.drivers import Directories, endpoint_flag, start_directories
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import Controller, start_controller


@asynccontextmanager
async def watched(world: World, *flags: str) -> AsyncIterator[tuple[Directories, Controller]]:
    """A driver and a controller of the story's own, which looks at all its volumes every second."""
    driver = await start_directories(world.cluster, f"{world.namespace}.csi.example")
    every_second = ("--health-sweep-interval=1s", "--health-max-age=1s")
    controller = await start_controller(world, endpoint_flag(driver.driver), *every_second, *flags)
    yield driver, controller
    await controller.stop()
    await driver.driver.stop()


async def volumes(world: World, driver: Directories, disks: str, count: int) -> dict[str, str]:
    """Create so many healthy volumes; return their names and handles."""
    handles = {f"v{number:03}": driver.healthy("zone-a") for number in range(count)}
    name = driver.driver.driver_name
    made = (world.volume(word, disks, zone="zone-a", driver=name, handle=handle) for word, handle in handles.items())
    await world.volumes(disks, *made)
    return {world.name(word): handle for word, handle in handles.items()}


async def reserve_another(world: World, driver: Directories, disks: str, made: dict[str, str]) -> tuple[str, str]:
    """Have a gated pod get the first of these two volumes, break it, and return both when the second is reserved."""
    first, second = made
    await world.pod("app", {"data": claim_spec(disks)}, gated=True)
    await eventually(world.reserved, lambda reserved: reserved == {"data": first}, "the first is reserved")
    driver.break_volume(made[first], VolumeFault.GONE)
    await eventually(world.reserved, lambda reserved: reserved == {"data": second}, "the second is reserved")
    return first, second


def annotation(world: World, volume: Document, word: str) -> str | None:
    value = volume["metadata"].get("annotations", {}).get(world.prefix + word)
    return None if value is None else str(value)


async def quarantined(world: World) -> set[str]:
    return {name for name, volume in (await world.own_volumes()).items() if annotation(world, volume, "quarantine")}


async def health(world: World) -> dict[str, str | None]:
    return {name: annotation(world, volume, "health") for name, volume in (await world.own_volumes()).items()}


async def volume_events(world: World, name: str) -> list[str]:
    """The reasons of our Events about a volume, in their order."""
    events = [event for event in await world.admin.list("Event", "default") if event["regarding"]["name"] == name]
    return [event["reason"] for event in sorted(events, key=lambda event: str(event["eventTime"]))]
