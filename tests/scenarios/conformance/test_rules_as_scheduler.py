"""What nodes reject, kube-scheduler and ours reject as well, side by side: resized pods, disks in a pod's own spec."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from devcluster.build.modules import chosen_kubernetes, minor_version
from devcluster.cluster import DevCluster
from tests.scenarios.environment import documents
from tests.scenarios.environment.island import Island, open_island
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

THEIRS = "default-scheduler"


@pytest_asyncio.fixture
async def island(cluster: DevCluster, own_world: World) -> AsyncIterator[Island]:
    async with open_island(cluster, own_world) as island:
        yield island


async def create(
    island: Island, name: str, scheduler: str, cpu: str, disk: dict[str, Any] | None = None, **spec: Any
) -> None:
    extra = {
        "schedulerName": scheduler,
        "nodeSelector": {"story": island.world.namespace},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
        **spec,
    }
    made = documents.pod(island.world.namespace, name, documents.pod_spec(extra=extra))
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    made["spec"]["volumes"] += [] if disk is None else [{"name": "disk", **disk}]
    await island.admin.create(made)


LEVELS = [
    pytest.param(
        "pod",
        marks=pytest.mark.skipif(
            minor_version(chosen_kubernetes()) < (1, 36),
            reason=f"Kubernetes {chosen_kubernetes()} resizes containers, and no pods as a whole",
        ),
    ),
    "container",
]


@pytest.mark.parametrize("level", LEVELS)
async def test_what_a_pod_has_beyond_its_request_is_taken(island: Island, level: str) -> None:
    whole = {"resources": {"requests": {"cpu": "1"}}} if level == "pod" else {}
    await create(island, "resized", THEIRS, "1", **whole)
    await island.world.all_run("resized")
    await resize(island, level, "3")
    for name, scheduler in (("theirs", THEIRS), ("ours", island.world.namespace)):
        await create(island, name, scheduler, "2")
        await island.rejected(name, "1 Insufficient cpu")
    await resize(island, level, "1")
    await eventually(
        island.world.pod_phases,
        lambda phases: "Running" in (phases["theirs"], phases["ours"]),
        "one of them has room now",
    )


async def resize(island: Island, level: str, cpu: str) -> None:
    """Report, as the kubelet does, that the pod or its only container has so much."""
    has = {"resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}
    (container,) = (await island.status("resized"))["containerStatuses"]
    change = has if level == "pod" else {"containerStatuses": [container | has]}
    await island.admin.patch("Pod", "resized", {"status": change}, island.world.namespace, subresource="status")
    status = await island.status("resized")
    kept = status if level == "pod" else status["containerStatuses"][0]
    assert kept["resources"]["requests"]["cpu"] == cpu, "the API server keeps what the kubelet says"


async def test_a_disk_of_the_spec_is_not_shared_on_a_node(island: Island) -> None:
    """Two that only read an RBD image share it, one that writes has it alone; an EBS volume is never shared."""
    image = {"monitors": ["10.0.0.1:6789"], "image": "image", "readOnly": True}
    volume = {"awsElasticBlockStore": {"volumeID": "vol-1", "readOnly": True}}
    await create(island, "reads", THEIRS, "10m", {"rbd": image})
    await create(island, "has", THEIRS, "10m", volume)
    await island.world.all_run("reads", "has")
    for word, scheduler in (("theirs", THEIRS), ("ours", island.world.namespace)):
        await create(island, f"{word}-reads", scheduler, "10m", {"rbd": image})
        await create(island, f"{word}-writes", scheduler, "10m", {"rbd": image | {"readOnly": False}})
        await create(island, f"{word}-has", scheduler, "10m", volume)
        await island.world.all_run(f"{word}-reads")
        for rejected in (f"{word}-writes", f"{word}-has"):
            await island.rejected(rejected, "1 node(s) had no available disk")
