"""Mode provision: claims with a data source, ephemeral volumes, attributes, and nodes that a class cannot serve."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.binder.provisioner import DRIVER, Provisioner, gated, is_gated, pool_world, selected
from tests.binder.world import World, bind
from tests.fakes.objects import HOSTNAME, claim_object, pod_object, volume_object

POOLS = {"node-a1": "100Gi", "node-a2": "900Gi"}


def spec_of(world: World, claim: str, **fields: Any) -> None:
    world.server.change("persistentvolumeclaims", f"default/{claim}", lambda document: document["spec"].update(fields))


def copies(name: str) -> dict[str, str]:
    return {"kind": "PersistentVolumeClaim", "name": name}


def with_original(world: World) -> None:
    """A claim whose volume is on node-a1."""
    world.put(claim_object("original", "10Gi", storage_class="made"))
    world.put(volume_object("pvc-original", "10Gi", zone=None, node="node-a1", storage_class="made"))
    bind(world, "original", "pvc-original")


async def test_a_clone_is_made_where_its_original_is() -> None:
    """Elsewhere is more room; a driver copies within a pool."""
    world = pool_world(POOLS)
    with_original(world)
    gated(world, "db", "20Gi", "30Gi")
    spec_of(world, "db-0", dataSource=copies("original"))
    async with world.process() as process:
        await process.run()
        assert selected(world) == {"db-0": "node-a1", "db-1": "node-a1"}


async def test_a_clone_waits_for_its_original_and_says_so() -> None:
    world = pool_world(POOLS)
    gated(world, "db", "20Gi")
    spec_of(world, "db-0", dataSource=copies("original"))
    async with world.process() as process:
        await process.run()
        assert selected(world) == {}
        assert is_gated(world, "db")
        assert process.sink.reasons_of("Pod", "db") == ["DataSourceNotReady"]
        assert "wanted a Bound claim original to copy, found no such claim" in process.sink.events[0].note
        with_original(world)
        await process.run(120)
        assert selected(world) == {"db-0": "node-a1"}


@pytest.mark.parametrize(
    "fields",
    [
        {
            "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "old"}
        },  # No such kind.
        {"dataSourceRef": {"apiGroup": "example.com", "kind": "Dataset", "name": "big"}},
        {"selector": {"matchLabels": {"disk": "ssd"}}},
    ],
    ids=["unknown-snapshot", "populator", "selector"],
)
async def test_what_something_else_decides_is_left_alone_with_all_claims_of_the_pod(fields: dict[str, Any]) -> None:
    world = pool_world(POOLS)
    gated(world, "db", "20Gi", "30Gi")
    spec_of(world, "db-0", **fields)
    async with world.process() as process:
        await process.run()
        assert selected(world) == {}
        assert not is_gated(world, "db")


OLD = ("volumesnapshots", "default/old")
SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "old"}


def take_snapshot(world: World, *, ready: bool = True, size: str = "20Gi", node: str = "") -> None:
    """A VolumeSnapshot `old`, whose content is on this node only if one is named."""
    status = {"readyToUse": ready, "restoreSize": size, "boundVolumeSnapshotContentName": "content"}
    labels = {"snapshot.storage.kubernetes.io/managed-by": node} if node else {}
    world.server.snapshots = {
        OLD: {"metadata": {"name": "old"}, "status": status},
        ("volumesnapshotcontents", "content"): {"metadata": {"name": "content", "labels": labels}},
    }


async def test_a_volume_from_a_snapshot_waits_until_that_is_ready_to_use() -> None:
    world = pool_world(POOLS)
    take_snapshot(world, ready=False)
    gated(world, "db", "20Gi", "30Gi")
    spec_of(world, "db-0", dataSource=SNAPSHOT)
    async with world.process() as process:
        await process.run()
        assert selected(world) == {}
        assert is_gated(world, "db")
        assert process.sink.reasons_of("Pod", "db") == ["DataSourceNotReady"]
        assert "wanted a usable VolumeSnapshot old, found it is not ready to use" in process.sink.events[0].note
        take_snapshot(world)
        await process.run(120)
        assert len(set(selected(world).values())) == 1
        assert set(selected(world)) == {"db-0", "db-1"}


async def test_volumes_are_made_on_the_node_where_the_snapshot_is() -> None:
    """On node-a2 is more room."""
    world = pool_world(POOLS)
    take_snapshot(world, node="node-a1")
    gated(world, "db", "20Gi", "30Gi")
    spec_of(world, "db-0", dataSource=SNAPSHOT)
    async with world.process() as process:
        await process.run()
        assert selected(world) == {"db-0": "node-a1", "db-1": "node-a1"}


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda kept: kept.clear(), "it does not exist"),
        (lambda kept: kept.pop(("volumesnapshotcontents", "content")), "its content content does not exist"),
        (lambda kept: kept[OLD]["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"), "it is being deleted"),
        (lambda kept: kept[OLD]["status"].update(restoreSize="40Gi"), "one that needs 40Gi, and 20Gi requested"),
        (lambda kept: kept[OLD]["status"].update(restoreSize="much"), "it cannot be understood"),
        (lambda kept: kept[OLD].update(status={"error": {"message": "no space"}}), "it failed: no space"),
        (lambda kept: kept[OLD].pop("status"), "it is not ready to use"),
    ],
    ids=["missing", "without-content", "deleting", "too-large", "malformed", "failed", "new"],
)
async def test_a_snapshot_that_cannot_be_used_is_reported(spoil: Callable[[Any], object], problem: str) -> None:
    world = pool_world(POOLS)
    take_snapshot(world)
    spoil(world.server.snapshots)
    gated(world, "db", "20Gi")
    spec_of(world, "db-0", dataSourceRef=SNAPSHOT)
    async with world.process() as process:
        await process.run()
        assert (selected(world), is_gated(world, "db")) == ({}, True)
        assert f"found {problem}" in process.sink.events[0].note


async def test_a_generic_ephemeral_volume_is_made_with_the_others() -> None:
    world = pool_world(POOLS)
    gated(world, "db", "20Gi")
    pod = world.server.get("pods", "default/db")
    pod["spec"]["volumes"].append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
    world.put(pod)
    made = claim_object("db-scratch", "95Gi", storage_class="made")
    uid = world.server.get("pods", "default/db")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "db", "uid": uid, "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    world.put(made)
    provisioner = Provisioner(world, POOLS)
    async with world.process() as process:
        await process.run()
        assert selected(world) == {"db-0": "node-a2", "db-scratch": "node-a2"}
        provisioner.work()
        await process.run()
        assert not is_gated(world, "db")


async def test_a_claim_with_a_volume_attributes_class_is_made_like_any_other() -> None:
    world = pool_world(POOLS)
    gated(world, "db", "60Gi", "60Gi")
    spec_of(world, "db-0", volumeAttributesClassName="gold")
    async with world.process() as process:
        await process.run()
        assert selected(world) == {"db-0": "node-a2", "db-1": "node-a2"}


async def test_only_nodes_in_the_allowed_topologies_are_selected() -> None:
    world = pool_world(POOLS)
    made = world.server.get("storageclasses", "made")
    made["allowedTopologies"] = [{"matchLabelExpressions": [{"key": HOSTNAME, "values": ["node-a1"]}]}]
    world.put(made)
    gated(world, "db", "30Gi")
    async with world.process() as process:
        await process.run()
        assert selected(world) == {"db-0": "node-a1"}


async def test_where_no_node_is_in_the_allowed_topologies_no_storage_is_reported_as_full() -> None:
    world = pool_world(POOLS)
    made = world.server.get("storageclasses", "made")
    made["allowedTopologies"] = [{"matchLabelExpressions": [{"key": HOSTNAME, "values": ["node-z9"]}]}]
    world.put(made)
    gated(world, "db", "30Gi", "30Gi")
    async with world.process() as process:
        await process.run()
        assert process.sink.reasons_of("Pod", "db") == ["NoNodeFits"]
        assert "found labels that do not match" in process.sink.events[0].note


@pytest.mark.parametrize("lacks", ["driver", "label"])
async def test_a_node_without_the_driver_or_a_label_of_its_topology_is_not_selected(lacks: str) -> None:
    world = pool_world(POOLS)
    csi_node = world.server.get("csinodes", "node-a2")
    if lacks == "driver":
        csi_node["spec"]["drivers"] = []
    else:
        csi_node["spec"]["drivers"][0]["topologyKeys"] = [HOSTNAME, "example.com/rack"]
    world.put(csi_node)
    gated(world, "db", "60Gi", "60Gi")
    async with world.process() as process:
        await process.run()
        assert selected(world) == {}
        assert is_gated(world, "db")


async def test_new_volumes_are_made_where_the_pod_has_a_bound_one() -> None:
    world = pool_world(POOLS)
    with_original(world)
    world.put(claim_object("db-0", "30Gi", storage_class="made"), pod_object("db", ["original", "db-0"], gated=True))
    async with world.process() as process:
        await process.run()
        assert selected(world) == {"db-0": "node-a1"}


async def test_classes_of_one_driver_that_differ_in_the_file_system_share_their_pools() -> None:
    world = pool_world({"node-a1": "100Gi"})
    made = world.server.get("storageclasses", "made")
    about = {"name": "xfs", "annotations": made["metadata"]["annotations"]}
    world.put({**made, "metadata": about, "parameters": {"csi.storage.k8s.io/fstype": "xfs"}})
    free = world.server.get("csistoragecapacities", "kube-system/free-node-a1")
    about = {"name": "free-xfs", "namespace": "kube-system"}
    world.put({**free, "metadata": about, "storageClassName": "xfs"})
    world.put(claim_object("one", "60Gi", storage_class="made"), claim_object("two", "60Gi", storage_class="xfs"))
    world.put(pod_object("db", ["one", "two"], gated=True))
    async with world.process() as process:
        await process.run()
        assert selected(world) == {}
        assert process.sink.reasons_of("Pod", "db") == ["InsufficientCapacity"]


async def test_a_driver_without_capacity_tracking_gets_one_place_for_all() -> None:
    world = pool_world({"node-a1": "1Gi", "node-a2": "1Gi"})
    driver = world.server.get("csidrivers", DRIVER)
    driver["spec"]["storageCapacity"] = False
    world.put(driver)
    gated(world, "db", "60Gi", "60Gi")
    async with world.process() as process:
        await process.run()
        assert len(selected(world)) == 2
        assert len(set(selected(world).values())) == 1


async def test_a_claim_for_which_nothing_can_be_made_takes_no_room_and_is_counted() -> None:
    """Any user of a namespace can write a selected node."""
    world = pool_world({"node-a1": "100Gi"})
    gated(world, "forged", "90Gi", gate=False)
    spec_of(world, "forged-0", selector={"matchLabels": {"disk": "ssd"}})
    where = {"volume.kubernetes.io/selected-node": "node-a1"}
    world.server.change(
        "persistentvolumeclaims", "default/forged-0", lambda claim: claim["metadata"].update(annotations=where)
    )
    gated(world, "db", "60Gi")
    async with world.process() as process:
        await process.run()
        assert selected(world)["db-0"] == "node-a1"
        assert process.reconciler.planner.not_in_flight() == {"Selector": 1}
