"""Gated is guaranteed, ungated is hinted: no volume is committed for a pod that kube-scheduler is looking at."""

import pytest

from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.waiting import eventually, never
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import start_controller

PODS = [f"app-{number}" for number in range(4)]


async def ungated(world: World, disks: str, *pods: str) -> None:
    await world.admin.create_at_once(
        [document for pod in pods for document in world.pod_documents(pod, {f"{pod}-data": claim_spec(disks)})]
    )


async def test_a_slow_controller_gives_no_second_volume_to_a_claim_that_kube_scheduler_served(own_world: World) -> None:
    """One request a second: whatever was decided waits for its turn long after kube-scheduler has gone on.

    Without the PV controller nothing wrong is reverted.
    """
    world = own_world
    disks = await world.storage_class("complete")
    await world.volumes(disks, *(world.volume(f"v{n}", disks, zone="zone-a") for n in range(8)))
    controller = await start_controller(world, "--kube-api-qps=1", "--kube-api-burst=1")
    async with world.scheduler_paused():
        await ungated(world, disks, *PODS)
        await eventually(world.held, bool, "a volume is held for one of them")
    await eventually(world.bound, lambda bound: len(bound) >= 2, "two claims are bound")
    async with world.pv_controller_paused():
        await never(world.violations, bool, "a claim has two volumes", looks=300)
    await world.all_run(*PODS)
    await controller.stop()


@pytest.mark.parametrize("mode", ["prebind", "complete"])
async def test_an_ungated_pod_gets_a_hint_and_what_kube_scheduler_chose(world: World, mode: str) -> None:
    disks = await world.storage_class(mode)
    await world.volumes(disks, world.volume("one", disks, zone="zone-a"), world.volume("two", disks, zone="zone-a"))
    async with world.scheduler_paused():
        await ungated(world, disks, "app")
        (volume,) = (await eventually(world.held, bool, "a hint is given"))["app-data"]
        await eventually(world.reserved, lambda reserved: reserved == {"app-data": volume}, "both sides say so")
        assert "claimRef" not in (await world.own_volumes())[volume]["spec"]
        assert (await world.volume_phases())[volume] == "Available"
    await world.all_run("app")


@pytest.mark.parametrize("mode", ["prebind", "complete"])
async def test_a_pod_that_kube_scheduler_cannot_serve_is_served(world: World, mode: str) -> None:
    """It takes the smallest volume for the smaller claim, the only one that the larger may have; we do not."""
    disks = await world.storage_class(mode)
    both = ("ReadWriteOnce", "ReadOnlyMany")
    await world.volumes(
        disks,
        world.volume("one", disks, zone="zone-a", size="2Gi", access_modes=both),
        world.volume("two", disks, zone="zone-a", size="3Gi"),
    )
    await world.pod("app", {"small": claim_spec(disks), "large": claim_spec(disks, "2Gi", ("ReadOnlyMany",))})
    await world.all_run("app")
    assert await world.bound() == {"small": world.name("two"), "large": world.name("one")}
