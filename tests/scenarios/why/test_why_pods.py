"""Causes in pods, their nodes and what is attached there: produced on a real control plane, named and mended."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import HOSTNAME, IMMEDIATE, claim, claim_spec, pod, pod_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.why_command import Asker, bound, looked_up, reported, typed

pytestmark = pytest.mark.asyncio(loop_scope="session")

LARGE = {"cpu": "1000"}


async def test_volumes_that_no_node_reaches_together(own_world: World, asker: Asker) -> None:
    """Bound in two zones, and then only one claim without a volume in the right zone."""
    world = own_world
    now, later = await world.storage_class(None, "now", binding=IMMEDIATE), await world.storage_class(None, "later")
    await world.volumes(now, world.volume("a", now, zone="zone-a"), world.volume("b", now, zone="zone-b", size="2Gi"))
    await world.volumes(later, world.volume("later-b", later, zone="zone-b"))
    claims = {"data": claim_spec(now), "logs": claim_spec(now, "2Gi")}
    documents = world.pod_documents("app", claims)
    documents[-1]["spec"]["containers"][0]["resources"]["requests"] = LARGE
    await world.admin.create(*documents)
    item = await asker.names("pod/app", "VolumesInDifferentZones")  # And it is larger than any node.
    await typed(world, item["next"][0])
    await world.admin.delete("Pod", "app", world.namespace)

    # Restored elsewhere, as the answer says: in a class that waits, which has a volume in the wrong zone only.
    await world.admin.create(
        claim(world.namespace, "restored", claim_spec(later)),
        pod(world.namespace, "again", pod_spec(("data", "restored"))),
    )
    item = await asker.names("pod/again", "TopologyConflict")
    assert item["causes"][-1]["name"] == f"{world.namespace}/restored"
    await typed(world, item["next"][0])
    await world.volumes(later, world.volume("later-a", later, zone="zone-a"))
    await world.all_run("again")


async def test_a_daemon_set_whose_pod_has_no_access_to_the_volume(own_world: World, asker: Asker) -> None:
    """Its pod is for one node, which is in another zone than the volume; then it selects a node in the right one."""
    world = own_world
    now = await world.storage_class(None, binding=IMMEDIATE)
    await world.volumes(now, world.volume("disk", now, zone="zone-a"))
    await world.admin.create(claim(world.namespace, "data", claim_spec(now)))
    await bound(world, "data")
    await world.cluster.add_nodes([NodeSpec(world.name("near"), "zone-a"), NodeSpec(world.name("far"), "zone-b")])
    for node in ("far", "near"):
        await world.cluster.run_kubectl("apply", "-f", "-", given=json.dumps(daemon_set(world, world.name(node))))
        if node == "far":
            name = next(iter(await eventually(world.pods, bool, "the DaemonSet has a pod")))
            item = await asker.names(f"pod/{name}", "TopologyConflict")
            assert world.name("far") in item["message"]
            await typed(world, item["next"][0])
    await eventually(
        world.pods,
        lambda pods: [pod["spec"].get("nodeName") for pod in pods.values()] == [world.name("near")],
        "the pod is on the other node",
    )


def daemon_set(world: World, node: str) -> Document:
    labels = {"app": "logs"}
    spec = {**pod_spec(("data",)), "nodeSelector": {HOSTNAME: node}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"namespace": world.namespace, "name": "logs"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }


async def test_a_node_that_attaches_no_more_volumes(own_world: World, asker: Asker) -> None:
    """The scheduler's limit of a node's driver, behind a claim that is missing; a pod that ends makes room."""
    world = own_world
    node, driver, now = (
        world.name("node"),
        world.name("csi.example"),
        await world.storage_class(None, binding=IMMEDIATE),
    )
    spec = {"drivers": [{"name": driver, "nodeID": node, "topologyKeys": [], "allocatable": {"count": 1}}]}
    about = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": node}, "spec": spec}
    await world.admin.create(about)
    try:
        await world.cluster.add_nodes([NodeSpec(node, "zone-a")])
        await world.volumes(now, *(world.volume(word, now, driver=driver) for word in ("one", "two")))
        here: dict[str, Any] = {"extra": {"nodeSelector": {HOSTNAME: node}}}
        await world.pod("first", {"one": claim_spec(now)}, **here)
        await world.all_run("first")
        await world.admin.create(
            claim(world.namespace, "two", claim_spec(now)),
            pod(world.namespace, "second", pod_spec(("two", "three"), **here)),
        )
        item = await asker.names("pod/second", "ClaimNotFound")
        await typed(world, item["next"][0])
        await world.volumes(now, world.volume("three", now))
        await world.admin.create(claim(world.namespace, "three", claim_spec(now)))
        item = await asker.names("pod/second", "VolumeLimitReached")
        await typed(world, item["next"][0])
        await world.admin.delete("Pod", "first", world.namespace)
        await world.all_run("second")
    finally:
        await world.admin.delete("CSINode", node)


async def test_a_pod_on_its_way_and_one_that_is_too_large(own_world: World, asker: Asker) -> None:
    """A paused scheduler is no cause yet; then no node is large enough; then the name of a claim is taken."""
    world = own_world
    later = await world.storage_class(None, "later")
    await world.volumes(later, *(world.volume(word, later) for word in ("one", "two")))
    await world.pod("first", {})
    await world.all_run("first")  # Without a Lease of it that is how a scheduler shows that it works.
    async with world.scheduler_paused():
        await world.pod("app", {"data": claim_spec(later)})
        await asker.names("pvc/data", "WaitForPodScheduled", exit_code=0)
    await world.all_run("app")

    large, *_ = world.pod_documents("large", {})
    large["spec"]["containers"][0]["resources"]["requests"] = LARGE
    await world.admin.create(large)
    item = await asker.names("pod/large", "NoNodeFits")
    await typed(world, item["next"][0])
    await world.cluster.add_nodes([NodeSpec(world.name("giant"), "zone-a", cpu="2000")])
    await world.all_run("large")

    await world.admin.create(claim(world.namespace, "web-scratch", claim_spec(later)))
    scratch = pod_spec(ephemeral={"scratch": claim_spec(later)})
    await world.admin.create(pod(world.namespace, "web", scratch))
    item = await asker.names("pod/web", "ClaimNotOwned")
    await typed(world, f"{item['next'][0]} --grace-period=0 --force")
    await world.admin.create(pod(world.namespace, "other", scratch))
    await world.all_run("other")


async def test_schedulers_of_their_own(own_world: World, asker: Asker) -> None:
    """One whose extender does not answer, and one that does not wait for long until a volume is bound."""
    world = own_world
    later, name = await world.storage_class(None, "later"), f"{world.namespace}-unheard"
    await world.volumes(later, world.volume("one", later))
    extender = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter", "nodeCacheCapable": True}
    scheduler = await world.cluster.start_scheduler(name, {"extenders": [extender]})
    await world.pod("app", {"data": claim_spec(later)}, extra={"schedulerName": name})
    item = await asker.names("pod/app", "ExtenderUnavailable")
    await typed(world, item["next"][0])
    await scheduler.stop()
    patience = {"pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 1}}]}
    async with world.pv_controller_paused():  # Before the scheduler is there: it looks at the pod at once.
        scheduler = await world.cluster.start_scheduler(name, {"profiles": [{"schedulerName": name, **patience}]})
        item = await asker.names("pod/app", "BindTimeout")
        await typed(world, item["next"][0])
    try:
        await world.all_run("app")
    finally:
        await scheduler.stop()


async def test_a_device_that_no_node_offers(own_world: World, asker: Asker) -> None:
    """A ResourceClaim that is missing, then one without a device, then a node that offers one."""
    world = own_world
    name, driver = world.name("gpu"), world.name("gpu.example")
    request: Document = {"name": "gpu", "exactly": {"deviceClassName": name}}
    wanted = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}
    api = "resource.k8s.io/v1"
    await world.admin.create(pod(world.namespace, "app", pod_spec(extra=wanted)))
    item = await asker.names("pod/app", "ResourceClaimPending")
    await typed(world, item["next"][0])
    about = {"apiVersion": api, "kind": "ResourceClaim", "metadata": {"namespace": world.namespace, "name": "gpu"}}
    await world.admin.create(
        {"apiVersion": api, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {}},
        {**about, "spec": {"devices": {"requests": [request]}}},
    )
    try:
        item = await asker.names("pod/app", "ResourceClaimPending")
        await eventually(
            lambda: message_has(asker, "No device was allocated"), bool, "the claim is there, and has no device"
        )
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": "node-1", "pool": pool, "devices": [{"name": "gpu-0"}]}
        selecting = {"spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]}}
        await world.admin.patch("DeviceClass", name, selecting)
        await world.admin.create({"apiVersion": api, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec})
        await world.all_run("app")
    finally:
        await world.admin.delete("Pod", "app", world.namespace)
        if await world.admin.find("ResourceSlice", name):
            await world.admin.delete("ResourceSlice", name)
        await world.admin.delete("DeviceClass", name)


async def message_has(asker: Asker, words: str) -> bool:
    _, (item,) = await asker.ask("pod/app")
    return words in item["message"]


async def test_a_volume_that_cannot_be_attached(own_world: World, asker: Asker) -> None:
    """The attach-detach controller asks for it, and the test answers in place of the driver's attacher."""
    world = own_world
    now = await world.storage_class(None, binding=IMMEDIATE)
    await world.volumes(now, world.volume("disk", now))
    first, second = await attaching_node(world, "one"), await attaching_node(world, "two")
    await world.admin.create(claim(world.namespace, "data", claim_spec(now)))
    await bound(world, "data")
    await world.admin.create(not_started(world, first))
    attachment = await requested_attachment(world, first)
    await answered(world, attachment, attachError={"message": "no such disk"})
    item = await asker.names("pod/app", "AttachFailed")
    assert "no such disk" in item["evidence"][0]["found"]
    await looked_up(world, item["next"][0])  # No workload: the test plays the driver.
    await answered(world, attachment, attached=True, attachError=None)
    await asker.names("pod/app", "Scheduled", exit_code=0)

    # The test speaks for the kubelet, which is not there.
    await reported(world, "Pod", "app", "FailedMount", "bad superblock", "kubelet")
    item = await asker.names("pod/app", "MountFailed")
    await looked_up(world, item["next"][0])  # No workload: the test plays the driver.
    await reported(world, "Pod", "app", "Pulled", "Container image is present", "kubelet")
    await asker.names("pod/app", "Scheduled", exit_code=0)

    # The node goes on holding the volume although the pod has moved. How Kubernetes detaches it is its own affair.
    await world.admin.patch("VolumeAttachment", attachment, {"metadata": {"finalizers": ["attacher.example/keep"]}})
    await world.admin.delete("Pod", "app", world.namespace)
    await world.admin.create(not_started(world, second, "moved"))
    item = await asker.names("pod/moved", "AttachConflict")
    assert item["causes"][-1]["name"] == first
    assert "taint" not in item["next"][0]
    await typed(world, item["next"][0])
    await world.admin.delete("Pod", "moved", world.namespace)
    await world.admin.patch("VolumeAttachment", attachment, {"metadata": {"finalizers": None}})


async def attaching_node(world: World, word: str) -> str:
    """A node whose volumes the attach-detach controller attaches, as a kubelet asks for it."""
    node = NodeSpec(world.name(word), "zone-a").manifest()
    node["metadata"]["annotations"] = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
    await world.admin.create(node)
    return str(node["metadata"]["name"])


def not_started(world: World, node: str, name: str = "app") -> Document:
    """A pod on a node that does not start before its volume is attached: kwok leaves it alone."""
    made = pod(world.namespace, name, pod_spec(("data",), extra={"nodeName": node}))
    made["metadata"]["annotations"] = {"kwok.x-k8s.io/status": "custom"}
    return made


async def requested_attachment(world: World, node: str) -> str:
    """Wait until the volume is to be attached to the node; return the name of the VolumeAttachment."""

    async def look() -> list[str]:
        every = await world.admin.list("VolumeAttachment")
        return [each["metadata"]["name"] for each in every if each["spec"]["nodeName"] == node]

    return (await eventually(look, bool, f"the volume is to be attached to {node}"))[0]


async def answered(world: World, attachment: str, *, attached: bool = False, **error: Any) -> None:
    status = {"status": {"attached": attached, **error}}
    await world.admin.patch("VolumeAttachment", attachment, status, subresource="status")


async def test_what_pvc_prebinder_keeps_back(own_world: World, asker: Asker) -> None:
    """The only volume is reserved for another claim, then unhealthy, and then no controller removes the gate."""
    world = own_world
    later = await world.storage_class(None, "later")
    await world.volumes(later, world.volume("only", later))
    gate = f"{world.prefix}volumes"
    await world.pod("app", {"data": claim_spec(later)}, gated=True)
    item = await asker.names("pod/app", "SchedulingGated")
    await typed(world, item["next"][0])
    reservation = {
        "reserved-for": f"{world.namespace}/other",
        "reserved-for-uid": "another",
        "reserved-by": "somebody/1",
        "bound-at": "2026-01-01T00:00:00Z",
        "expires-at": "2096-01-01T00:00:00Z",
    }
    await annotated(world, "only", reservation)
    item = await asker.names("pod/app", "ReservedForOther")
    await typed(world, item["next"][0])
    await annotated(world, "only", {**dict.fromkeys(reservation), "health": "DataLoss"})
    item = await asker.names("pod/app", "Unhealthy")
    await typed(world, item["next"][0])
    await asker.names(f"pv/{world.name('only')}", "Unhealthy")
    await annotated(world, "only", {"health": None})
    item = await asker.names("pod/app", "SchedulingGated")
    assert item["evidence"][0]["found"] == gate
    await world.admin.patch("Pod", "app", {"spec": {"schedulingGates": None}}, world.namespace)
    await world.all_run("app")


async def annotated(world: World, word: str, annotations: Mapping[str, str | None]) -> None:
    patch = {"metadata": {"annotations": {world.prefix + key: value for key, value in annotations.items()}}}
    await world.admin.patch("PersistentVolume", world.name(word), patch)


async def test_a_rolling_update_that_waits_for_the_volume_of_its_old_pod(own_world: World, asker: Asker) -> None:
    """The patch ends the wait, and the Deployment creates the old pod again if only that is deleted."""
    world = own_world
    now = await world.storage_class(None, binding=IMMEDIATE)
    await world.volumes(now, world.volume("disk", now, access_modes=("ReadWriteOncePod",)))
    await world.admin.create(claim(world.namespace, "data", claim_spec(now, access_modes=("ReadWriteOncePod",))))
    await _applied(world, deployment(world, "one"))
    await eventually(world.pods, lambda pods: _running(pods) == ["one"], "the first version runs")

    await _applied(world, deployment(world, "two"))
    await eventually(world.pods, lambda pods: len(pods) == 2, "the second version waits")
    (waiting,) = [name for name, pod in (await world.pods()).items() if pod["metadata"]["labels"]["version"] == "two"]
    item = await asker.names(f"pod/{waiting}", "ReadWriteOncePodInUse")
    assert "patch deployment db " in item["next"][0]
    await typed(world, item["next"][0])
    await eventually(world.pods, lambda pods: _running(pods) == ["two"], "the second version runs alone")


def _running(pods: Mapping[str, Document]) -> list[str]:
    """Return the versions of all pods, if every one runs."""
    is_running = all(pod["status"]["phase"] == "Running" for pod in pods.values())
    return [pod["metadata"]["labels"]["version"] for pod in pods.values()] if is_running else []


async def _applied(world: World, document: Document) -> None:
    await world.cluster.run_kubectl("apply", "-f", "-", given=json.dumps(document))


def deployment(world: World, version: str) -> Document:
    """One replica in this version, updated as a Deployment is if it does not say how."""
    labels = {"app": "db"}
    template = {"metadata": {"labels": {**labels, "version": version}}, "spec": pod_spec(("data",))}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": world.namespace, "name": "db"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
