"""Where a class allows volumes, against where nodes and the driver are; external-provisioner looks, and rejects."""

import json

import pytest

from devcluster.control_plane.nodes import NodeSpec
from devcluster.driver.volumes import create_volume, delete_volume
from tests.scenarios.environment import documents
from tests.scenarios.environment.documents import HOSTNAME, ZONE, claim, claim_spec
from tests.scenarios.environment.world import World
from tests.scenarios.processes.why_command import Asker, typed
from tests.scenarios.sidecars.installation import CAPACITY, GI, Installed, directories, register

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROVISIONER = "csi-provisioner"


async def test_topologies_without_a_node(own_world: World, asker: Asker) -> None:
    """Nor is there any capacity then. A node is added, on which one of the pods fits; the other fits on none."""
    world = own_world
    async with directories(world, capacity=6 * GI, tracked=True) as driver, driver.sidecar(PROVISIONER, *CAPACITY):
        empty = world.name("empty")
        made = await class_allowing(world, driver, "made", ZONE, empty)
        await world.pod("app", {"data": claim_spec(made)})
        large = world.pod_documents("large", {"more": claim_spec(made)})
        large[-1]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
        await world.admin.create(*large)
        for pod in ("large", "app"):
            item = await asker.names(f"pod/{pod}", "AllowedTopologiesExcludeNodes")
        assert f"{ZONE} in ({empty})" in json.dumps(item["evidence"])
        await typed(world, item["next"][0])
        added = world.name("added")
        await register(world, driver.name, added)
        await world.cluster.add_nodes([NodeSpec(added, empty)])
        await world.all_run("app")
        await asker.names("pvc/data", "Bound", exit_code=0)
        await asker.names("pod/large", "NoNodeFits")


@pytest.mark.parametrize(
    ("flags", "words"),
    [((), "is not in requisite"), (("--strict-topology",), "is not in allowed topologies")],
    ids=["any-of-the-allowed", "strict-topology"],
)
async def test_topologies_by_no_key_of_the_driver(
    own_world: World, asker: Asker, flags: tuple[str, ...], words: str
) -> None:
    """The chosen node lacks the driver, then its class allows nodes by name, then the driver's storage is full."""
    world = own_world
    async with directories(world, capacity=6 * GI, registered=False) as driver, driver.sidecar(PROVISIONER, *flags):
        storage = world.cluster.directory / f"volumes-{driver.name}"
        create_volume(storage, "other", 4 * GI)
        by_name = await class_allowing(world, driver, "by-name", HOSTNAME, driver.node)
        await world.pod("app", {"data": claim_spec(by_name, "4Gi")})
        item = await asker.names("pod/app", "DriverNotOnNode")
        await typed(world, f"{item['next'][0]} || true")  # No DaemonSet of that name: the test plays the kubelet.
        await register(world, driver.name, driver.node)

        item = await asker.names("pod/app", "AllowedTopologiesExcludeNodes")
        assert f"allows topologies by {HOSTNAME}, which is no topology key of its driver" in item["message"]
        keys, event = item["evidence"]
        assert keys["found"] == ZONE
        assert words in event["found"]
        for command in item["next"]:  # The last one deletes the claim.
            await typed(world, command)
        by_zone = await class_allowing(world, driver, "by-zone", ZONE, world.name("zone"))
        await world.admin.create(claim(world.namespace, "data", claim_spec(by_zone, "4Gi")))
        item = await asker.names("pod/app", "InsufficientCapacity")
        await typed(world, item["next"][0])
        delete_volume(storage, "other")
        await world.all_run("app")
        await asker.names("pvc/data", "Bound", exit_code=0)


async def test_a_node_without_the_label_of_the_driver(own_world: World, asker: Asker) -> None:
    """The driver is registered there with a topology key that the node has no label for, as after a relabelling."""
    world = own_world
    async with directories(world) as driver, driver.sidecar(PROVISIONER):
        await world.admin.patch("Node", driver.node, {"metadata": {"labels": {ZONE: None}}})
        made = await world.storage_class(None, "made", provisioner=driver.name)
        await world.pod("app", {"data": claim_spec(made)}, **driver.here)
        item = await asker.names("pod/app", "DriverNotOnNode")
        assert "does not match topology keys from CSINode" in item["evidence"][0]["found"]
        assert "it reports its topology when it is registered" in item["advice"][0]
        await typed(world, item["next"][0])
        await world.admin.patch("Node", driver.node, {"metadata": {"labels": {ZONE: world.name("zone")}}})
        await world.all_run("app")
        await asker.names("pvc/data", "Bound", exit_code=0)


async def class_allowing(world: World, driver: Installed, word: str, key: str, value: str) -> str:
    """A class whose volumes may only be where nodes have this label."""
    name = world.name(word)
    topologies = [{"matchLabelExpressions": [{"key": key, "values": [value]}]}]
    made = documents.storage_class(name, None, prefix=world.prefix, provisioner=driver.name)
    await world.admin.create({**made, "allowedTopologies": topologies})
    return name
