"""A volume that its driver calls unhealthy, or that lies somewhere else than it says, is passed over."""

import pytest

from devcluster.driver.health import VolumeFault
from devcluster.driver.volumes import create_volume
from tests.scenarios.environment.documents import ZONE, claim_spec
from tests.scenarios.environment.drivers import CAPACITY, Backing, Directories, endpoint_flag
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import start_controller

SECOND = "2-well"


async def two_volumes(world: World, mode: str, first: str, second: str, backing: Backing) -> str:
    """Create two volumes by their handles; both fit, and the first comes first by name. Return their class."""
    disks = await world.storage_class(mode)
    driver = backing.driver.driver_name
    await world.volumes(
        disks,
        world.volume("1-unhealthy", disks, zone="zone-a", driver=driver, handle=first),
        world.volume(SECOND, disks, zone="zone-a", driver=driver, handle=second),
    )
    return disks


async def gets_the_second(world: World, disks: str) -> None:
    await world.pod("app", {"data": claim_spec(disks)}, gated=True)
    chosen = await eventually(world.reserved, bool, "the claim has a volume")
    assert chosen == {"data": world.name(SECOND)}
    assert await world.held() == {"data": [world.name(SECOND)]}


@pytest.mark.parametrize("mode", ["annotate", "prebind", "complete"])
async def test_the_next_candidate_is_taken(world: World, backing: Backing, mode: str) -> None:
    disks = await two_volumes(world, mode, backing.unhealthy("zone-a"), backing.healthy("zone-a"), backing)
    if mode == "annotate":
        # kube-scheduler alone ignores the hint: it may take the unhealthy volume as soon as the gate is removed.
        async with world.scheduler_paused():
            await gets_the_second(world, disks)
        return
    await gets_the_second(world, disks)
    await world.all_run("app")
    assert await world.bound() == {"data": world.name(SECOND)}


@pytest.mark.parametrize("fault", VolumeFault)
async def test_a_volume_with_any_fault_is_passed_over(
    world: World, directories: Directories, fault: VolumeFault
) -> None:
    unhealthy, well = directories.unhealthy("zone-a", fault), directories.healthy("zone-a")
    disks = await two_volumes(world, "prebind", unhealthy, well, directories)
    await gets_the_second(world, disks)


async def test_a_volume_elsewhere_is_passed_over(world: World, directories: Directories) -> None:
    """The volume says zone-a, its driver says zone-c."""
    elsewhere, well = directories.healthy("zone-c"), directories.healthy("zone-a")
    disks = await two_volumes(world, "prebind", elsewhere, well, directories)
    await gets_the_second(world, disks)
    await world.all_run("app")


async def test_another_zone_is_chosen_when_one_of_three_volumes_is_unhealthy(world: World, backing: Backing) -> None:
    disks = await world.storage_class("prebind")
    driver = backing.driver.driver_name
    handles = {"zone-a": [backing.healthy("zone-a"), backing.healthy("zone-a"), backing.unhealthy("zone-a")]}
    handles["zone-b"] = [backing.healthy("zone-b") for _ in range(3)]
    await world.volumes(
        disks,
        *(
            world.volume(f"{zone}-{number}", disks, zone=zone, driver=driver, handle=handle)
            for zone, all_handles in handles.items()
            for number, handle in enumerate(all_handles)
        ),
    )
    await world.pod("app", {f"data-{number}": claim_spec(disks) for number in range(3)}, gated=True)
    chosen = await eventually(world.reserved, lambda reserved: len(reserved) == 3, "all three claims have a volume")
    assert {volume.removeprefix(f"{world.namespace}-")[:6] for volume in chosen.values()} == {"zone-b"}
    await world.all_run("app")


async def test_only_an_unhealthy_volume_fits_so_the_pod_gets_an_event_and_waits_for_its_recovery(
    own_world: World, directories: Directories
) -> None:
    controller = await start_controller(own_world, endpoint_flag(directories.driver), "--health-max-age=100ms")
    disks = await own_world.storage_class("prebind")
    unhealthy = directories.unhealthy("zone-a", VolumeFault.READ_ONLY)
    driver = directories.driver.driver_name
    name = own_world.name("only")
    await own_world.volumes(disks, own_world.volume("only", disks, zone="zone-a", driver=driver, handle=unhealthy))
    await own_world.pod("app", {"data": claim_spec(disks)}, gated=True)
    for about in ("app", "data"):
        await own_world.noted(about, "Unhealthy", "is read-only", name)
    assert await own_world.held() == {}
    assert (await own_world.pods())["app"]["spec"].get("schedulingGates")
    directories.recover(unhealthy)
    await own_world.all_run("app")
    assert await own_world.bound() == {"data": name}
    await controller.stop()


async def test_a_contradiction_is_reported_with_both_sides(world: World, directories: Directories) -> None:
    disks = await world.storage_class("prebind")
    create_volume(directories.root, f"{world.namespace}-moved", CAPACITY, {ZONE: "zone-c"})
    driver = directories.driver.driver_name
    await world.volumes(
        disks,
        world.volume("only", disks, zone="zone-a", driver=driver, handle=f"{world.namespace}-moved"),
    )
    await world.pod("app", {"data": claim_spec(disks)}, gated=True)
    await world.noted("app", "TopologyContradicted", "zone-c", "zone-a")
    assert await world.held() == {}
