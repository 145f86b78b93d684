"""Mode provision beside the real external-provisioner, on a driver whose pools are really full at their limit."""

import pytest

from tests.scenarios.environment import documents
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import Controller, release_lease, start_controller
from tests.scenarios.sidecars.installation import pools

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def nodes_of(world: World, pod: str) -> set[str]:
    """The nodes that are selected for the claims of a pod."""
    claims = [claim for name, claim in (await world.claims()).items() if name.startswith(pod)]
    selected = "volume.kubernetes.io/selected-node"
    return {annotations[selected] for claim in claims if selected in (annotations := claim["metadata"]["annotations"])}


def two(storage_class: str, pod: str, *sizes: str) -> dict[str, documents.Document]:
    return {f"{pod}-{number}": claim_spec(storage_class, size) for number, size in enumerate(sizes)}


async def test_pods_that_fill_the_pools_get_all_of_their_volumes(own_world: World) -> None:
    """Each claim alone fits on either node; only one way of placing the pods leaves none with a part."""
    world = own_world
    async with pools(world, 10) as (made, _):
        controller = await start_controller(world)
        for pod, sizes in (("red", ("4Gi", "3Gi")), ("blue", ("3Gi", "3Gi")), ("green", ("2Gi", "1Gi"))):
            await world.pod(pod, two(made, pod, *sizes), gated=True)
        await world.all_run("red", "blue", "green")
        for pod in ("red", "blue", "green"):
            assert len(await nodes_of(world, pod)) == 1
        await world.pod("large", two(made, "large", "3Gi", "3Gi"), gated=True)
        await world.event("InsufficientCapacity", "large")
        assert (await world.pod_phases())["large"] == "Pending"
        await world.admin.delete("Pod", "blue", world.namespace)
        for number in (0, 1):
            await world.admin.delete("PersistentVolumeClaim", f"blue-{number}", world.namespace)
        await world.all_run("large", seconds=60)
        await controller.stop()


async def test_a_controller_that_is_killed_leaves_no_pod_with_a_part(own_world: World) -> None:
    world = own_world
    async with pools(world, 10) as (made, _):
        controller = await start_controller(world)
        for number in range(4):
            await world.pod(f"pod-{number}", two(made, f"pod-{number}", "3Gi", "2Gi"), gated=True)
        await killed_and_started(world, controller)
        # What was made before counts beside the reports for two rounds of polling (report-after).
        await world.all_run(*(f"pod-{number}" for number in range(4)), seconds=220)
        failed = [
            each for each in await world.admin.list("Event", world.namespace) if "ResourceExhausted" in each["note"]
        ]
        assert failed == []
        await controller.stop()


async def killed_and_started(world: World, controller: Controller) -> None:
    await controller.kill()
    await release_lease(world)
    await controller.start()


async def test_a_pod_that_needs_an_existing_volume_too_gets_all_in_one_place(own_world: World) -> None:
    """The disk is on the second node, where nothing is left for the large pod: that gets nothing at all, until there
    is.
    """
    world = own_world
    async with pools(world, 10) as (made, nodes):
        disks = await world.storage_class("prebind")
        existing = [world.volume(f"disk-{number}", disks, node=nodes[1]) for number in (1, 2)]
        names = await world.volumes(disks, *existing)
        controller = await start_controller(world)
        await world.pod("small", {**two(made, "small", "4Gi", "3Gi"), "small-disk": claim_spec(disks)}, gated=True)
        await world.all_run("small")
        assert await nodes_of(world, "small-0") == {nodes[1]} == await nodes_of(world, "small-1")
        await world.pod("large", {**two(made, "large", "5Gi", "4Gi"), "large-disk": claim_spec(disks)}, gated=True)
        await world.event("NoJointAssignment", "large")
        kept = [volume["spec"].get("claimRef", {}).get("name") for volume in (await world.own_volumes()).values()]
        assert kept.count("small-disk") == 1
        assert "large-disk" not in kept
        await world.admin.delete("Pod", "small", world.namespace)
        for number in (0, 1):
            await world.admin.delete("PersistentVolumeClaim", f"small-{number}", world.namespace)
        await world.all_run("large", seconds=60)
        assert (await world.bound())["large-disk"] in names
        await controller.stop()


async def test_a_controller_that_is_killed_leaves_no_mixed_pod_with_a_part(own_world: World) -> None:
    world = own_world
    async with pools(world, 10) as (made, nodes):
        disks = await world.storage_class("prebind")
        await world.volumes(disks, *(world.volume(f"disk-{node[-1]}", disks, node=node) for node in nodes))
        controller = await start_controller(world)
        for pod in ("red", "blue"):
            await world.pod(pod, {**two(made, pod, "4Gi", "3Gi"), f"{pod}-disk": claim_spec(disks)}, gated=True)
        await killed_and_started(world, controller)
        await world.all_run("red", "blue", seconds=220)
        assert await nodes_of(world, "red-0") != await nodes_of(world, "blue-0")
        await controller.stop()
