"""Classes whose volumes join new nodes, their volumes, and a NodePool that lasts as long as its story."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.scenarios.autoscaler.karpenter import ZONES, add_node_pool, delete_node_pool
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import Controller, start_controller

POOL: Final = "default"
ON_NEW_NODES: Final = {"nodeSelector": {"karpenter.sh/nodepool": POOL}}
"""Laid over the spec of pods that do not run on the node that is there."""


@asynccontextmanager
async def node_pool(world: World, zones: tuple[str, ...] = ZONES, **how: Any) -> AsyncIterator[None]:
    """At the end the story's pods, and the nodes that were launched, are gone."""
    await add_node_pool(world.admin, POOL, zones, **how)
    try:
        yield
    finally:
        await world.admin.delete_all("StatefulSet", world.namespace)
        await world.admin.delete_all("Pod", world.namespace)
        await delete_node_pool(world.admin, POOL)


@asynccontextmanager
async def controlled(world: World, zones: tuple[str, ...] = ZONES, **how: Any) -> AsyncIterator[Controller]:
    """A NodePool, and our controller beside it."""
    async with node_pool(world, zones, **how):
        controller = await start_controller(world)
        yield controller
        await controller.stop()


async def joining_class(world: World, mode: str = "prebind", **how: str) -> str:
    """A class whose volumes join new nodes."""
    disks = await world.storage_class(mode, **how)
    join = {"metadata": {"annotations": {f"{world.prefix}new-nodes": "join-volumes"}}}
    await world.admin.patch("StorageClass", disks, join)
    return disks


async def zonal_volumes(world: World, disks: str, zone: str, number: int = 1) -> None:
    await world.volumes(disks, *(world.volume(f"{zone}-{each}", disks, zone=zone) for each in range(number)))


def claims_of(name: str, disks: str) -> dict[str, Any]:
    return {f"{name}-data": claim_spec(disks)}


async def number_running(world: World) -> int:
    """Return how many pods of the story run, those left out that are ending."""
    pods = (await world.pods()).values()
    return sum(pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in pods)
