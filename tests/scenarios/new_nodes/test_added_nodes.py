"""Volumes in zones whose nodes are full are committed ahead of a node, which an autoscaler adds because they are bound.

The autoscaler is of this story: like Karpenter and Cluster Autoscaler it looks only at pods that kube-scheduler could
not place, and takes the zone from the volumes to which their claims are bound. It adds a node as well for a volume that
is still to be provisioned.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import ZONE, claims_of
from tests.scenarios.environment.provisioner import NAME as PROVISIONER
from tests.scenarios.environment.provisioner import provisioning
from tests.scenarios.environment.waiting import eventually, never
from tests.scenarios.environment.world import World, zone_of
from tests.scenarios.new_nodes.full_zone import full_node, full_zone, join_new_nodes, pod_of_one_cpu
from tests.scenarios.processes.controller import start_controller
from tests.scenarios.sidecars.installation import register


@dataclass
class Autoscaler:
    """Adds a node of one CPU for each pod that it may see."""

    world: World
    provisions: bool = False
    served: dict[str, str] = field(default_factory=dict)

    async def run(self) -> None:
        while True:
            bound, zones = await self.world.bound(), await self.world.zones()
            for name, pod in (await self.world.pods()).items():
                if name not in self.served and is_unschedulable(pod):
                    claims = claims_of(pod)
                    if claims and (self.provisions or all(claim in bound for claim in claims)):
                        self.served[name] = self.world.name(f"new-{name}")
                        zone = self.world.name("zone") if self.provisions else zones[bound[claims[0]]]
                        assert zone is not None
                        await self.world.cluster.add_nodes([NodeSpec(self.served[name], zone, cpu="1")])
            await asyncio.sleep(0.2)


def is_unschedulable(pod: Document) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions)


@asynccontextmanager
async def autoscaler(world: World, *, provisions: bool = False) -> AsyncIterator[Autoscaler]:
    running = Autoscaler(world, provisions)
    task = asyncio.create_task(running.run())
    try:
        yield running
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for name in (world.name("full"), *running.served.values()):
            await world.admin.delete("Node", name)


@pytest.mark.parametrize("gated", [True, False], ids=["gated", "ungated"])
async def test_pods_whose_volumes_are_in_a_full_zone_run_on_nodes_that_are_added_for_them(
    own_world: World, gated: bool
) -> None:
    world = own_world
    disks = await full_zone(world, 3)
    controller = await start_controller(world)
    async with autoscaler(world) as added:
        for number in range(3):
            await pod_of_one_cpu(world, f"db-{number}", disks, gated=gated)
        await world.all_run("db-0", "db-1", "db-2", seconds=120)
        assert sorted(added.served) == ["db-0", "db-1", "db-2"]
        assert {zone_of(each) for each in (await world.own_volumes()).values()} == {world.name("zone")}
        await world.admin.delete_all("Pod", world.namespace)
    await controller.stop()


async def test_a_node_that_does_not_come_is_reported_and_nothing_more_is_committed(own_world: World) -> None:
    world = own_world
    disks = await full_zone(world, 2, within="5s")
    controller = await start_controller(world)
    for name in ("db-0", "db-1"):
        await pod_of_one_cpu(world, name, disks, gated=True)
    (claim,) = await eventually(world.bound, bool, "one claim is bound")
    await world.event("WaitingForNewNode", claim.removesuffix("-data"))
    await never(world.bound, lambda bound: len(bound) > 1, "another volume is committed", looks=20)
    async with autoscaler(world):
        await world.all_run("db-0", "db-1", seconds=120)
        await world.admin.delete_all("Pod", world.namespace)
    await controller.stop()


async def test_a_pod_whose_volume_is_still_to_be_made_is_left_to_kube_scheduler_and_a_new_node(
    own_world: World,
) -> None:
    world = own_world
    made = await world.storage_class("provision", "made", provisioner=PROVISIONER)
    await join_new_nodes(world, made)
    zone = await full_node(world)
    controller = await start_controller(world)
    async with autoscaler(world, provisions=True) as added, provisioning(world, made):
        await pod_of_one_cpu(world, "db", made, gated=True, zone=zone)
        await world.all_run("db", seconds=120)
        assert list(added.served) == ["db"]
        await world.admin.delete_all("Pod", world.namespace)
    await controller.stop()


async def test_a_node_that_does_not_come_for_a_volume_still_to_be_made_is_reported(own_world: World) -> None:
    world = own_world
    made = await world.storage_class("provision", "made", provisioner=PROVISIONER)
    await join_new_nodes(world, made, within="5s")
    zone = await full_node(world)
    controller = await start_controller(world)
    await pod_of_one_cpu(world, "db", made, gated=True, zone=zone)
    await world.noted("db", "Waiting for a new node", "its gate was removed")
    async with autoscaler(world, provisions=True), provisioning(world, made):
        await world.all_run("db", seconds=120)
        await world.admin.delete_all("Pod", world.namespace)
    await controller.stop()


async def test_where_a_driver_reports_capacity_the_pod_stays_behind_its_gate(own_world: World) -> None:
    """kube-scheduler compares each claim alone with what is reported, and an autoscaler compares nothing."""
    world = own_world
    name = world.name("csi.example")
    about = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}}
    await world.admin.create({**about, "spec": {"attachRequired": False, "storageCapacity": True}})
    made = await world.storage_class("provision", "made", provisioner=name)
    await join_new_nodes(world, made)
    zone = await full_node(world)
    await register(world, name, world.name("full"))
    reported = {"storageClassName": made, "capacity": "100Gi", "nodeTopology": {"matchLabels": {ZONE: zone}}}
    metadata = {"name": "zone", "namespace": world.namespace}
    capacity = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": metadata}
    await world.admin.create({**capacity, **reported})
    controller = await start_controller(world)
    await pod_of_one_cpu(world, "db", made, gated=True, zone=zone)
    await world.noted("db", "RoomWithoutDisk", f"capacities of {name}")
    assert (await world.pods())["db"]["spec"]["schedulingGates"]
    await world.admin.delete_all("Pod", world.namespace)
    await world.admin.delete("CSIDriver", name)
    await world.admin.delete("CSINode", world.name("full"))
    await world.admin.delete("Node", world.name("full"))
    await controller.stop()
