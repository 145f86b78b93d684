"""Pods whose volume is made on the disk of one node, where each node that Karpenter launches brings such a disk."""

import logging
import time
from typing import Final

from tests.scenarios.autoscaler.karpenter import LAUNCH_SECONDS
from tests.scenarios.autoscaler.local_disks import local_disks
from tests.scenarios.autoscaler.zonal_volumes import POOL, controlled
from tests.scenarios.environment.documents import Document, claim_spec
from tests.scenarios.environment.world import World

logger = logging.getLogger(__name__)

REPORT_SECONDS: Final = 10


async def pod(world: World, name: str, storage_class: str, cpu: str) -> None:
    """A gated pod that needs most of a new disk."""
    mounts = [{"name": f"{name}-data", "mountPath": "/data"}]
    container: Document = {"name": "main", "image": "pause", "volumeMounts": mounts}
    container["resources"] = {"requests": {"cpu": cpu}}
    claims = {f"{name}-data": claim_spec(storage_class, "80Gi")}
    await world.pod(name, claims, gated=True, extra={"containers": [container]})


async def test_pods_that_fit_no_node_get_nodes_that_bring_their_disks(own_world: World) -> None:
    """Together Karpenter would give them one node, whose disk has room for one of them."""
    world = own_world
    async with controlled(world), local_disks(world, POOL, size=100, report_after=REPORT_SECONDS) as disks:
        await fill_existing(world)
        began = time.monotonic()
        for name in ("db-0", "db-1"):
            await pod(world, name, disks.storage_class, "3")
        await world.all_run("db-0", "db-1", seconds=600)
        took = time.monotonic() - began
        logger.info("both run %.1f s after their creation", took)
        assert took > 2 * LAUNCH_SECONDS, "both were let go at once"
        nodes = {each["spec"]["nodeName"] for name, each in (await world.pods()).items() if name != "filler"}
        assert nodes == set(disks.left)
        assert len(nodes) == 2
        assert not disks.rejected


async def fill_existing(world: World) -> None:
    """Leave the node that is there no room for another pod of the story."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "15"}}}
    await world.pod("filler", {}, extra={"containers": [container]})
    await world.all_run("filler")


async def test_a_pod_that_fits_a_node_without_its_disk_stays_behind_its_gate(own_world: World) -> None:
    world = own_world
    async with controlled(world), local_disks(world, POOL, size=100, report_after=REPORT_SECONDS) as disks:
        await pod(world, "db", disks.storage_class, "3")
        await world.noted("db", "RoomWithoutDisk", "d1")
        assert (await world.pods())["db"]["spec"]["schedulingGates"]
        assert await world.admin.list("NodeClaim") == []
