"""A volume that is to grow: no resizer, one whose driver has no room, and one that does not get an answer."""

import json
from typing import Any

import pytest

from tests.scenarios.environment.documents import IMMEDIATE, claim, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.why_command import Asker, bound, typed
from tests.scenarios.sidecars.installation import GI, Installed, directories, mock, register

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_volume_that_is_to_grow(own_world: World, asker: Asker) -> None:
    world = own_world
    async with directories(world, capacity=6 * GI) as driver, driver.sidecar("csi-provisioner"):
        await growing(world, driver, ("data", "other"))
        await request(world, "data", "2Gi")
        item = await asker.names("pvc/data", "ResizePending")
        assert item["evidence"][-1]["found"] == "no such Lease"
        await typed(world, item["next"][0])
        async with driver.sidecar("csi-resizer", "--timeout=1s"):
            await grown(world, "data", "2Gi")
            await asker.names("pvc/data", "Bound", exit_code=0)

            await request(world, "data", "20Gi")
            item = await asker.names("pvc/data", "ResizeFailed")
            assert "rpc error: code = ResourceExhausted" in item["evidence"][-1]["found"]
            assert f"VolumeResizeFailed of external-resizer {driver.name}" in item["evidence"][-1]["object"]
            await typed(world, item["next"][0])
            assert "above 2Gi" in item["advice"][0]
            await request(world, "data", "3Gi")
            await grown(world, "data", "3Gi")
            await asker.names("pvc/data", "Bound", exit_code=0)

            driver.process.pause()
            await request(world, "other", "2Gi")
            item = await asker.names("pvc/other", "ResizeFailed")
            assert "code = DeadlineExceeded" in item["evidence"][-1]["found"]
            driver.process.resume()
            await grown(world, "other", "2Gi")
            await asker.names("pvc/other", "Bound", exit_code=0)


async def test_a_size_that_the_driver_never_gives(own_world: World, asker: Asker) -> None:
    """The resizer tells in a condition what is infeasible; after a lower request it goes on."""
    world = own_world
    async with mock(world) as driver, driver.sidecar("csi-provisioner"), driver.sidecar("csi-resizer"):
        await register(world, driver.name, driver.node)
        await growing(world, driver, ("data",))
        await request(world, "data", "2Ti")
        item = await asker.names("pvc/data", "ResizeFailed")
        assert "ControllerResizeError: failed to expand pvc with rpc error: code = OutOfRange" in json.dumps(item)
        await typed(world, item["next"][0])
        await request(world, "data", "2Gi")
        await grown(world, "data", "2Gi")
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
