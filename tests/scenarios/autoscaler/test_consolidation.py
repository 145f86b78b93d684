"""Nodes that were added for pods with volumes are removed and replaced while others still wait for theirs."""

import logging
import time
from typing import Final

import pytest

from tests.scenarios.autoscaler.karpenter import AT_ONCE, ZONES
from tests.scenarios.autoscaler.zonal_volumes import (
    ON_NEW_NODES,
    controlled,
    joining_class,
    number_running,
    zonal_volumes,
)
from tests.scenarios.environment import documents
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

logger = logging.getLogger(__name__)

NUMBER: Final = 100


async def scale(world: World, replicas: int) -> None:
    await world.admin.patch("StatefulSet", "db", {"spec": {"replicas": replicas}}, world.namespace)


def a_set(world: World, disks: str) -> documents.Document:
    """A set of gated pods. With 200m CPU those of a zone need more than one node: small ones are replaced."""
    made = documents.stateful_set(world.namespace, "db", {"data": claim_spec(disks)}, replicas=NUMBER)
    pod = made["spec"]["template"]["spec"]
    pod["schedulingGates"] = [{"name": f"{world.prefix}volumes"}]
    pod["containers"][0]["resources"] = {"requests": {"cpu": "200m"}}
    pod["terminationGracePeriodSeconds"] = 0
    return {**made, "spec": {**made["spec"], "template": {**made["spec"]["template"], "spec": {**pod, **ON_NEW_NODES}}}}


@pytest.mark.timeout(1500)
async def test_a_hundred_pods_lose_nothing_while_nodes_are_consolidated_and_the_set_is_scaled(own_world: World) -> None:
    world = own_world
    async with controlled(world, disruption=AT_ONCE):
        disks, began = await joining_class(world), time.monotonic()
        for zone in ZONES:
            await zonal_volumes(world, disks, zone, NUMBER // len(ZONES))
        await world.admin.create(a_set(world, disks))
        await eventually(lambda: number_running(world), lambda number: number >= NUMBER // 4, "a quarter runs", 300)
        before = await world.bound()
        await scale(world, NUMBER // 10)
        await eventually(world.pods, lambda pods: len(pods) == NUMBER // 10, "the set is smaller", 120)
        nodes = len(await world.admin.list("NodeClaim"))
        await eventually(lambda: world.admin.list("NodeClaim"), lambda left: len(left) < nodes, "nodes go", 300)
        await scale(world, NUMBER)
        await eventually(lambda: number_running(world), lambda number: number == NUMBER, "all run", 600)
        bound = await world.bound()
        took = time.monotonic() - began
        disrupted = [each for each in await world.admin.list("Event", "default") if "Disrupt" in each["reason"]]
        logger.info("%d pods run after %.0f s, with %d Events of disruption", NUMBER, took, len(disrupted))
        assert {claim: bound[claim] for claim in before} == before, "a claim lost its volume"
        assert len(set(bound.values())) == NUMBER
        assert disrupted, "nothing was consolidated"
