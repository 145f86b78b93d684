"""`pvc-prebinder why` on a real control plane: each cause is made as it comes about, named, and mended by what it says.

No controller runs in these worlds: the answers come from Kubernetes' own objects and Events.
"""

import asyncio
import json
import os
from functools import partial
from itertools import count

import pytest

from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import (
    DELAYED,
    HOSTNAME,
    IMMEDIATE,
    ZONE,
    claim,
    claim_spec,
    pod,
    pod_spec,
    stateful_set,
)
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.why_command import Asker, bound, looked_up, typed

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_claim_and_its_class(own_world: World, asker: Asker) -> None:
    world = own_world
    now = await world.storage_class(None, "now", binding=IMMEDIATE)
    later = await world.storage_class(None, "later", binding=DELAYED)
    made = await world.storage_class(None, "made", binding=IMMEDIATE, provisioner="absent.csi.example")
    selecting = {**claim_spec(made), "selector": {"matchLabels": {"tier": "gold"}}}
    specs = {
        "typo": claim_spec(f"{now}w"),
        "opted-out": claim_spec(""),
        "large": claim_spec(now, "9Gi"),
        "idle": claim_spec(later),
        "orphan": claim_spec(made),
        "selecting": selecting,
        "named": {**claim_spec(now), "volumeName": world.name("nix")},
        "misnamed": {**claim_spec(now), "volumeName": world.name("xin")},
    }
    await world.volumes(now, world.volume("free", now))
    await world.admin.create(*(claim(world.namespace, name, spec) for name, spec in specs.items()))

    item = await asker.names("pvc/typo", "StorageClassNotFound")
    assert f'Did you mean "{now}"?' in item["message"]
    await asker.names("pvc/opted-out", "NoStorageClass")
    item = await asker.names("pvc/large", "StaticOnlyNoMatch")
    assert "1 TooSmall" in json.dumps(item["evidence"])
    await asker.names("pvc/orphan", "ProvisionerMissing")
    await asker.names("pvc/selecting", "SelectorOnDynamicClass")
    for name in ("named", "misnamed"):
        await asker.names(f"pvc/{name}", "RequestedPVMissing")
    item = await asker.names("pvc/idle", "WaitForFirstConsumer", exit_code=0)
    assert not item["problem"]

    _, everything = await asker.ask("--all-namespaces")
    own = {item["name"]: item["code"] for item in everything if item["namespace"] == world.namespace}
    assert own.keys() == specs.keys()
    assert own["typo"] == "StorageClassNotFound"

    following = asyncio.create_task(asker.ask("pvc/named", "--watch", "-o", "name"))
    await world.admin.create(world.volume("nix", now))
    await bound(world, "named")
    assert (await following)[0] == 0
    await asker.names("pvc/named", "Bound", exit_code=0)
    await mended(world, asker, now)


async def test_a_class_that_is_only_a_name(own_world: World, asker: Asker) -> None:
    """Static volumes need no StorageClass: Kubernetes binds a claim that names theirs at once, or no volume fits."""
    world, name = own_world, own_world.name("manual")
    await world.volumes(name, world.volume("one", name))
    await world.admin.create(claim(world.namespace, "small", claim_spec(name)))
    await bound(world, "small")
    await world.admin.create(claim(world.namespace, "large", claim_spec(name, "9Gi")))
    item = await asker.names("pvc/large", "StaticOnlyNoMatch")
    assert "there is no StorageClass of that name" in item["message"]
    _, everything = await asker.ask("--all-namespaces")  # Which keeps no volume that nothing pending uses.
    assert [each["code"] for each in everything if each["namespace"] == world.namespace] == ["StaticOnlyNoMatch"]
    await typed(world, item["next"][0])
    await world.volumes(name, world.volume("two", name, size="9Gi"))
    await bound(world, "large")


async def mended(world: World, asker: Asker, storage_class: str) -> None:
    """Do what the answers say about the other claims."""
    for name in ("typo", "selecting", "misnamed"):
        _, (item,) = await asker.ask(f"pvc/{name}")
        await typed(world, item["next"][0])
        if name != "selecting":  # No command deletes a claim for what is missing.
            await typed(world, f"kubectl -n {world.namespace} delete pvc {name}")
        await world.admin.create(claim(world.namespace, name, claim_spec(storage_class)))
    for name in ("opted-out", "large"):
        _, (item,) = await asker.ask(f"pvc/{name}")
        await typed(world, item["next"][0])
    _, (item,) = await asker.ask("pvc/orphan")
    assert "absent" not in await looked_up(world, item["next"][0])  # It is not installed.
    orphan = (await world.claims())["orphan"]
    made = world.volume("of-a-driver", orphan["spec"]["storageClassName"])  # As the driver would, once it is installed.
    made["spec"]["claimRef"] = {"namespace": world.namespace, "name": "orphan", "uid": orphan["metadata"]["uid"]}
    await world.admin.create(
        world.volume("second", storage_class),
        world.volume("third", storage_class),
        world.volume("large", storage_class, size="9Gi"),
        world.volume("no", ""),
        made,
    )
    for name in ("typo", "selecting", "misnamed", "opted-out", "large", "orphan"):
        await bound(world, name)
        await asker.names(f"pvc/{name}", "Bound", exit_code=0)


async def test_a_volume_that_still_belongs_to_a_deleted_claim(own_world: World, asker: Asker) -> None:
    """What `why` says to type gives the volume to the claim."""
    world = own_world
    now = await world.storage_class(None, "now", binding=IMMEDIATE)
    await world.volumes(now, world.volume("kept", now))
    await world.admin.create(claim(world.namespace, "data", claim_spec(now)))
    await bound(world, "data")
    await world.admin.delete("PersistentVolumeClaim", "data", world.namespace)
    await eventually(world.volume_phases, lambda seen: seen == {world.name("kept"): "Released"}, "it is Released")

    await world.admin.create(claim(world.namespace, "data", {**claim_spec(now), "volumeName": world.name("kept")}))
    item = await asker.names("pvc/data", "PVStillClaimed")
    assert "data" in item["advice"][0]
    await typed(world, item["next"][0])
    await bound(world, "data")


async def test_a_volume_that_nothing_can_delete(own_world: World, asker: Asker) -> None:
    """Kubernetes has no deleter of local volumes."""
    world = own_world
    now = await world.storage_class(None, "now", binding=IMMEDIATE)
    volume = world.volume("local", now, node=await world.some_node(), reclaim_policy="Delete")
    del volume["spec"]["csi"]
    volume["spec"]["local"] = {"path": "/mnt/disk"}
    await world.volumes(now, volume)
    await world.admin.create(claim(world.namespace, "data", claim_spec(now)))
    await bound(world, "data")
    await world.admin.delete("PersistentVolumeClaim", "data", world.namespace)
    item = await asker.names(f"pv/{world.name('local')}", "VolumeFailed")
    assert f"{world.namespace}/data was deleted" in item["message"]
    assert "error getting deleter volume plugin" in await typed(world, item["next"][0])


async def test_what_a_claim_waits_for_comes_before_what_its_pod_waits_for(own_world: World, asker: Asker) -> None:
    """No node has the label that the pods select, but no volume is theirs either."""
    world = own_world
    now = await world.storage_class(None, "now", binding=IMMEDIATE)
    made = await world.storage_class(None, "made", binding=IMMEDIATE, provisioner="absent.csi.example")
    await world.volumes(now, world.volume("kept", now))
    await world.admin.create(claim(world.namespace, "released", claim_spec(now)))
    await bound(world, "released")
    await world.admin.delete("PersistentVolumeClaim", "released", world.namespace)
    await eventually(world.volume_phases, lambda seen: seen == {world.name("kept"): "Released"}, "it is Released")
    specs = {
        "released": {**claim_spec(now), "volumeName": world.name("kept")},
        "misnamed": {**claim_spec(now), "volumeName": world.name("nix")},
        "selecting": {**claim_spec(made), "selector": {"matchLabels": {"tier": "gold"}}},
    }
    selecting: Document = {"nodeSelector": {"disk": "ssd"}}
    for name, spec in specs.items():
        await world.admin.create(
            claim(world.namespace, name, spec),
            pod(world.namespace, f"{name}-pod", pod_spec((name,), extra=selecting)),
        )
    item = await asker.names("pod/released-pod", "PVStillClaimed")
    await typed(world, item["next"][0])
    await bound(world, "released")
    for name, code in (("misnamed", "RequestedPVMissing"), ("selecting", "SelectorOnDynamicClass")):
        item = await asker.names(f"pod/{name}-pod", code)
        await typed(world, item["next"][0])
        if code == "RequestedPVMissing":  # Nothing is to be deleted for what is missing, by a command.
            await typed(world, f"kubectl -n {world.namespace} delete pvc {name}")
        await world.admin.create(claim(world.namespace, name, claim_spec(now)), world.volume(f"for-{name}", now))
        await bound(world, name)
    for name in specs:
        await asker.names(f"pod/{name}-pod", "NoNodeFits")


async def test_a_claim_that_a_quota_forbids(own_world: World, asker: Asker) -> None:
    """There is no claim and no pod to look at: the StatefulSet's Event is all there is. Then no node fits the pod."""
    world = own_world
    now = await world.storage_class(None, "now", binding=IMMEDIATE)
    await typed(world, f"kubectl -n {world.namespace} create quota small --hard=persistentvolumeclaims=0")
    await eventually(partial(has_quota_in_force, world), bool, "the quota is in force")
    database = stateful_set(world.namespace, "db", {"data": claim_spec(now)}, replicas=1)
    database["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    await world.admin.create(database)
    item = await asker.names("pvc/data-db-0", "QuotaExceeded")
    assert "small" in item["message"]
    assert "statefulset-controller" in item["evidence"][0]["object"]
    _, items = await asker.ask()
    assert [(each["name"], each["code"]) for each in items] == [("data-db-0", "QuotaExceeded")]
    await typed(world, item["next"][0])
    await world.volumes(now, world.volume("disk", now))
    more = json.dumps({"spec": {"hard": {"persistentvolumeclaims": "1"}}})
    await typed(world, f"kubectl -n {world.namespace} patch quota small --type=merge -p '{more}'")
    await eventually(world.claims, lambda claims: "data-db-0" in claims, "the StatefulSet has created the claim")
    await bound(world, "data-db-0")
    await asker.names("pod/db-0", "NoNodeFits")


async def has_quota_in_force(world: World) -> bool:
    """The quota counts from when its controller has written its status."""
    path = f"{world.cluster.kubectl.parent}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        world.cluster.kubectl,
        f"--kubeconfig={world.cluster.kubeconfig}",
        f"--namespace={world.namespace}",
        "get",
        "quota",
        "small",
        "-o",
        "jsonpath={.status.hard}",
        env={**os.environ, "PATH": path},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return b"persistentvolumeclaims" in out


async def test_the_pod_and_its_scheduler(own_world: World, asker: Asker) -> None:
    world = own_world
    later = await world.storage_class(None, "later")
    unserved = f"{world.namespace}-scheduler"
    await world.volumes(later, *(world.volume(name, later) for name in ("one", "two", "three", "four")))
    placed = await world.some_node()
    await world.admin.create(*(claim(world.namespace, name, claim_spec(later)) for name in ("one", "two", "three")))
    gated: Document = {"schedulingGates": [{"name": "example.com/later"}]}
    specs = {
        "lost": pod_spec(("oen",)),
        "gated": pod_spec(("one",), extra=gated),
        "unserved": pod_spec(("two",), extra={"schedulerName": unserved}),
        "placed": pod_spec(("three",), extra={"nodeName": placed}),
    }
    await world.admin.create(*(pod(world.namespace, name, spec) for name, spec in specs.items()))
    item = await asker.names("pod/lost", "ClaimNotFound")
    assert 'Did you mean "one"?' in item["message"]
    await typed(world, item["next"][0])
    item = await asker.names("pod/gated", "SchedulingGated")
    await typed(world, item["next"][0])
    await asker.names("pvc/one", "SchedulingGated")
    item = await asker.names("pod/unserved", "SchedulerNotRunning")
    assert unserved not in await looked_up(world, item["next"][0])  # Neither a pod nor a Lease of that name.
    item = await asker.names("pvc/three", "PodBypassesScheduler")

    await typed(world, f"{item['next'][0]} --grace-period=0 --force")
    selecting = {"nodeSelector": {HOSTNAME: placed}}
    await world.admin.create(
        pod(world.namespace, "chosen", pod_spec(("three",), extra=selecting)),
        claim(world.namespace, "oen", claim_spec(later)),
    )
    await world.admin.patch("Pod", "gated", {"spec": {"schedulingGates": None}}, world.namespace)
    scheduler = await world.cluster.start_scheduler(unserved, {})
    try:
        await world.all_run("lost", "chosen", "gated", "unserved")
    finally:
        await scheduler.stop()
    await asker.names("pod/lost", "Scheduled", exit_code=0)


async def test_a_volume_where_no_node_is_usable(own_world: World, asker: Asker) -> None:
    """Bound in a zone whose nodes are cordoned: `why` says which node to uncordon, and then the pod runs."""
    world = own_world
    later = await world.storage_class(None, "later")
    await world.volumes(later, world.volume("far", later, zone="zone-c"))
    await world.pod("first", {"data": claim_spec(later)})
    await world.all_run("first")
    await world.admin.delete("Pod", "first", world.namespace)
    nodes = [
        node["metadata"]["name"]
        for node in await world.admin.list("Node")
        if node["metadata"]["labels"].get("topology.kubernetes.io/zone") == "zone-c"
    ]
    try:
        for node in nodes:
            await world.admin.patch("Node", node, {"spec": {"unschedulable": True}})
        await seen_cordoned(world, "zone-c")
        await world.admin.create(pod(world.namespace, "second", pod_spec(("data",))))
        item = await asker.names("pod/second", "TopologyConflict")
        assert [link["name"] for link in item["causes"]][-1] == world.name("far")
        assert any("cordoned" in evidence["found"] for evidence in item["evidence"])
        await typed(world, item["next"][0])
        await world.all_run("second")
    finally:
        for node in nodes:
            await world.admin.patch("Node", node, {"spec": {"unschedulable": False}})


async def seen_cordoned(world: World, zone: str) -> None:
    """Wait until kube-scheduler has seen that the nodes are cordoned: until then it may still choose one of them."""
    for number in count():
        name = f"probe-{number}"
        spec = pod_spec(extra={"nodeSelector": {ZONE: zone}})
        await world.admin.create(pod(world.namespace, name, spec))
        seen = await eventually(world.pods, lambda pods: tried(pods[name]), "kube-scheduler has tried the pod")  # noqa: B023
        await world.admin.delete("Pod", name, world.namespace)
        if not seen[name]["spec"].get("nodeName"):
            return


def tried(document: Document) -> bool:
    conditions = document["status"].get("conditions", ())
    return bool(document["spec"].get("nodeName")) or any(each.get("reason") == "Unschedulable" for each in conditions)


async def test_a_driver_and_the_node_chosen_for_a_volume(own_world: World, asker: Asker) -> None:
    """The volume is not provisioned: the driver is on no node, then its provisioner says nothing."""
    world = own_world
    driver = f"{world.namespace}.csi.example"
    made = await world.storage_class(None, "made", provisioner=driver)
    about = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": driver}}
    await world.admin.create({**about, "spec": {"attachRequired": False}})
    try:
        await world.pod("app", {"data": claim_spec(made)})
        await asker.names("pod/app", "DriverNotOnNode")
        await asker.names("pvc/data", "DriverNotOnNode")
    finally:
        await world.admin.delete("CSIDriver", driver)
    await asker.names("pod/app", "ProvisionerMissing")


async def test_without_rights_it_says_what_it_could_not_read(
    own_world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user of one namespace may read neither classes nor volumes nor nodes, and gets no guess.

    What the PV controller and kube-scheduler report is none.
    """
    world = own_world
    later = await world.storage_class(None, "later")
    now = await world.storage_class(None, "now", binding=IMMEDIATE)
    await world.admin.create(
        claim(world.namespace, "data", claim_spec(now)),
        claim(world.namespace, "typo", claim_spec(f"{now}w")),
        claim(world.namespace, "idle", claim_spec(later)),
    )
    await world.pod("app", {"wanted": claim_spec(later)})
    kubeconfig = await world.cluster.kubeconfig_for_service_account(world.namespace, "default")
    rule = {"apiGroups": [""], "resources": ["persistentvolumeclaims", "pods", "events"], "verbs": ["get", "list"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"namespace": world.namespace, "name": "view"}}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": world.namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "view"}
    await world.admin.create(
        {**role, "kind": "Role", "rules": [rule]},
        {**role, "kind": "RoleBinding", "subjects": [subject], "roleRef": reference},
    )
    asker = Asker(world, capsys, str(kubeconfig))
    item = await asker.names("pvc/data", "Inconclusive", exit_code=4)
    assert "storageclasses (forbidden)" in item["message"]
    assert {"resource": "storageclasses", "because": "forbidden"} in item["skipped"]
    item = await asker.names("pvc/typo", "StorageClassNotFound")
    assert "Event ProvisioningFailed of persistentvolume-controller" in item["evidence"][0]["object"]
    await asker.names("pvc/idle", "WaitForFirstConsumer", exit_code=0)
    for target in ("pod/app", "pvc/wanted"):
        item = await asker.names(target, "StaticOnlyNoMatch")
        assert item["message"].startswith("default-scheduler reports that no node that could run the pod has a volume")
        assert "didn't find available persistent volumes to bind" in item["evidence"][0]["found"]
