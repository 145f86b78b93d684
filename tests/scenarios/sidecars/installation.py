"""CSI drivers of a story's own, installed as clusters have them: registered, on a node, with sidecars.

Only the kubelet is played: its nodes have none that could register the driver.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from devcluster.control_plane.nodes import NodeSpec
from devcluster.driver.process import Driver
from devcluster.processes.component import Component
from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import HOSTNAME, ZONE
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

GI: Final = 1024**3
CAPACITY: Final = (
    "--enable-capacity",
    "--capacity-ownerref-level=-1",
    "--capacity-poll-interval=1s",
    "--kube-api-capacity-qps=50",
)
"""Flags with which external-provisioner publishes CSIStorageCapacities, and often."""


@dataclass(frozen=True)
class Installed:
    """A driver and the node of the story's own that it is for."""

    world: World
    process: Driver
    node: str

    @property
    def name(self) -> str:
        return self.process.driver_name

    @property
    def here(self) -> dict[str, Any]:
        """What puts a pod on the driver's node."""
        return {"extra": {"nodeSelector": {HOSTNAME: self.node}}}

    @asynccontextmanager
    async def sidecar(self, program: str, *flags: str) -> AsyncIterator[Component]:
        """Run this sidecar of the driver while inside."""
        component = await self.world.cluster.start_sidecar(program, *flags, driver=self.process)
        try:
            yield component
        finally:
            await component.stop()


@asynccontextmanager
async def directories(
    world: World, *, capacity: int | None = None, tracked: bool = False, registered: bool = True
) -> AsyncIterator[Installed]:
    """The directory driver, for volumes in the zone of its node. `tracked` if the scheduler asks for its capacity."""
    name, zone = world.name("csi.example"), world.name("zone")
    await world.cluster.add_nodes([NodeSpec(world.name("node"), zone)])
    process = await world.cluster.start_driver(name, topology={ZONE: zone}, capacity=capacity)
    async with _installed(world, process, attached=False, tracked=tracked) as installed:
        if registered:
            await register(world, name, installed.node)
        yield installed


@asynccontextmanager
async def mock(world: World, *, volumes: int = 3) -> AsyncIterator[Installed]:
    """The mock driver of Kubernetes' own tests, which attaches volumes, copies them and takes snapshots."""
    process = await world.cluster.start_mock_driver(world.name("csi.example"), volumes)
    await world.cluster.add_nodes([NodeSpec(world.name("node"), "zone-a")])
    async with _installed(world, process, attached=True, tracked=False) as installed:
        yield installed


@asynccontextmanager
async def _installed(world: World, process: Driver, *, attached: bool, tracked: bool) -> AsyncIterator[Installed]:
    name = process.driver_name
    spec = {"attachRequired": attached, "storageCapacity": tracked}
    about = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}}
    await world.admin.create({**about, "spec": spec})
    await world.admin.create(_controller(name, world.namespace))
    try:
        yield Installed(world, process, world.name("node"))
    finally:
        await process.stop()
        await world.admin.delete("StatefulSet", _controller(name, "")["metadata"]["name"], world.namespace)
        await world.admin.delete("CSIDriver", name)
        for node in await world.admin.list("CSINode"):
            if any(each["name"] == name for each in node["spec"]["drivers"] or ()):
                await world.admin.delete("CSINode", node["metadata"]["name"])


def _controller(driver: str, namespace: str) -> Document:
    """The driver's workload, by which it is found. Its sidecars are processes of this machine and not its pods."""
    name = f"{driver.partition('.')[0]}-controller"
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "plugin", "image": "none.example"}]}}
    spec = {"replicas": 0, "serviceName": name, "selector": {"matchLabels": labels}, "template": template}
    about = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": about, "spec": spec}


async def register(world: World, driver: str, node: str, node_id: str = "", limit: int | None = None) -> None:
    """What the kubelet does when the node plugin of a driver starts."""
    count = {} if limit is None else {"allocatable": {"count": limit}}
    entry = {"name": driver, "nodeID": node_id or node, "topologyKeys": [ZONE], **count}
    about = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": node}}
    await world.admin.create({**about, "spec": {"drivers": [entry]}})


@asynccontextmanager
async def pools(world: World, size: int) -> AsyncIterator[tuple[str, list[str]]]:
    """Two nodes with a pool of so many GiB each, their driver and its provisioner; yields the class and the nodes."""
    nodes = [world.name(f"pool-{number}") for number in (1, 2)]
    await world.cluster.add_nodes([NodeSpec(node, "zone-a") for node in nodes])
    name, about = world.name("csi.example"), {"apiVersion": "storage.k8s.io/v1"}
    for node in nodes:
        entry = {"name": name, "nodeID": node, "topologyKeys": [HOSTNAME]}
        await world.admin.create({**about, "kind": "CSINode", "metadata": {"name": node}, "spec": {"drivers": [entry]}})
    spec = {"attachRequired": False, "storageCapacity": True}
    await world.admin.create({**about, "kind": "CSIDriver", "metadata": {"name": name}, "spec": spec})
    made = documents.storage_class(world.name("made"), "provision", prefix=world.prefix, provisioner=name)
    made["metadata"]["annotations"][f"{world.prefix}topology"] = "strict"
    await world.admin.create(made)
    flags = (f"--segment-capacity={size * GI}",)
    driver = await world.cluster.start_driver(name, topology={HOSTNAME: "none"}, flags=flags)
    provisioner = await world.cluster.start_sidecar("csi-provisioner", *CAPACITY, "--strict-topology", driver=driver)
    try:
        await eventually(lambda: _reports(world), lambda sizes: sizes == {f"{size}Gi"}, "both pools are reported")
        yield made["metadata"]["name"], nodes
    finally:
        await provisioner.stop()
        await driver.stop()
        await world.admin.delete("CSIDriver", name)
        for node in nodes:
            await world.admin.delete("CSINode", node)


async def _reports(world: World) -> set[str]:
    every = await world.admin.list("CSIStorageCapacity")
    own = [each for each in every if each["storageClassName"] == world.name("made")]
    return {each["capacity"] for each in own} if len(own) == 2 else set()
