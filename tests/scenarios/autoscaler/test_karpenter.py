"""Static volumes beside Karpenter: what it does alone, and what it does when volumes are bound ahead of their nodes."""

import logging
import time
from typing import Final

import pytest

from tests.scenarios.autoscaler.karpenter import LAUNCH_SECONDS, ZONES
from tests.scenarios.autoscaler.zonal_volumes import (
    ON_NEW_NODES,
    claims_of,
    controlled,
    joining_class,
    node_pool,
    number_running,
    zonal_volumes,
)
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.provisioner import NAME as PROVISIONER
from tests.scenarios.environment.provisioner import provisioning
from tests.scenarios.environment.waiting import eventually, never
from tests.scenarios.environment.world import World

logger = logging.getLogger(__name__)

NUMBER: Final = 100
ALONE_SECONDS: Final = 2 * LAUNCH_SECONDS


async def test_karpenter_alone_adds_no_node_for_a_volume_in_another_zone(own_world: World) -> None:
    world = own_world
    async with node_pool(world):
        disks = await joining_class(world)
        await zonal_volumes(world, disks, "zone-b")
        await world.pod("db", {"data": claim_spec(disks)})
        await never(world.pod_phases, lambda phases: phases["db"] == "Running", "the pod runs", looks=300)
        assert await world.admin.list("NodeClaim") == []


@pytest.mark.parametrize("gated", [True, False], ids=["gated", "ungated"])
async def test_a_pod_whose_volume_is_in_a_zone_without_a_node_runs(own_world: World, gated: bool) -> None:
    world = own_world
    async with controlled(world):
        disks = await joining_class(world)
        await zonal_volumes(world, disks, "zone-b")
        began = time.monotonic()
        await world.pod("db", {"data": claim_spec(disks)}, gated=gated)
        await runs_soon(world, began)
        assert len(await world.admin.list("NodeClaim")) == 1


async def runs_soon(world: World, began: float) -> None:
    """Wait for the pod `db`, which may take 15 seconds beside the launch of its node."""
    await world.all_run("db", seconds=LAUNCH_SECONDS + 60)
    took = time.monotonic() - began
    logger.info("Running %.1f s after its creation, %.1f s of it beside the launch", took, took - LAUNCH_SECONDS)
    assert took < LAUNCH_SECONDS + 15


async def test_a_pod_whose_volume_is_still_to_be_made_runs_on_a_new_node(own_world: World) -> None:
    """In mode provision nothing is selected ahead of a node: the pod is left to kube-scheduler and Karpenter."""
    world = own_world
    async with controlled(world, ("zone-b",)):
        made = await joining_class(world, "provision", provisioner=PROVISIONER)
        began = time.monotonic()
        async with provisioning(world, made):
            await world.pod("db", {"data": claim_spec(made)}, gated=True, extra=ON_NEW_NODES)
            await runs_soon(world, began)
        assert set((await world.zones()).values()) == {"zone-b"}


async def test_a_node_that_cannot_come_for_a_volume_still_to_be_made_is_reported(own_world: World) -> None:
    world = own_world
    async with controlled(world, ("zone-c",)):
        made = await joining_class(world, "provision", provisioner=PROVISIONER)
        await world.admin.patch("StorageClass", made, late_after(world, "60s"))
        await world.pod("db", claims_of("db", made), gated=True, extra={**ON_NEW_NODES, **of_thirty_cpus("db")})
        await eventually(lambda: world.events("WaitingForNewNode", "db"), bool, "its wait is reported", 120)
        assert await world.held() == {}


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
    async with controlled(world, zones, **limits):
        disks = await joining_class(world)
        await zonal_volumes(world, disks, "zone-b")
        await world.pod("db", {"data": claim_spec(disks)}, gated=True)
        await world.noted("db", words)
        await never(world.held, bool, "the volume is committed", looks=50)


def late_after(world: World, within: str) -> Document:
    """A patch of a class, after which a node for its pods is late."""
    return {"metadata": {"annotations": {f"{world.prefix}new-node-within": within}}}


def of_thirty_cpus(name: str) -> Document:
    """What no instance type has room for."""
    mounts = [{"name": f"{name}-data", "mountPath": "/data"}]
    container: Document = {"name": "main", "image": "pause", "volumeMounts": mounts}
    container["resources"] = {"requests": {"cpu": "30"}}
    return {"containers": [container]}


async def a_hundred_pods(world: World, disks: str, *, gated: bool = True) -> list[str]:
    """Create them at once, and exactly as many volumes, equally many in each zone. Return the pods' names."""
    for zone in ZONES:
        await zonal_volumes(world, disks, zone, NUMBER // len(ZONES))
    documents: list[Document] = []
    for name in (names := [f"db-{each}" for each in range(NUMBER)]):
        documents += world.pod_documents(name, claims_of(name, disks), gated=gated)
    await world.admin.create_at_once(documents)
    return names


async def used_nodes(world: World) -> tuple[set[str], set[str]]:
    """Return the nodes that Karpenter has launched, and those of them with a pod of the story."""
    launched = {node["metadata"]["name"] for node in await world.admin.list("Node")} - {"d1"}
    return launched, launched & {pod["spec"].get("nodeName") for pod in (await world.pods()).values()}


async def test_of_a_hundred_pods_karpenter_alone_runs_those_of_the_zone_with_a_node(own_world: World) -> None:
    """The node of zone-d has room for all of them, so Karpenter counts on it, and launches no other."""
    world = own_world
    async with node_pool(world):
        disks = await world.storage_class(None)
        await a_hundred_pods(world, disks, gated=False)
        of_zone = NUMBER // len(ZONES)
        await eventually(lambda: number_running(world), lambda number: number == of_zone, "those of zone-d run")
        until = time.monotonic() + ALONE_SECONDS
        await eventually(lambda: number_running(world), lambda _: time.monotonic() > until, "time", ALONE_SECONDS + 60)
        launched, used = await used_nodes(world)
        running = await number_running(world)
        logger.info(
            "Alone: %d of %d run after %d s, %d nodes launched, %d of them used",
            running,
            NUMBER,
            ALONE_SECONDS,
            len(launched),
            len(used),
        )
        assert (running, launched) == (of_zone, set())


async def test_a_hundred_pods_over_four_zones_with_exactly_as_many_volumes(own_world: World) -> None:
    """One node in each zone suffices: the others go on when the first pod has it."""
    world = own_world
    async with controlled(world):
        disks, began = await joining_class(world), time.monotonic()
        await world.all_run(*await a_hundred_pods(world, disks), seconds=1500)
        took = time.monotonic() - began
        launched, used = await used_nodes(world)
        logger.info("%d pods run after %.0f s, %d nodes launched", NUMBER, took, len(launched))
        assert launched == used, "a node was launched for nothing"
        assert took < NUMBER // len(ZONES) * LAUNCH_SECONDS / 2, "hardly faster than one pod at a time"


async def test_a_node_that_cannot_come_is_reported_and_one_pod_is_pinned(own_world: World) -> None:
    """That no instance type is large enough is not visible before: the first pod shows it."""
    world = own_world
    async with controlled(world, ("zone-c",)):
        disks = await joining_class(world)
        await world.admin.patch("StorageClass", disks, late_after(world, "90s"))
        await zonal_volumes(world, disks, "zone-c", 3)
        for name in ("db-0", "db-1"):
            await world.pod(name, claims_of(name, disks), gated=True, extra=of_thirty_cpus(name))
        (claim,) = await eventually(world.bound, bool, "one claim is bound")
        await eventually(
            lambda: world.events("WaitingForNewNode", claim.removesuffix("-data")), bool, "its wait is reported", 120
        )
        assert len(await world.bound()) == 1
