"""Volumes that are to be filled from a snapshot or from another claim, with the programs that take and copy these."""

import json
import subprocess
from pathlib import Path

import pytest

from devcluster.build import toolchain
from devcluster.build.modules import SIDECARS
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import IMMEDIATE, claim, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.why_command import Asker, bound, typed
from tests.scenarios.sidecars.installation import mock, register

pytestmark = pytest.mark.asyncio(loop_scope="session")

API = "snapshot.storage.k8s.io"
MODULE = "github.com/kubernetes-csi/external-snapshotter/client/v8"


async def test_a_snapshot(own_world: World, asker: Asker) -> None:
    """No VolumeSnapshots at all, none of that name, no controller, none of that class, and then one that is ready."""
    world = own_world
    async with mock(world) as driver, driver.sidecar("csi-provisioner"):
        await register(world, driver.name, driver.node)
        made = await world.storage_class(None, "made", binding=IMMEDIATE, provisioner=driver.name)
        from_snapshot = {"apiGroup": API, "kind": "VolumeSnapshot", "name": "before"}
        await world.admin.create(
            claim(world.namespace, "data", claim_spec(made)),
            claim(world.namespace, "copy", {**claim_spec(made), "dataSource": from_snapshot}),
        )
        await bound(world, "data")
        item = await asker.names("pvc/copy", "DataSourceNotReady")
        assert "this cluster has no VolumeSnapshots" in item["message"]
        await world.cluster.run_kubectl("apply", "-k", str(definitions()))
        await says(asker, "it does not exist")
        snapshot = {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": world.name("snaps")}
        await create(world, "VolumeSnapshot", "before", spec=snapshot)
        await says(asker, "it is not ready to use")
        snapshotting = await world.cluster.start_sidecar("snapshot-controller")
        try:
            await says(asker, "it failed: ")
            item = await asker.names("pvc/copy", "DataSourceNotReady")
            await typed(world, item["next"][0])
            about = {"driver": driver.name, "deletionPolicy": "Delete"}
            await create(world, "VolumeSnapshotClass", world.name("snaps"), **about)
            async with driver.sidecar("csi-snapshotter"):
                await bound(world, "copy")
                await asker.names("pvc/copy", "Bound", exit_code=0)
        finally:
            await snapshotting.stop()


async def test_a_snapshot_behind_other_causes(own_world: World, asker: Asker) -> None:
    """A class that is missing, a claim of which the snapshot is to be taken that is not bound, and then cannot go."""
    world = own_world
    await world.cluster.run_kubectl("apply", "-k", str(definitions()))
    snapshotting = await world.cluster.start_sidecar("snapshot-controller")
    try:
        async with mock(world) as driver, driver.sidecar("csi-provisioner"):
            await register(world, driver.name, driver.node)
            made = await world.storage_class(None, "made", binding=IMMEDIATE, provisioner=driver.name)
            from_snapshot = {"apiGroup": API, "kind": "VolumeSnapshot", "name": "before"}
            late = world.name("late")
            await world.admin.create(
                claim(world.namespace, "data", claim_spec(made, "2Ti")),
                claim(world.namespace, "copy", {**claim_spec(late), "dataSource": from_snapshot}),
            )
            about = {"driver": driver.name, "deletionPolicy": "Delete"}
            await create(world, "VolumeSnapshotClass", world.name("snaps"), **about)
            snapshot = {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": world.name("snaps")}
            await create(world, "VolumeSnapshot", "before", spec=snapshot)
            item = await asker.names("pvc/copy", "StorageClassNotFound")
            await typed(world, item["next"][0])
            await world.storage_class(None, "late", binding=IMMEDIATE, provisioner=driver.name)

            item = await asker.names("pvc/copy", "RequestNotSupported")  # Of the claim that the snapshot waits for.
            chain = [link["name"] for link in item["causes"]]
            assert chain[:3] == [f"{world.namespace}/{name}" for name in ("copy", "before", "data")]
            await typed(world, item["next"][0])
            await typed(world, f"kubectl -n {world.namespace} delete pvc data --wait=false")
            item = await asker.names("pvc/copy", "ClaimTerminating")  # The snapshot keeps it.
            assert "a VolumeSnapshot of it is not done" in item["message"]
            await typed(world, item["next"][0])
            await typed(world, f"kubectl -n {world.namespace} delete volumesnapshot before --timeout=60s")
            await eventually(world.claims, lambda claims: "data" not in claims, "the claim is gone")
            await world.admin.create(claim(world.namespace, "data", claim_spec(made)))
            await bound(world, "data")
            await create(world, "VolumeSnapshot", "before", spec=snapshot)
            item = await asker.names("pvc/copy", "DataSourceNotReady")  # Nothing takes it.
            await typed(world, item["next"][0])
            async with driver.sidecar("csi-snapshotter"):
                await bound(world, "copy")
                await asker.names("pvc/copy", "Bound", exit_code=0)
    finally:
        await snapshotting.stop()


async def test_a_claim_that_is_copied(own_world: World, asker: Asker) -> None:
    """One that is not bound for a reason of its own, and one whose volume is of the other mode."""
    world = own_world
    async with mock(world) as driver, driver.sidecar("csi-provisioner"):
        await register(world, driver.name, driver.node)
        made = await world.storage_class(None, "made", binding=IMMEDIATE, provisioner=driver.name)
        copy = {**claim_spec(made), "dataSource": {"kind": "PersistentVolumeClaim", "name": "original"}}
        await world.admin.create(
            claim(world.namespace, "original", claim_spec(made, "2Ti")), claim(world.namespace, "copy", copy)
        )
        item = await asker.names("pvc/copy", "RequestNotSupported")
        assert [link["name"] for link in item["causes"]][:2] == [f"{world.namespace}/{n}" for n in ("copy", "original")]
        await typed(world, item["next"][0])
        await typed(world, f"kubectl -n {world.namespace} delete pvc original")
        await world.admin.create(claim(world.namespace, "original", claim_spec(made)))
        await bound(world, "copy")
        await world.admin.create(claim(world.namespace, "raw", {**copy, "volumeMode": "Block"}))
        item = await asker.names("pvc/raw", "RequestNotSupported")
        assert "must have the same volume mode for cloning" in item["evidence"][0]["found"]


def definitions() -> Path:
    """Where the CustomResourceDefinitions are, of the version that the sidecars use."""
    command = ["go", "list", "-m", "-f", "{{.Dir}}", MODULE]
    listed = subprocess.run(
        command, cwd=SIDECARS[-1].source, env=toolchain.environment(), capture_output=True, text=True, check=True
    )
    return Path(listed.stdout.strip()) / "config" / "crd"


async def create(world: World, kind: str, name: str, **fields: Document | str) -> None:
    metadata = {"name": name} if kind == "VolumeSnapshotClass" else {"name": name, "namespace": world.namespace}
    made = {"apiVersion": f"{API}/v1", "kind": kind, "metadata": metadata, **fields}
    await world.cluster.run_kubectl("apply", "-f", "-", given=json.dumps(made))


async def says(asker: Asker, words: str) -> None:
    async def look() -> str:
        _, (item,) = await asker.ask("pvc/copy")
        return str(item.get("message", item))

    await eventually(look, lambda message: words in message, f"why pvc/copy: {words}")
