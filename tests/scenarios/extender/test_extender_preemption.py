"""A real kube-scheduler calls it before it evicts: no pod is evicted for one that gets no volume on the node."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest_asyncio

from devcluster.control_plane.nodes import NodeSpec, is_schedulable
from tests.scenarios.environment import documents
from tests.scenarios.environment.documents import HOSTNAME, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.extender.extender_process import ExtendedScheduler, extended_scheduler

PRIORITIES = {"least": 1, "modest": 500, "high": 1000}
ISLANDS = ("zone-a", "zone-b")


class Islands:
    """A node of 4 cores in each of two zones that only the story's pods go to, and priority classes of its own."""

    def __init__(self, scheduling: ExtendedScheduler) -> None:
        self.scheduling, self.world, self.admin = scheduling, scheduling.world, scheduling.world.admin
        self._taint = {"key": f"{self.world.namespace}.example/own", "value": "", "effect": "NoSchedule"}

    async def open(self) -> None:
        for zone in ISLANDS:
            labels = {"story": self.world.namespace}
            spec = NodeSpec(self.world.name(zone), zone, cpu="4", labels=labels, taints=(self._taint,))
            await self.admin.create(spec.manifest())
        for word, value in PRIORITIES.items():
            metadata = {"name": self.world.name(word)}
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            await self.admin.create({**kind, "metadata": metadata, "value": value})
        for zone in ISLANDS:
            name = self.world.name(zone)
            await eventually(partial(self.admin.get, "Node", name), is_schedulable, f"{name} is ready")

    async def close(self) -> None:
        await self.admin.delete_all("Pod", self.world.namespace)
        for zone in ISLANDS:
            await self.admin.delete("Node", self.world.name(zone))
        for word in PRIORITIES:
            await self.admin.delete("PriorityClass", self.world.name(word))

    async def pod(self, name: str, priority: str, claims: dict[str, Any], zone: str = "") -> None:
        """A pod of 3 cores: a second one has no room beside it."""
        where = {HOSTNAME: self.world.name(zone)} if zone else {}
        extra = {
            "schedulerName": self.scheduling.name,
            "priorityClassName": self.world.name(priority),
            "nodeSelector": {"story": self.world.namespace, **where},
            "tolerations": [{"key": self._taint["key"], "operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
        }
        made = [documents.claim(self.world.namespace, claim, spec) for claim, spec in claims.items()]
        pod = documents.pod(self.world.namespace, name, documents.pod_spec(list(claims), extra=extra))
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
        await self.admin.create(*made, pod)


@pytest_asyncio.fixture
async def islands(own_world: World) -> AsyncIterator[Islands]:
    async with extended_scheduler(own_world, timeout="30s") as scheduling:
        islands = Islands(scheduling)
        await islands.open()
        yield islands
        await islands.close()


async def test_no_pod_is_evicted_where_the_volume_is_unhealthy(islands: Islands) -> None:
    """By priority alone kube-scheduler would evict in zone-a, where it may not place the pod afterwards."""
    world = islands.world
    disks = await world.storage_class("off")
    await world.volumes(disks, *(world.volume(zone, disks, zone=zone) for zone in ISLANDS))
    annotations = {f"{world.prefix}health": "Inaccessible", f"{world.prefix}health-reason": "NotFound"}
    await world.admin.patch("PersistentVolume", world.name("zone-a"), {"metadata": {"annotations": annotations}})
    await islands.pod("cheap", "least", {}, "zone-a")
    await islands.pod("dear", "modest", {}, "zone-b")
    await world.all_run("cheap", "dear")
    await islands.pod("wanted", "high", {"data": claim_spec(disks)})
    await world.all_run("wanted")
    phases = await world.pod_phases()
    assert (phases.get("cheap"), phases.get("dear")) == ("Running", None)
    assert await world.bound() == {"data": world.name("zone-b")}
