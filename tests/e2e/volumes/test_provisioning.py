"""Volumes that are made for pods: in a pool that is really full, mounted by the kubelet, and removed after use."""

import pytest

from devcluster.cluster import DevCluster
from tests.e2e.driver import Driver, pool
from tests.e2e.installation import SECONDS
from tests.e2e.volumes.writers import EMPTY, logs_become, writers
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

SELECTED = "volume.kubernetes.io/selected-node"


@pytest.mark.timeout(900)
async def test_a_pod_gets_all_of_its_volumes_or_none_and_they_are_mounted(world: World, real: DevCluster) -> None:
    """Each claim of the second pod fits beside the first pod, both do not: it gets none before there is room."""
    async with pool(real, "pool.csi.example", gibibytes=10) as driver:
        made = await class_of(world, driver)
        await world.admin.create(writer(world, made, "red", "4Gi", "3Gi"))
        await logs_become(world, "red-0", EMPTY)
        await world.admin.create(writer(world, made, "blue", "3Gi", "3Gi"))
        await eventually(
            lambda: world.events("InsufficientCapacity", "blue-0"), bool, "blue-0 is told what is missing", SECONDS
        )
        assert [name for name in await selected(world) if name.endswith("blue-0")] == []
        await remove(world, "red")
        await logs_become(world, "blue-0", EMPTY)
        await world.all_run("blue-0", seconds=SECONDS)
        await remove(world, "blue")


async def class_of(world: World, driver: Driver) -> str:
    name = await world.storage_class("provision", "made", provisioner=driver.name)
    strict = f"{world.prefix}topology=strict"
    await world.cluster.run_kubectl("annotate", "storageclass", name, strict)
    return name


def writer(world: World, storage_class: str, name: str, data: str, log: str) -> Document:
    claims = {"data": claim_spec(storage_class, data), "log": claim_spec(storage_class, log)}
    return writers(world.namespace, name, claims, replicas=1)


async def selected(world: World) -> list[str]:
    claims = await world.claims()
    return [name for name, claim in claims.items() if SELECTED in claim["metadata"].get("annotations", {})]


async def remove(world: World, name: str) -> None:
    """Remove the pod with its claims, and wait until the provisioner has removed the volumes."""
    claims = {key: claim for key, claim in (await world.claims()).items() if key.endswith(f"-{name}-0")}
    volumes = {claim["spec"]["volumeName"] for claim in claims.values()}
    await world.admin.delete("StatefulSet", name, world.namespace)
    for claim in claims:
        await world.admin.delete("PersistentVolumeClaim", claim, world.namespace)

    async def left() -> set[str]:
        return volumes & {volume["metadata"]["name"] for volume in await world.admin.list("PersistentVolume")}

    await eventually(left, lambda there: not there, f"the volumes of {name} are removed", SECONDS)
