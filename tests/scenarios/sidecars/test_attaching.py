"""Volumes that external-attacher attaches: one that its driver does not know, and one that another node has."""

from typing import Any

import pytest

from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import IMMEDIATE, claim, claim_spec, pod, pod_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.why_command import Asker, bound, typed
from tests.scenarios.sidecars.installation import Installed, mock, register

pytestmark = pytest.mark.asyncio(loop_scope="session")

ATTACHER = "csi-attacher"


async def test_a_volume_that_the_driver_does_not_know(own_world: World, asker: Asker) -> None:
    """The volume has the handle 4, and the driver's storage has three; it is restored with more, and deleted."""
    world = own_world
    async with mock(world) as driver:
        node = await attaching_node(world, driver, "one")
        await bound_volume(world, driver, handle="4")
        async with driver.sidecar(ATTACHER):
            await world.admin.create(not_started(world, node, "app"))
            item = await asker.names("pod/app", "AttachFailed")
            assert "rpc error: code = NotFound desc = 4" in item["evidence"][0]["found"]
            assert driver.name in item["evidence"][0]["object"]
            await typed(world, item["next"][0])
        await driver.process.stop()
        driver.process.command = [flag.replace("--volumes=3", "--volumes=4") for flag in driver.process.command]
        await driver.process.start()
        async with driver.sidecar(ATTACHER):
            await attached(world, node)
            await asker.names("pod/app", "Scheduled", exit_code=0)
            await world.admin.delete("Pod", "app", world.namespace)
            await eventually(lambda: attachments(world), lambda there: not there, "it is detached")
            await world.admin.delete("PersistentVolume", world.name("disk"))
            await world.admin.create(not_started(world, node, "late"))
            item = await asker.names("pod/late", "VolumeTerminating")
            assert "is marked for deletion" in item["evidence"][-1]["found"]
            await typed(world, item["next"][0])


async def test_no_attacher(own_world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing reports an error: the VolumeAttachment stays as the attach-detach controller created it."""
    world, patient = own_world, Asker(own_world, capsys, seconds=180)
    async with mock(world) as driver:
        node = await attaching_node(world, driver, "one")
        await bound_volume(world, driver, handle="1")
        await world.admin.create(not_started(world, node, "app"))
        item = await patient.names("pod/app", "AttachFailed")
        assert "its attacher does not respond" in item["message"]
        assert item["evidence"][-1]["found"] == "no such Lease"
        await typed(world, item["next"][0])
        async with driver.sidecar(ATTACHER):
            await attached(world, node)
            await patient.names("pod/app", "Scheduled", exit_code=0)


async def test_a_volume_that_another_node_has(own_world: World, asker: Asker) -> None:
    """A volume for one node, a pod that uses it there, and one elsewhere; and the node's driver is missing, too."""
    world = own_world
    async with mock(world) as driver, driver.sidecar(ATTACHER):
        first, second = await attaching_node(world, driver, "one"), await attaching_node(world, driver, "two")
        await bound_volume(world, driver, handle="1")
        await world.admin.create(not_started(world, first, "app"))
        await attached(world, first)
        await world.admin.create(not_started(world, second, "moved"))
        item = await asker.names("pod/moved", "AttachConflict")
        assert [link["name"] for link in item["causes"]][-2:] == [first, f"{world.namespace}/app"]
        await typed(world, item["next"][0])  # It shows the pod that has the volume; deleting it is the user's decision.
        await typed(world, f"kubectl -n {world.namespace} delete pod app --grace-period=0 --force")
        await attached(world, second)
        await asker.names("pod/moved", "Scheduled", exit_code=0)

        # A node that has no CSINode entry of the driver: the attacher itself says so.
        third = await attaching_node(world, driver, "three", registered=False)
        await register(world, "other.csi.example", third)
        await world.admin.delete("Pod", "moved", world.namespace)
        await eventually(lambda: attachments(world), lambda there: not there, "it is detached")
        await world.admin.create(not_started(world, third, "stray"))
        item = await asker.names("pod/stray", "DriverNotOnNode")
        assert f"CSINode {third} does not contain driver {driver.name}" in item["evidence"][-1]["found"]
        await typed(world, f"kubectl delete csinode {third}")
        await register(world, driver.name, third, driver.name)
        await attached(world, third)
        await asker.names("pod/stray", "Scheduled", exit_code=0)


async def attaching_node(world: World, driver: Installed, word: str, *, registered: bool = True) -> str:
    """A node whose volumes the attach-detach controller attaches, as a kubelet asks for it, with the driver on it."""
    node = NodeSpec(world.name(word), "zone-a").manifest()
    node["metadata"]["annotations"] = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
    await world.admin.create(node)
    name = str(node["metadata"]["name"])
    if registered:
        await register(world, driver.name, name, driver.name)  # The only id that the mock driver attaches to.
    return name


async def bound_volume(world: World, driver: Installed, handle: str) -> None:
    disks = await world.storage_class(None, binding=IMMEDIATE)
    await world.volumes(disks, world.volume("disk", disks, driver=driver.name, handle=handle))
    await world.admin.create(claim(world.namespace, "data", claim_spec(disks)))
    await bound(world, "data")


def not_started(world: World, node: str, name: str) -> Document:
    """A pod on a node that does not start before its volume is attached: kwok leaves it alone."""
    made = pod(world.namespace, name, pod_spec(("data",), extra={"nodeName": node}))
    made["metadata"]["annotations"] = {"kwok.x-k8s.io/status": "custom"}
    return made


async def attachments(world: World) -> dict[str, Any]:
    """Node -> whether the story's volume is attached to it."""
    every = await world.admin.list("VolumeAttachment")
    own = [each for each in every if each["spec"]["source"].get("persistentVolumeName") == world.name("disk")]
    return {each["spec"]["nodeName"]: each.get("status", {}).get("attached", False) for each in own}


async def attached(world: World, node: str) -> None:
    await eventually(lambda: attachments(world), lambda there: there.get(node) is True, f"it is attached to {node}")
