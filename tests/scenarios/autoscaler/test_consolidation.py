"""Nodes that were launched for pods with volumes are removed while other pods of the set still wait for theirs."""

import logging
import time
from collections import defaultdict
from typing import Final

import pytest

from tests.running_task import running
from tests.scenarios.autoscaler.karpenter import AT_ONCE, LAUNCH_SECONDS, ZONES
from tests.scenarios.autoscaler.zonal_volumes import controlled, joining_class, number_running, zonal_volumes
from tests.scenarios.environment import documents
from tests.scenarios.environment.documents import ZONE, Document, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

logger = logging.getLogger(__name__)

OF_ZONE: Final = 6
NUMBER: Final = OF_ZONE * len(ZONES)
SECONDS: Final = 10 * LAUNCH_SECONDS


def a_set(world: World, disks: str) -> Document:
    """Gated pods: a small instance has room for one, a large one for all of a zone, and is cheaper than five small."""
    made = documents.stateful_set(world.namespace, "db", {"data": claim_spec(disks)}, replicas=NUMBER)
    spec = made["spec"]["template"]["spec"]
    spec["schedulingGates"] = [{"name": f"{world.prefix}volumes"}]
    spec["nodeSelector"] = {"karpenter.sh/nodepool": "default"}
    spec["containers"][0]["resources"] = {"requests": {"cpu": "600m"}}
    return made


async def scale(world: World, replicas: int) -> None:
    await world.admin.patch("StatefulSet", "db", {"spec": {"replicas": replicas}}, world.namespace)


async def node_claims(world: World) -> dict[str, str]:
    """Return the node of each NodeClaim."""
    claims = await world.admin.list("NodeClaim")
    return {each["metadata"]["name"]: each.get("status", {}).get("nodeName", "") for each in claims}


async def one_in_use(world: World, node_claims: dict[str, str]) -> str:
    """Return a NodeClaim on whose node a pod runs."""
    nodes = {pod["spec"].get("nodeName") for pod in (await world.pods()).values()}
    return next(claim for claim, node in node_claims.items() if node in nodes)


class Pairs:
    """Every pair of a claim and a volume that was ever seen."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.claims_of: defaultdict[str, set[str]] = defaultdict(set)
        self.volumes_of: defaultdict[str, set[str]] = defaultdict(set)

    async def follow(self) -> None:
        """Watch volumes until cancelled."""
        async for volume in self._world.admin.changes("PersistentVolume"):
            name, reference = volume["metadata"]["name"], volume["spec"].get("claimRef", {})
            if reference.get("namespace") == self._world.namespace:
                self.claims_of[name].add(reference["uid"])
                self.volumes_of[reference["uid"]].add(name)

    def doubled(self) -> list[str]:
        """Return what was ever promised twice."""
        both = {**self.claims_of, **self.volumes_of}
        return [f"{name}: {sorted(others)}" for name, others in both.items() if len(others) > 1]


async def elsewhere(world: World) -> list[str]:
    """Return the pods that run outside the zone of their volume."""
    nodes = {node["metadata"]["name"]: node["metadata"]["labels"].get(ZONE) for node in await world.admin.list("Node")}
    bound, zones = await world.bound(), await world.zones()
    return [
        name
        for name, pod in (await world.pods()).items()
        if (node := pod["spec"].get("nodeName")) and nodes.get(node) != zones[bound[f"data-{name}"]]
    ]


async def all_of_it_runs(world: World) -> None:
    await eventually(lambda: number_running(world), lambda number: number == NUMBER, "all run", SECONDS)
    await eventually(world.bound, lambda bound: len(bound) == NUMBER, "all claims are bound")
    assert await elsewhere(world) == []


@pytest.mark.timeout(1800)  # Five minutes, half of them launches.
async def test_pods_keep_their_volumes_while_nodes_are_deleted_and_consolidated(own_world: World) -> None:
    world = own_world
    pairs = Pairs(world)
    async with controlled(world, disruption=AT_ONCE), running(pairs.follow()) as following:
        disks, began = await joining_class(world), time.monotonic()
        for zone in ZONES:
            await zonal_volumes(world, disks, zone, OF_ZONE)
        await world.admin.create(a_set(world, disks))
        await eventually(lambda: number_running(world), bool, "one runs", SECONDS)
        first, bound = await node_claims(world), await world.bound()
        await world.admin.delete("NodeClaim", await one_in_use(world, first))
        assert len(bound) < NUMBER, "all pods have their volumes already"
        logger.info("%.0f s: %d bound, one node is deleted", time.monotonic() - began, len(bound))
        await all_of_it_runs(world)
        logger.info("%.0f s: all run", time.monotonic() - began)
        # All of a zone fit on a large node, so that the small one of its first pod is not needed.
        await eventually(lambda: node_claims(world), lambda left: not first.keys() & left.keys(), "consolidated", 300)
        await all_of_it_runs(world)
        logger.info("%.0f s: all run, the first nodes are gone", time.monotonic() - began)
        whole, before = await world.bound(), await node_claims(world)
        await scale(world, 2)
        await eventually(lambda: node_claims(world), lambda left: before.keys() - left.keys(), "nodes go", 300)
        await scale(world, NUMBER)
        await all_of_it_runs(world)
        logger.info("%.0f s: all run, scaled down and up", time.monotonic() - began)
        assert await world.bound() == whole
        assert whole.items() >= bound.items()
        assert len(set(whole.values())) == NUMBER
        assert not following.done(), "volumes were not watched to the end"
        assert pairs.doubled() == []
