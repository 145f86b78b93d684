"""Static volumes beside Karpenter: what it does alone, and what it does when volumes are bound ahead of their nodes."""

import logging
import time
from typing import Final

import pytest

from tests.scenarios.autoscaler.karpenter import LAUNCH_SECONDS, ZONES, add_node_pool, delete_node_pool
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.waiting import eventually, never
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import start_controller

logger = logging.getLogger(__name__)


async def joining_class(world: World) -> str:
    """A class whose volumes join new nodes."""
    disks = await world.storage_class("prebind")
    join = {"metadata": {"annotations": {f"{world.prefix}new-nodes": "join-volumes"}}}
    await world.admin.patch("StorageClass", disks, join)
    return disks


async def zonal_volumes(world: World, disks: str, zone: str, number: int = 1) -> None:
    await world.volumes(disks, *(world.volume(f"{zone}-{each}", disks, zone=zone) for each in range(number)))


async def test_karpenter_alone_adds_no_node_for_a_volume_in_another_zone(own_world: World) -> None:
    world = own_world
    await add_node_pool(world.admin, "default")
    disks = await joining_class(world)
    await zonal_volumes(world, disks, "zone-b")
    await world.pod("db", {"data": claim_spec(disks)})
    await never(world.pod_phases, lambda phases: phases["db"] == "Running", "the pod runs", looks=300)
    assert await world.admin.list("NodeClaim") == []
    await world.admin.delete_all("Pod", world.namespace)
    await delete_node_pool(world.admin, "default")


@pytest.mark.parametrize("gated", [True, False], ids=["gated", "ungated"])
async def test_a_pod_whose_volume_is_in_a_zone_without_a_node_runs(own_world: World, gated: bool) -> None:
    world = own_world
    await add_node_pool(world.admin, "default")
    controller = await start_controller(world)
    disks = await joining_class(world)
    await zonal_volumes(world, disks, "zone-b")
    began = time.monotonic()
    await world.pod("db", {"data": claim_spec(disks)}, gated=gated)
    await world.all_run("db", seconds=LAUNCH_SECONDS + 60)
    took = time.monotonic() - began
    logger.info("Running %.1f s after its creation, %.1f s of it beside the launch", took, took - LAUNCH_SECONDS)
    assert took < LAUNCH_SECONDS + 15
    assert len(await world.admin.list("NodeClaim")) == 1
    await world.admin.delete_all("Pod", world.namespace)
    await delete_node_pool(world.admin, "default")
    await controller.stop()


@pytest.mark.parametrize(
    ("zones", "limits", "words"),
    [
        pytest.param(("zone-a", "zone-c"), {}, "NoJointAssignment", id="a pool without the zone"),
        pytest.param(ZONES, {"cpu": "0"}, "its limit of cpu 0 is reached", id="a pool at its limit"),
    ],
)
async def test_nothing_is_pinned_where_no_node_can_come(
    own_world: World, zones: tuple[str, ...], limits: dict[str, str], words: str
) -> None:
    world = own_world
    await add_node_pool(world.admin, "default", zones, **limits)
    controller = await start_controller(world)
    disks = await joining_class(world)
    await zonal_volumes(world, disks, "zone-b")
    await world.pod("db", {"data": claim_spec(disks)}, gated=True)
    await world.noted("db", words)
    await never(world.held, bool, "the volume is committed", looks=50)
    await world.admin.delete_all("Pod", world.namespace)
    await delete_node_pool(world.admin, "default")
    await controller.stop()


NUMBER: Final = 100


async def a_hundred_pods(world: World, disks: str) -> list[str]:
    """Create them at once, and exactly as many volumes, equally many in each zone. Return the pods' names."""
    for zone in ZONES:
        await zonal_volumes(world, disks, zone, NUMBER // len(ZONES))
    documents: list[Document] = []
    for name in (names := [f"db-{each}" for each in range(NUMBER)]):
        documents += world.pod_documents(name, claims_of(name, disks), gated=True)
    await world.admin.create_at_once(documents)
    return names


async def used_nodes(world: World) -> tuple[set[str], set[str]]:
    """Return the nodes that Karpenter has launched, and those of them with a pod of the story."""
    launched = {node["metadata"]["name"] for node in await world.admin.list("Node")} - {"d1"}
    return launched, launched & {pod["spec"].get("nodeName") for pod in (await world.pods()).values()}


async def test_a_hundred_pods_over_four_zones_with_exactly_as_many_volumes(own_world: World) -> None:
    """One node in each zone suffices: the others go on when the first pod has it."""
    world = own_world
    await add_node_pool(world.admin, "default")
    controller = await start_controller(world)
    disks, began = await joining_class(world), time.monotonic()
    await world.all_run(*await a_hundred_pods(world, disks), seconds=1500)
    took = time.monotonic() - began
    launched, used = await used_nodes(world)
    logger.info("%d pods run after %.0f s, %d nodes launched", NUMBER, took, len(launched))
    assert launched == used, "a node was launched for nothing"
    assert took < NUMBER // len(ZONES) * LAUNCH_SECONDS / 2, "hardly faster than one pod at a time"
    await world.admin.delete_all("Pod", world.namespace)
    await delete_node_pool(world.admin, "default")
    await controller.stop()


def claims_of(name: str, disks: str) -> dict[str, Document]:
    return {f"{name}-data": claim_spec(disks)}


async def test_a_node_that_cannot_come_is_reported_and_one_pod_is_pinned(own_world: World) -> None:
    """That no instance type is large enough is not visible before: the first pod shows it."""
    world = own_world
    await add_node_pool(world.admin, "small", ("zone-c",))
    controller = await start_controller(world)
    disks = await joining_class(world)
    within = {"metadata": {"annotations": {f"{world.prefix}new-node-within": "90s"}}}
    await world.admin.patch("StorageClass", disks, within)
    await zonal_volumes(world, disks, "zone-c", 3)
    for name in ("db-0", "db-1"):
        mounts = [{"name": f"{name}-data", "mountPath": "/data"}]
        container: Document = {"name": "main", "image": "pause", "volumeMounts": mounts}
        container["resources"] = {"requests": {"cpu": "30"}}
        await world.pod(name, claims_of(name, disks), gated=True, extra={"containers": [container]})
    (claim,) = await eventually(world.bound, bool, "one claim is bound")
    await eventually(
        lambda: world.events("WaitingForNewNode", claim.removesuffix("-data")), bool, "its wait is reported", 120
    )
    assert len(await world.bound()) == 1
    await world.admin.delete_all("Pod", world.namespace)
    await delete_node_pool(world.admin, "small")
    await controller.stop()
