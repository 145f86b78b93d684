"""Causes in claims and their volumes on a real control plane: produced as they come about, alone and behind another.

After what `why` says to type, or to do, the claim is bound or the pod runs.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import DELAYED, IMMEDIATE, ZONE, claim, claim_spec, pod, pod_spec
from tests.scenarios.environment.lost_volumes import let_go
from tests.scenarios.environment.provisioner import provisioning
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.why_command import Asker, bound, looked_up, reported, typed

pytestmark = pytest.mark.asyncio(loop_scope="session")

ONE_POD = ("ReadWriteOncePod",)


async def test_the_life_of_a_claim(own_world: World, asker: Asker) -> None:
    """Requested by name, used by one pod alone, deleted while in use, lost: each is named, and mended."""
    world = own_world
    now = await world.storage_class(None, "now", binding=IMMEDIATE)
    small = world.volume("small", now, access_modes=ONE_POD)
    await world.volumes(now, small)
    spec = {**claim_spec(now, "2Gi", ONE_POD), "volumeName": world.name("small")}
    await world.admin.create(claim(world.namespace, "data", spec), pod(world.namespace, "one", pod_spec(("data",))))
    item = await asker.names("pod/one", "RequestedPVMismatch")
    assert item["causes"][-1]["name"] == world.name("small")
    await typed(world, item["next"][0])
    await asker.names("pod/one", "ClaimNotFound")
    await world.admin.create(claim(world.namespace, "data", claim_spec(now, "1Gi", ONE_POD)))
    await world.all_run("one")

    too_large = {"cpu": "1000"}
    second = pod(world.namespace, "two", pod_spec(("data",)))
    second["spec"]["containers"][0]["resources"]["requests"] = too_large
    await world.admin.create(second, pod(world.namespace, "three", pod_spec(("data",))))
    await asker.names("pod/two", "ReadWriteOncePodInUse")  # And it is larger than any node.
    item = await asker.names("pod/three", "ReadWriteOncePodInUse")
    assert item["causes"][-1]["name"] == f"{world.namespace}/one"
    await typed(world, item["next"][0])
    await world.admin.delete("Pod", "one", world.namespace)
    await world.all_run("three")
    await world.admin.delete("Pod", "three", world.namespace)
    await asker.names("pod/two", "NoNodeFits")

    await world.admin.create(pod(world.namespace, "user", pod_spec(("data",))))
    await world.all_run("user")
    await world.admin.delete("PersistentVolumeClaim", "data", world.namespace)
    item = await asker.names("pod/two", "ClaimTerminating")
    assert item["causes"][-1]["name"] == f"{world.namespace}/user"
    await typed(world, item["next"][0])
    await world.admin.delete("Pod", "user", world.namespace)
    await asker.names("pod/two", "ClaimNotFound")
    item = await asker.names(f"pv/{world.name('small')}", "VolumeReleased")
    await typed(world, item["next"][0])
    await asker.names(f"pv/{world.name('small')}", "Available", exit_code=0)


async def test_a_lost_volume_that_is_created_again(own_world: World, asker: Asker) -> None:
    world = own_world
    now = await world.storage_class(None, "now", binding=IMMEDIATE)
    volume = world.volume("kept", now)
    await world.volumes(now, volume)
    await world.admin.create(claim(world.namespace, "data", claim_spec(now)))
    await bound(world, "data")
    await world.admin.delete("PersistentVolume", world.name("kept"))
    await asker.names(f"pv/{world.name('kept')}", "VolumeTerminating")
    await eventually(lambda: let_go(world, "kept"), lambda gone: gone, "the volume is gone")
    await world.admin.create(pod(world.namespace, "app", pod_spec(("data",), extra={"nodeSelector": {"disk": "ssd"}})))
    item = await asker.names("pod/app", "ClaimLost")
    assert "do not delete the claim" in item["advice"][0]
    await asker.names("pvc/data", "ClaimLost")
    await typed(world, item["next"][0])
    # As from a backup: with the claim that it is bound to.
    owner = (await world.claims())["data"]["metadata"]
    reference = {"namespace": world.namespace, "name": "data", "uid": owner["uid"]}
    await world.admin.create({**volume, "spec": {**volume["spec"], "claimRef": reference}})
    await bound(world, "data")
    await asker.names("pvc/data", "Bound", exit_code=0)
    await asker.names("pod/app", "NoNodeFits")


async def test_a_volume_that_is_to_grow(own_world: World, asker: Asker) -> None:
    """No resizer runs, then the resizer fails, and then the volume is resized; its attributes are modified likewise."""
    world = own_world
    growing = await world.storage_class(None, "growing", binding=IMMEDIATE)
    await world.admin.patch("StorageClass", growing, {"allowVolumeExpansion": True})
    await world.volumes(growing, world.volume("disk", growing))
    await world.admin.create(claim(world.namespace, "data", claim_spec(growing)))
    await bound(world, "data")
    larger = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
    await world.admin.patch("PersistentVolumeClaim", "data", larger, world.namespace)
    item = await asker.names("pvc/data", "ResizePending")
    await looked_up(world, item["next"][0])  # No workload: the test plays the driver.
    error = [{"type": "ControllerResizeError", "status": "True", "message": "quota"}]
    await of_claim(world, "data", {"conditions": error})
    item = await asker.names("pvc/data", "ResizeFailed")
    assert "quota" in item["evidence"][0]["found"]
    await of_claim(world, "data", {"conditions": [], "capacity": {"storage": "3Gi"}})
    await asker.names("pvc/data", "Bound", exit_code=0)

    gold = world.name("gold")
    attributes = {"spec": {"volumeAttributesClassName": gold}}
    await world.admin.patch("PersistentVolumeClaim", "data", attributes, world.namespace)
    item = await asker.names("pvc/data", "ModifyPending")
    await looked_up(world, item["next"][0])  # No workload: the test plays the driver.
    await of_claim(world, "data", {"currentVolumeAttributesClassName": gold})
    await asker.names("pvc/data", "Bound", exit_code=0)


async def of_claim(world: World, name: str, status: Document) -> None:
    patch = {"status": status}
    await world.admin.patch("PersistentVolumeClaim", name, patch, world.namespace, subresource="status")


async def test_while_the_pv_controller_is_stopped(own_world: World, asker: Asker) -> None:
    """What is on its way is no problem; a claim that waited for a default class says which of two is taken."""
    world = own_world
    now = await world.storage_class(None, "now", binding=IMMEDIATE)
    await world.volumes(now, world.volume("one", now), world.volume("two", now), world.volume("three", now))
    await world.admin.create(claim(world.namespace, "classless", without_class(claim_spec(now))))
    async with world.pv_controller_paused():
        named = {**claim_spec(now), "volumeName": world.name("one")}
        await world.admin.create(
            claim(world.namespace, "named", named),
            claim(world.namespace, "plain", claim_spec(now)),
            pod(world.namespace, "app", pod_spec(("plain",))),
        )
        await asker.names("pvc/named", "PreboundIncomplete", exit_code=0)
        await asker.names("pvc/plain", "Progressing", exit_code=0)
        await asker.names("pod/app", "ImmediateUnbound", exit_code=0)
        await world.admin.create(world.volume("unseen", now))
        await asker.names(f"pv/{world.name('unseen')}", "Progressing", exit_code=0)
        await asker.names("pvc/classless", "NoStorageClass")
        other = await world.storage_class(None, "another", binding=IMMEDIATE)  # In one second the first by name.
        marked = {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}
        for each in (now, other):
            await world.admin.patch("StorageClass", each, marked)
        await asker.names("pvc/classless", "StaticOnlyNoMatch")  # The newest is taken, and has no volume.
        await world.admin.create(world.volume("of-another", other))
        await available(world, "of-another")
        item = await asker.names("pvc/classless", "AmbiguousDefaultClass")
        await typed(world, item["next"][0])
        await asker.names("pvc/classless", "Progressing", exit_code=0)
    await bound(world, "named")
    await bound(world, "classless")
    await world.all_run("app")


async def available(world: World, word: str) -> None:
    """Say of a volume what the PV controller would."""
    status = {"status": {"phase": "Available"}}
    await world.admin.patch("PersistentVolume", world.name(word), status, subresource="status")


def without_class(spec: Document) -> Document:
    return {key: value for key, value in spec.items() if key != "storageClassName"}


async def test_the_volume_that_a_driver_is_to_make(own_world: World, asker: Asker) -> None:
    """From a place without a node, over a place without room and a node that goes, to a driver that rejects."""
    world = own_world
    zone = world.name("zone")
    made = world.name("made")
    async with installed(world, world.name("csi.example")) as driver:
        await world.admin.create(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": made},
                "provisioner": driver,
                "volumeBindingMode": DELAYED,
                "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]}],
            }
        )
        await world.pod("app", {"data": claim_spec(made)})
        await asker.names("pvc/data", "DriverNotOnNode")
        await registered(world, driver, await world.some_node())
        item = await asker.names("pod/app", "AllowedTopologiesExcludeNodes")
        await typed(world, item["next"][0])

        await node_in(world, driver, "first", zone)
        item = await asker.names("pvc/data", "InsufficientCapacity")
        await typed(world, item["next"][0])
        await world.admin.create(room(world, made, zone))
        await eventually(lambda: selected_of(world, "data"), bool, "a node is chosen")
        await asker.names("pvc/data", "Progressing", exit_code=0)

        await world.admin.delete("Node", world.name("first"))
        item = await asker.names("pod/app", "SelectedNodeStale")
        await node_in(world, driver, "second", zone)
        for command in item["next"]:
            await typed(world, command)
        await eventually(
            lambda: selected_of(world, "data"), lambda node: node == world.name("second"), "another node is chosen"
        )

        await failed(world, driver, "rpc error: code = Unavailable desc = backend is away")
        item = await asker.names("pvc/data", "BackendError")
        assert "may still be running" in item["advice"][0]
        await looked_up(world, item["next"][0])  # No workload: the test plays the driver.
        await failed(world, driver, "rpc error: code = InvalidArgument desc = no such parameter")
        await asker.names("pod/app", "RequestNotSupported")
        async with provisioning(world, made):
            await world.all_run("app")


async def test_what_a_volume_is_to_be_filled_with(own_world: World, asker: Asker) -> None:
    """A claim that is not bound, for a reason of its own, and a populator that is not installed."""
    world = own_world
    now = await world.storage_class(None, "now", binding=IMMEDIATE)
    async with installed(world, world.name("csi.example")) as driver:
        await registered(world, driver, await world.some_node())
        made = await world.storage_class(None, "made", binding=IMMEDIATE, provisioner=driver)
        copy = {**claim_spec(made), "dataSource": {"kind": "PersistentVolumeClaim", "name": "original"}}
        foreign = {"apiGroup": "example.com", "kind": "Backup", "name": "monday"}
        await world.admin.create(
            claim(world.namespace, "copy", copy),
            claim(world.namespace, "filled", {**claim_spec(world.name("later")), "dataSourceRef": foreign}),
        )
        await asker.names("pvc/copy", "DataSourceNotReady")
        await asker.names("pvc/filled", "StorageClassNotFound")
        await world.volumes(now, world.volume("disk", now))
        await world.admin.create(claim(world.namespace, "original", claim_spec(f"{now}w")))
        item = await asker.names("pvc/copy", "StorageClassNotFound")
        assert [link["name"] for link in item["causes"]][:2] == [f"{world.namespace}/{n}" for n in ("copy", "original")]
        await typed(world, item["next"][0])
        await typed(world, f"kubectl -n {world.namespace} delete pvc original")
        await world.admin.create(claim(world.namespace, "original", claim_spec(now)))
        await bound(world, "original")
        await asker.names("pvc/copy", "Progressing", exit_code=0)

        later = await world.storage_class(None, "later", binding=IMMEDIATE, provisioner=driver)
        item = await asker.names("pvc/filled", "PopulatorPending")
        assert "Backup" not in await typed(world, item["next"][0])  # Its definition is not installed.
        await typed(world, item["next"][1])
        filled = world.volume("filled", later)  # As a populator hands it over (KEP-1495).
        owner = (await world.claims())["filled"]["metadata"]
        filled["spec"]["claimRef"] = {"namespace": world.namespace, "name": "filled", "uid": owner["uid"]}
        await world.admin.create(filled)
        await bound(world, "filled")


async def selected_of(world: World, name: str) -> str:
    annotations = (await world.claims())[name]["metadata"].get("annotations", {})
    return str(annotations.get("volume.kubernetes.io/selected-node", ""))


@asynccontextmanager
async def installed(world: World, driver: str) -> AsyncIterator[str]:
    """A CSI driver that reports its capacity; its node plugin runs nowhere yet."""
    about = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": driver}}
    await world.admin.create({**about, "spec": {"attachRequired": False, "storageCapacity": True}})
    try:
        yield driver
    finally:
        await world.admin.delete("CSIDriver", driver)
        for node in await world.admin.list("CSINode"):
            if any(each["name"] == driver for each in node["spec"]["drivers"] or ()):
                await world.admin.delete("CSINode", node["metadata"]["name"])


async def registered(world: World, driver: str, node: str) -> None:
    """What the kubelet does when the node plugin of a driver starts."""
    spec = {"drivers": [{"name": driver, "nodeID": node, "topologyKeys": [ZONE]}]}
    made = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": node}, "spec": spec}
    await world.admin.create(made)


async def node_in(world: World, driver: str, word: str, zone: str) -> None:
    """A node of the story's own, with the driver's node plugin."""
    await registered(world, driver, world.name(word))
    await world.cluster.add_nodes([NodeSpec(world.name(word), zone)])


def room(world: World, storage_class: str, zone: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"namespace": world.namespace, "name": "room"},
        "storageClassName": storage_class,
        "nodeTopology": {"matchLabels": {ZONE: zone}},
        "capacity": "10Gi",
    }


async def failed(world: World, driver: str, note: str) -> None:
    """Write the Event that external-provisioner writes when its driver rejects."""
    await reported(world, "PersistentVolumeClaim", "data", "ProvisioningFailed", note, f"{driver}_controller-0")
