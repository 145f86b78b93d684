"""A volume that is to grow: no resizer, a driver without room, without an answer, and without the volume."""

import json
from typing import Any

import pytest

from devcluster.driver.volumes import create_volume, delete_volume
from tests.scenarios.environment.documents import IMMEDIATE, claim, claim_spec
from tests.scenarios.environment.lost_volumes import let_go
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.why_command import Asker, bound, typed
from tests.scenarios.sidecars.installation import GI, Installed, directories

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_volume_that_is_to_grow(own_world: World, asker: Asker) -> None:
    world = own_world
    async with directories(world, capacity=4 * GI) as driver, driver.sidecar("csi-provisioner"):
        await growing(world, driver, ("data", "other"))
        await request(world, "data", "2Gi")
        item = await asker.names("pvc/data", "ResizePending")
        assert item["evidence"][-1]["found"] == "no such Lease"
        await typed(world, item["next"][0])
        async with driver.sidecar("csi-resizer", "--timeout=1s"):
            await grown(world, "data", "2Gi")
            await asker.names("pvc/data", "Bound", exit_code=0)

            await request(world, "data", "4Gi")
            item = await asker.names("pvc/data", "ResizeFailed")
            assert "rpc error: code = ResourceExhausted" in item["evidence"][-1]["found"]
            assert f"VolumeResizeFailed of external-resizer {driver.name}" in item["evidence"][-1]["object"]
            await typed(world, item["next"][0])
            assert "a lower request is ignored" in item["advice"][0]
            await world.admin.delete("PersistentVolumeClaim", "other", world.namespace)  # Which makes room.
            await grown(world, "data", "4Gi")
            await asker.names("pvc/data", "Bound", exit_code=0)


async def test_a_driver_that_does_not_respond(own_world: World, asker: Asker) -> None:
    world = own_world
    async with directories(world) as driver, driver.sidecar("csi-provisioner"):
        await growing(world, driver, ("data",))
        async with driver.sidecar("csi-resizer", "--timeout=1s"):
            driver.process.pause()
            await request(world, "data", "2Gi")
            item = await asker.names("pvc/data", "ResizeFailed")
            assert "code = DeadlineExceeded" in item["evidence"][-1]["found"]
            driver.process.resume()
            await grown(world, "data", "2Gi")
            await asker.names("pvc/data", "Bound", exit_code=0)


async def test_a_volume_that_the_driver_does_not_know(own_world: World, asker: Asker) -> None:
    """What is infeasible the resizer tells in a condition. With the volume restored, another request is tried."""
    world = own_world
    async with directories(world) as driver, driver.sidecar("csi-resizer"):
        made = await world.storage_class(None, "growing", binding=IMMEDIATE, provisioner=driver.name)
        await world.admin.patch("StorageClass", made, {"allowVolumeExpansion": True})
        await world.volumes(made, world.volume("lost", made, driver=driver.name, handle="lost"))
        await world.admin.create(claim(world.namespace, "data", claim_spec(made)))
        await bound(world, "data")
        await request(world, "data", "3Gi")
        item = await asker.names("pvc/data", "ResizeFailed")
        assert "ControllerResizeError: failed to expand pvc with rpc error: code = NotFound" in json.dumps(item)
        await typed(world, item["next"][0])
        assert "lower the request, above 1Gi" in item["advice"][0]
        create_volume(world.cluster.directory / f"volumes-{driver.name}", "lost", GI)
        await request(world, "data", "2Gi")
        await grown(world, "data", "2Gi")
        await asker.names("pvc/data", "Bound", exit_code=0)


async def test_what_hides_an_expansion(own_world: World, asker: Asker) -> None:
    """The volume is lost, then nothing resizes it, then the driver has no room: each shows when the last is mended."""
    world = own_world
    async with directories(world, capacity=4 * GI) as driver:
        made = await world.storage_class(None, "growing", binding=IMMEDIATE, provisioner=driver.name)
        await world.admin.patch("StorageClass", made, {"allowVolumeExpansion": True})
        storage = world.cluster.directory / f"volumes-{driver.name}"
        for name, size in (("disk", GI), ("other", 2 * GI)):
            create_volume(storage, name, size)
        volume = world.volume("disk", made, driver=driver.name, handle="disk")
        await world.volumes(made, volume)
        await world.admin.create(claim(world.namespace, "data", claim_spec(made)))
        await bound(world, "data")
        await request(world, "data", "3Gi")
        await world.admin.delete("PersistentVolume", world.name("disk"))
        await eventually(lambda: let_go(world, "disk"), lambda gone: gone, "the volume is gone")
        item = await asker.names("pvc/data", "ClaimLost")
        await typed(world, item["next"][0])
        owner = (await world.claims())["data"]["metadata"]
        reference = {"namespace": world.namespace, "name": "data", "uid": owner["uid"]}
        await world.admin.create({**volume, "spec": {**volume["spec"], "claimRef": reference}})
        await bound(world, "data")

        item = await asker.names("pvc/data", "ResizePending")
        assert item["evidence"][-1]["found"] == "no such Lease"
        await typed(world, item["next"][0])
        async with driver.sidecar("csi-resizer"):
            item = await asker.names("pvc/data", "ResizeFailed")
            assert "rpc error: code = ResourceExhausted" in item["evidence"][-1]["found"]
            await typed(world, item["next"][0])
            delete_volume(storage, "other")
            await grown(world, "data", "3Gi")
            await asker.names("pvc/data", "Bound", exit_code=0)


async def growing(world: World, driver: Installed, claims: tuple[str, ...]) -> None:
    """Claims of a class whose volumes may grow, bound."""
    made = await world.storage_class(None, "growing", binding=IMMEDIATE, provisioner=driver.name)
    await world.admin.patch("StorageClass", made, {"allowVolumeExpansion": True})
    for name in claims:
        await world.admin.create(claim(world.namespace, name, claim_spec(made)))
        await bound(world, name)


async def request(world: World, name: str, size: str) -> None:
    larger = {"spec": {"resources": {"requests": {"storage": size}}}}
    await world.admin.patch("PersistentVolumeClaim", name, larger, world.namespace)


async def grown(world: World, name: str, size: str) -> None:
    async def look() -> Any:
        return (await world.claims())[name]["status"]["capacity"]["storage"]

    await eventually(look, lambda seen: seen == size, f"{name} has {size}")
