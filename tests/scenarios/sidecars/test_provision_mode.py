"""Mode provision beside the real external-provisioner, on a driver whose pools are really full at their limit."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment import documents
from tests.scenarios.environment.documents import HOSTNAME, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import Controller, release_lease, start_controller
from tests.scenarios.sidecars.installation import CAPACITY, GI

pytestmark = pytest.mark.asyncio(loop_scope="session")

STRICT = "--strict-topology"


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
    provisioner = await world.cluster.start_sidecar("csi-provisioner", *CAPACITY, STRICT, driver=driver)
    try:
        await eventually(lambda: reports(world), lambda sizes: sizes == {f"{size}Gi"}, "both pools are reported")
        yield made["metadata"]["name"], nodes
    finally:
        await provisioner.stop()
        await driver.stop()
        await world.admin.delete("CSIDriver", name)
        for node in nodes:
            await world.admin.delete("CSINode", node)


async def reports(world: World) -> set[str]:
    every = await world.admin.list("CSIStorageCapacity")
    own = [each for each in every if each["storageClassName"] == world.name("made")]
    return {each["capacity"] for each in own} if len(own) == 2 else set()


async def nodes_of(world: World, pod: str) -> set[str]:
    """The nodes that are selected for the claims of a pod."""
    claims = [claim for name, claim in (await world.claims()).items() if name.startswith(pod)]
    return {claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] for claim in claims}


def two(storage_class: str, pod: str, *sizes: str) -> dict[str, documents.Document]:
    return {f"{pod}-{number}": claim_spec(storage_class, size) for number, size in enumerate(sizes)}


async def test_pods_that_fill_the_pools_get_all_of_their_volumes(own_world: World) -> None:
    """Each claim alone fits on either node; only one way of placing the pods leaves none with a part."""
    world = own_world
    async with pools(world, 10) as (made, _):
        controller = await start_controller(world)
        for pod, sizes in (("red", ("4Gi", "3Gi")), ("blue", ("3Gi", "3Gi")), ("green", ("2Gi", "1Gi"))):
            await world.pod(pod, two(made, pod, *sizes), gated=True)
        await world.all_run("red", "blue", "green")
        for pod in ("red", "blue", "green"):
            assert len(await nodes_of(world, pod)) == 1
        await world.pod("large", two(made, "large", "3Gi", "3Gi"), gated=True)
        await world.event("InsufficientCapacity", "large")
        assert (await world.pod_phases())["large"] == "Pending"
        await world.admin.delete("Pod", "blue", world.namespace)
        for number in (0, 1):
            await world.admin.delete("PersistentVolumeClaim", f"blue-{number}", world.namespace)
        await world.all_run("large", seconds=60)
        await controller.stop()


async def test_a_controller_that_is_killed_leaves_no_pod_with_a_part(own_world: World) -> None:
    world = own_world
    async with pools(world, 10) as (made, _):
        controller = await start_controller(world)
        for number in range(4):
            await world.pod(f"pod-{number}", two(made, f"pod-{number}", "3Gi", "2Gi"), gated=True)
        await killed_and_started(world, controller)
        await world.all_run(*(f"pod-{number}" for number in range(4)), seconds=120)
        failed = [
            each for each in await world.admin.list("Event", world.namespace) if "ResourceExhausted" in each["note"]
        ]
        assert failed == []
        await controller.stop()


async def killed_and_started(world: World, controller: Controller) -> None:
    await controller.kill()
    await release_lease(world)
    await controller.start()
