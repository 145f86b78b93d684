"""What Kubernetes 1.37 added, on an API server that has it: health fields (KEP-1432, gate CSIVolumeHealth, off by
default), and drivers that have to be on the node (KEP-5030, on by default)."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from csi.health.sources import STORAGE_UNREACHABLE
from devcluster.build.modules import chosen_kubernetes, minor_version
from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment import scheduler_pods as scheduled
from tests.scenarios.environment.admin import Admin, Document
from tests.scenarios.environment.documents import claim, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World, lived_in
from tests.scenarios.processes.controller import Controller, apply_manifests, start_controller
from tests.scenarios.processes.health_watch import printed_row, watching
from tests.scenarios.processes.scheduler_in_process import running_scheduler

pytestmark = pytest.mark.skipif(
    minor_version(chosen_kubernetes()) < (1, 37), reason=f"Kubernetes {chosen_kubernetes()} has none of it"
)

NODES = ("node-1", "node-2")
SINCE = "2026-08-26T00:00:00Z"
ON_CLAIM, ON_NODE = "status.healthStatus of the claim", "status.storageHealth of CSINode node-1"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster() -> AsyncIterator[DevCluster]:
    """A control plane of its own, with the gate on and two nodes in a zone."""
    async with DevCluster(Options(feature_gates={"CSIVolumeHealth": True})) as cluster:
        await cluster.add_nodes([NodeSpec(name, "zone-a") for name in NODES])
        await apply_manifests(cluster)
        yield cluster


@pytest_asyncio.fixture
async def world(cluster: DevCluster) -> AsyncIterator[World]:
    async with Admin(cluster) as admin, lived_in(World(cluster, admin)) as world:
        yield world


@pytest_asyncio.fixture
async def controller(world: World) -> AsyncIterator[Controller]:
    running = await start_controller(world)
    yield running
    await running.stop()


async def write(world: World, health: Document | None) -> Document:
    """Report on the claim's volume as external-health-monitor does, and return what was stored."""
    body = {"status": {"healthStatus": health}}
    stored = await world.admin.patch("PersistentVolumeClaim", "data", body, world.namespace, "status")
    status: Document = stored["status"]
    return status


async def drivers_on(world: World, node: str, *drivers: str) -> None:
    """Register drivers as the kubelet does."""
    registered = [{"name": driver, "nodeID": node, "topologyKeys": []} for driver in drivers]
    await world.admin.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": node},
            "spec": {"drivers": registered},
        }
    )


async def nodes_of_pods(world: World) -> dict[str, str]:
    return {name: pod["spec"].get("nodeName", "") for name, pod in (await world.pods()).items()}


async def test_health_on_a_claim(world: World) -> None:
    disks = await world.storage_class(None)
    await world.volumes(disks, world.volume("pv", disks, zone="zone-a"))
    volume = world.name("pv")
    await world.admin.create(claim(world.namespace, "data", claim_spec(disks) | {"volumeName": volume}))
    await eventually(world.volume_phases, lambda phases: phases[volume] == "Bound", "the claim has its volume")
    condition = {"status": "DataLoss", "reason": "Gone", "message": "both disks failed"}
    async with watching(world, volume) as process:
        assert await printed_row(process) == (volume, "Unknown", None)
        status = await write(world, {"healthConditions": [condition], "lastTransitionTime": SINCE})
        assert status["healthStatus"] == {"healthConditions": [condition], "lastTransitionTime": SINCE}
        assert await printed_row(process) == (volume, "DataLoss", ON_CLAIM)
        await write(world, {"healthConditions": [], "lastTransitionTime": SINCE})
        assert await printed_row(process) == (volume, "Healthy", ON_CLAIM)
        assert "healthStatus" not in await write(world, None)
        assert await printed_row(process) == (volume, "Unknown", None)


async def test_storage_that_a_node_does_not_reach(world: World, controller: Controller) -> None:
    disks = await world.storage_class("prebind")
    driver = f"{world.namespace}.csi.example"
    await world.volumes(disks, *(world.volume(node, disks, node=node, driver=driver) for node in NODES))
    for node in NODES:
        await drivers_on(world, node, driver)
    condition = {"status": STORAGE_UNREACHABLE, "reason": "PathDown", "lastTransitionTime": SINCE}
    reports = {"status": {"storageHealth": [{"name": driver, "healthConditions": [condition]}]}}
    stored = await world.admin.patch("CSINode", "node-1", reports, subresource="status")
    assert stored["status"] == reports["status"]
    lost = world.name("node-1")
    async with watching(world, lost) as process:
        assert await printed_row(process) == (lost, "Inaccessible", ON_NODE)
        await world.pod("first", {"first": claim_spec(disks)}, gated=True)
        await world.all_run("first")
        assert await nodes_of_pods(world) == {"first": "node-2"}
        await world.pod("second", {"second": claim_spec(disks)}, gated=True)
        await eventually(
            lambda: world.events(about="second"),
            lambda events: any(
                word in each["note"] for each in events for word in ("Inaccessible", STORAGE_UNREACHABLE)
            ),
            "an Event about the second pod names the report",
        )
        await world.admin.patch("CSINode", "node-1", {"status": {"storageHealth": None}}, subresource="status")
        assert await printed_row(process) == (lost, "Unknown", None)
    await world.all_run("second")
    assert await nodes_of_pods(world) == {"first": "node-2", "second": "node-1"}
    for node in NODES:
        await world.admin.delete("CSINode", node)


async def test_a_driver_that_has_to_be_on_the_node(world: World, controller: Controller) -> None:
    """kube-scheduler, the controller and the standalone scheduler agree: only the second node has the driver."""
    disks, driver = await world.storage_class("prebind"), f"{world.namespace}.csi.example"
    hinted = await world.storage_class(None, "hinted", provisioner=driver)
    volumes = [world.volume(f"pv-{number}", disks, zone="zone-a", driver=driver) for number in range(4)]
    await world.volumes(disks, *volumes)
    made = [world.volume(f"made-{number}", hinted, zone="zone-a", driver=driver) for number in range(4)]
    await world.volumes(hinted, *made)
    spec = {"preventPodSchedulingIfMissing": True}
    await world.admin.create(
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": driver}, "spec": spec}
    )
    await drivers_on(world, "node-1")
    await drivers_on(world, "node-2", driver)
    for number in range(2):
        await world.pod(f"gated-{number}", {f"gated-{number}": claim_spec(disks)}, gated=True)
        await world.pod(f"plain-{number}", {f"plain-{number}": claim_spec(hinted)})
    async with running_scheduler(world.cluster.kubeconfig, world.namespace, world.prefix):
        for number in range(2):
            name = f"ours-{number}"
            await world.admin.create(claim(world.namespace, name, claim_spec(hinted)), scheduled.pod(world, name, name))
        await world.all_run(*(await world.pods()))
    assert set((await nodes_of_pods(world)).values()) == {"node-2"}
    await world.admin.delete("CSIDriver", driver)
    for node in NODES:
        await world.admin.delete("CSINode", node)
