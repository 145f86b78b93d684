"""What external-provisioner reports when a driver makes no volume, each failure by its real cause."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import IMMEDIATE, claim, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.why_command import Asker, Item, bound, typed
from tests.scenarios.sidecars.installation import CAPACITY, GI, directories, mock, register

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROVISIONER = "csi-provisioner"
LARGE: Document = {"requests": {"cpu": "1000"}}
"""More than any node has: a second cause, behind the one of the claim."""


async def test_a_storage_whose_capacity_is_published(own_world: World, asker: Asker) -> None:
    """The scheduler goes by external-provisioner's CSIStorageCapacities; what is deleted makes room."""
    world = own_world
    async with directories(world, capacity=6 * GI, tracked=True) as driver, driver.sidecar(PROVISIONER, *CAPACITY):
        made = await world.storage_class(None, "made", provisioner=driver.name)
        await world.pod("first", {"one": claim_spec(made, "4Gi")})
        await world.all_run("first")
        await world.pod("second", {"two": claim_spec(made, "4Gi")})
        await large_pod(world, "third", {"three": claim_spec(made, "4Gi")})
        for pod in ("second", "third"):
            item = await asker.names(f"pod/{pod}", "InsufficientCapacity")
        await eventually(lambda: words_of(asker, "pod/second"), lambda words: "at most 2Gi" in words, "2Gi are left")
        await typed(world, item["next"][0])
        await without(world, "first", "one")
        await world.all_run("second")
        await asker.names("pvc/two", "Bound", exit_code=0)


async def test_a_storage_that_is_full(own_world: World, asker: Asker) -> None:
    """Without published capacities only the driver knows, and the provisioner lets the scheduler choose once more."""
    world = own_world
    async with directories(world, capacity=6 * GI) as driver, driver.sidecar(PROVISIONER):
        made = await world.storage_class(None, "made", provisioner=driver.name)
        await world.pod("first", {"one": claim_spec(made, "4Gi")}, **driver.here)
        await world.all_run("first")
        await world.pod("second", {"two": claim_spec(made, "4Gi")}, **driver.here)
        item = await asker.names("pod/second", "InsufficientCapacity")
        assert_quoted(item, driver.name, "rpc error: code = ResourceExhausted desc = 4294967296 bytes wanted")
        for _ in range(20):  # The node is chosen, given up and chosen again meanwhile.
            for target in ("pod/second", "pvc/two"):
                assert await asker.code(target) == (3, "InsufficientCapacity")
        await typed(world, item["next"][0])
        await without(world, "first", "one")
        await world.all_run("second")


async def test_what_a_driver_never_accepts(own_world: World, asker: Asker) -> None:
    """A raw block device, a class with a parameter that means nothing, and a size beyond everything."""
    world = own_world
    async with directories(world) as driver, driver.sidecar(PROVISIONER):
        made = await world.storage_class(None, "made", binding=IMMEDIATE, provisioner=driver.name)
        await large_pod(world, "app", {"raw": {**claim_spec(made), "volumeMode": "Block"}})
        item = await asker.names("pod/app", "RequestNotSupported")  # And it is larger than any node.
        assert_quoted(item, driver.name, "infeasible error", "code = InvalidArgument desc = only mounted file systems")
        await typed(world, item["next"][0])
        await without(world, "app", "raw")
        await again(world, "raw", claim_spec(made))
        await asker.names("pvc/raw", "Bound", exit_code=0)

        odd = await class_with(world, "odd", driver.name, {"csi.storage.k8s.io/colour": "blue"})
        await world.admin.create(claim(world.namespace, "odd", claim_spec(odd)))
        item = await asker.names("pvc/odd", "RequestNotSupported")
        assert_quoted(item, driver.name, 'found unknown parameter key "csi.storage.k8s.io/colour"')
        await world.admin.delete("StorageClass", odd)
        await world.admin.create(
            documents.storage_class(odd, None, prefix=world.prefix, binding=IMMEDIATE, provisioner=driver.name)
        )
        await bound(world, "odd")


async def test_a_size_out_of_range(own_world: World, asker: Asker) -> None:
    """The driver has no topology, and so is called although no node has it."""
    world = own_world
    async with mock(world) as driver, driver.sidecar(PROVISIONER):
        made = await world.storage_class(None, "made", binding=IMMEDIATE, provisioner=driver.name)
        await world.admin.create(claim(world.namespace, "data", claim_spec(made, "2Ti")))
        item = await asker.names("pvc/data", "RequestNotSupported")
        assert_quoted(item, driver.name, "code = OutOfRange desc = Requested capacity 2199023255552 exceeds maximum")
        await typed(world, item["next"][0])
        await again(world, "data", claim_spec(made))


async def test_a_storage_that_fails(own_world: World, asker: Asker) -> None:
    """A Secret that is missing, storage that is broken, and a driver that does not respond; each is mended."""
    world = own_world
    async with directories(world) as driver, driver.sidecar(PROVISIONER, "--timeout=1s"):
        secret = {"csi.storage.k8s.io/provisioner-secret-name": "login"}
        secret["csi.storage.k8s.io/provisioner-secret-namespace"] = world.namespace
        locked = await class_with(world, "locked", driver.name, secret)
        await world.admin.create(claim(world.namespace, "locked", claim_spec(locked)))
        item = await asker.names("pvc/locked", "BackendError")
        assert_quoted(item, driver.name, f"error getting secret login in namespace {world.namespace}")
        assert f"Secret {world.namespace}/login: create it" in item["advice"][0]
        await typed(world, f"kubectl -n {world.namespace} create secret generic login --from-literal=a=b")
        await bound(world, "locked")

        made = await world.storage_class(None, "made", binding=IMMEDIATE, provisioner=driver.name)
        records = world.cluster.directory / f"volumes-{driver.name}" / "records"
        break_records(records)
        await large_pod(world, "app", {"data": claim_spec(made)})
        item = await asker.names("pod/app", "BackendError")
        assert_quoted(item, driver.name, "rpc error: code = Unknown")
        assert "the driver's logs" in item["advice"][0]
        mend_records(records)
        await bound(world, "data")
        await asker.names("pod/app", "NoNodeFits")

        driver.process.pause()
        await world.admin.create(claim(world.namespace, "slow", claim_spec(made)))
        item = await asker.names("pvc/slow", "BackendError")
        assert_quoted(item, driver.name, "rpc error: code = DeadlineExceeded")
        assert "may still be running" in item["advice"][0]
        driver.process.resume()
        await bound(world, "slow")


def break_records(records: Path) -> None:
    """A file where the driver's directory was."""
    shutil.move(records, records.with_name("kept"))
    records.touch()


def mend_records(records: Path) -> None:
    records.unlink()
    shutil.move(records.with_name("kept"), records)


async def test_nodes_without_the_driver(own_world: World, asker: Asker, capsys: pytest.CaptureFixture[str]) -> None:
    """No node has the driver, then not the one that was chosen; the provisioner says so in its own words."""
    world = own_world
    async with directories(world, registered=False) as driver, driver.sidecar(PROVISIONER):
        made = await world.storage_class(None, "made", binding=IMMEDIATE, provisioner=driver.name)
        await world.admin.create(claim(world.namespace, "early", claim_spec(made)))
        await asker.names("pvc/early", "DriverNotOnNode")
        await has_reported(world, "early", "no available topology found")
        await asker.names("pvc/early", "DriverNotOnNode")
        await register(world, driver.name, driver.node)
        await bound(world, "early")

        later = await world.storage_class(None, "later", provisioner=driver.name)
        selecting = {"extra": {"nodeSelector": {documents.HOSTNAME: "node-1"}}}
        await world.pod("app", {"data": claim_spec(later)}, **selecting)
        await has_reported(world, "data", "failed to get selected CSINode node-1")
        item = await asker.names("pod/app", "DriverNotOnNode")
        assert "node-1" in json.dumps(item)
        item = await Asker(world, capsys, await limited(world)).names("pvc/data", "DriverNotOnNode")
        assert {"resource": "csinodes", "because": "forbidden"} in item["skipped"]
        await register(world, driver.name, "node-1")
        await world.all_run("app")


async def test_a_provisioner_that_stopped(own_world: World, asker: Asker, capsys: pytest.CaptureFixture[str]) -> None:
    """Its Lease lapses, whatever it reported before; then it is started again."""
    world = own_world
    async with directories(world, capacity=GI) as driver:
        made = await world.storage_class(None, "made", binding=IMMEDIATE, provisioner=driver.name)
        async with driver.sidecar(PROVISIONER):
            await world.admin.create(claim(world.namespace, "data", claim_spec(made, "4Gi")))
            await asker.names("pvc/data", "InsufficientCapacity")
        slow = Asker(world, capsys, seconds=120)
        item = await slow.names("pvc/data", "ProvisionerMissing")
        assert "does not respond: its Lease was last renewed" in item["message"]
        await again(world, "data", claim_spec(made), wait=False)
        async with driver.sidecar(PROVISIONER):
            await bound(world, "data")


async def large_pod(world: World, name: str, claims: dict[str, Document]) -> None:
    made = world.pod_documents(name, claims)
    made[-1]["spec"]["containers"][0]["resources"] = LARGE
    await world.admin.create(*made)


async def class_with(world: World, word: str, provisioner: str, parameters: dict[str, str]) -> str:
    name = world.name(word)
    made = documents.storage_class(name, None, prefix=world.prefix, binding=IMMEDIATE, provisioner=provisioner)
    await world.admin.create({**made, "parameters": parameters})
    return name


async def without(world: World, pod: str, name: str) -> None:
    """Delete the pod and then its claim."""
    await world.admin.delete("Pod", pod, world.namespace)
    await world.admin.delete("PersistentVolumeClaim", name, world.namespace)


async def again(world: World, name: str, spec: Document, *, wait: bool = True) -> None:
    """Create the claim again, with another spec, and wait until it is bound."""
    await typed(world, f"kubectl -n {world.namespace} delete pvc {name} --ignore-not-found")
    await world.admin.create(claim(world.namespace, name, spec))
    if wait:
        await bound(world, name)


async def words_of(asker: Asker, target: str) -> str:
    _, items = await asker.ask(target)
    return json.dumps(items)


async def has_reported(world: World, name: str, words: str) -> None:
    """Wait until the provisioner has reported this about the claim."""

    async def look() -> list[Any]:
        events = await world.admin.list("Event", world.namespace)
        return [each["note"] for each in events if each["regarding"]["name"] == name]

    await eventually(look, lambda notes: any(words in note for note in notes), f"an Event about {name}: {words}")


async def limited(world: World) -> str:
    """The kubeconfig of a user who may read all that a claim needs, except for CSINodes."""
    core = ["persistentvolumeclaims", "persistentvolumes", "pods", "events", "nodes"]
    rules = [{"apiGroups": [""], "resources": core, "verbs": ["get", "list"]}]
    storage = ["storageclasses", "csidrivers", "csistoragecapacities", "volumeattachments"]
    rules += [{"apiGroups": ["storage.k8s.io"], "resources": storage, "verbs": ["get", "list"]}]
    rules += [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list"]}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": world.name("limited")}}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": world.namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": world.name("limited")}
    await world.admin.create(
        {**role, "kind": "ClusterRole", "rules": rules},
        {**role, "kind": "ClusterRoleBinding", "subjects": [subject], "roleRef": reference},
    )
    return str(await world.cluster.kubeconfig_for_service_account(world.namespace, "default"))


def assert_quoted(item: Item, driver: str, *words: str) -> None:
    """The answer quotes the provisioner's own Event, and names it."""
    quote = next(each for each in item["evidence"] if "ProvisioningFailed" in each["object"])
    assert driver in quote["object"]
    for each in words:
        assert each in quote["found"]
