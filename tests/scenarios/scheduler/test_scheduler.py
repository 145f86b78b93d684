"""The standalone scheduler on a real control plane, beside kube-scheduler: how pods reach nodes."""

from binder.matching.rejection import Reason
from devcluster.cluster import DevCluster
from devcluster.control_plane.nodes import NodeSpec
from kube.objects.model import SELECTED_NODE
from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import ZONE, claim_spec
from tests.scenarios.environment.scheduler_pods import condition, events, pod, rejected
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.scheduler_in_process import InProcessScheduler, running_scheduler


async def test_pods_without_volumes_run(own_world: World, scheduler: InProcessScheduler) -> None:
    names = [f"web-{number}" for number in range(30)]
    await own_world.admin.create_at_once(pod(own_world, name, cpu="1") for name in names)
    await own_world.all_run(*names)
    nodes = {pod["spec"]["nodeName"] for pod in (await own_world.pods()).values()}
    assert len(nodes) == 6, await own_world.admin.list("Node")
    reported = await eventually(lambda: events(own_world, "Scheduled", "web-0"), bool, "an Event Scheduled")
    node = (await own_world.pods())["web-0"]["spec"]["nodeName"]
    assert reported[0]["note"] == f"Successfully assigned {own_world.namespace}/web-0 to {node}"
    assert (reported[0]["action"], reported[0]["type"]) == ("Binding", "Normal")


async def test_static_volumes_are_bound_where_the_pod_goes(own_world: World, scheduler: InProcessScheduler) -> None:
    disks = await own_world.storage_class(None)
    volumes = [own_world.volume(f"pv-{zone}", disks, zone=zone) for zone in documents.ZONES]
    await own_world.volumes(disks, *volumes)
    for number in range(3):
        await own_world.admin.create(
            documents.claim(own_world.namespace, f"data-{number}", claim_spec(disks)),
            pod(own_world, f"db-{number}", f"data-{number}"),
        )
    await own_world.all_run("db-0", "db-1", "db-2")
    zones, bound = await own_world.zones(), await own_world.bound()
    for number in range(3):
        node = (await own_world.pods())[f"db-{number}"]["spec"]["nodeName"]
        labels = (await own_world.admin.get("Node", node))["metadata"]["labels"]
        assert labels[ZONE] == zones[bound[f"data-{number}"]]


async def test_volumes_are_made_for_the_node_that_was_chosen(own_world: World, scheduler: InProcessScheduler) -> None:
    disks = await own_world.storage_class(None, provisioner="made.csi.example")
    await own_world.admin.create(
        documents.claim(own_world.namespace, "data", claim_spec(disks)), pod(own_world, "db", "data")
    )

    async def chosen() -> Document:
        metadata: Document = (await own_world.claims())["data"]["metadata"]
        return metadata

    claim = await eventually(
        chosen, lambda metadata: SELECTED_NODE in metadata.get("annotations", {}), "a node is chosen for the claim"
    )
    node = claim["annotations"][SELECTED_NODE]
    assert "nodeName" not in (await own_world.pods())["db"]["spec"]
    made = own_world.volume("made", disks, node=node)
    made["spec"]["claimRef"] = {"namespace": own_world.namespace, "name": "data", "uid": claim["uid"]}
    await own_world.admin.create(made)
    await own_world.all_run("db")
    assert (await own_world.pods())["db"]["spec"]["nodeName"] == node


async def test_a_new_node_helps(own_world: World, scheduler: InProcessScheduler) -> None:
    await own_world.admin.create(pod(own_world, "picky", nodeSelector={"story": own_world.namespace}))
    await rejected(own_world, "picky", "node(s) didn't match Pod's node affinity/selector")
    (event, *_) = await eventually(lambda: events(own_world, "FailedScheduling", "picky"), bool, "an Event")
    assert (event["type"], event["action"]) == ("Warning", "Scheduling")
    assert event["note"].startswith("0/")
    node = own_world.name("late")
    await own_world.cluster.add_nodes([NodeSpec(node, "zone-a", labels={"story": own_world.namespace})])
    await own_world.all_run("picky")
    assert (await own_world.pods())["picky"]["spec"]["nodeName"] == node
    # At first, when the node is created, and for each taint that its not being ready sets or lifts but the last: on a
    # busy machine two are set one after the other. A pod that is tried for no reason would be tried far more often.
    assert scheduler.metrics.failures[Reason.NODE_SELECTOR_MISMATCH] <= 5
    await own_world.admin.delete("Node", node)


async def test_kube_scheduler_has_its_pods_and_we_have_ours(own_world: World, scheduler: InProcessScheduler) -> None:
    theirs = [documents.pod(own_world.namespace, f"theirs-{number}", documents.pod_spec()) for number in range(5)]
    ours = [pod(own_world, f"ours-{number}") for number in range(5)]
    await own_world.admin.create_at_once([*theirs, *ours])
    await own_world.all_run(*(pod["metadata"]["name"] for pod in (*theirs, *ours)))
    for name in ("theirs-0", "ours-0"):
        (event,) = await eventually(lambda name=name: events(own_world, "Scheduled", name), bool, "an Event")  # type: ignore[misc]
        by = event.get("reportingController") or event.get("reportingComponent")
        assert by == (own_world.namespace if name.startswith("ours") else "default-scheduler")
    assert scheduler.metrics.bound == len(ours)


async def test_a_gated_pod_waits_for_its_gate(own_world: World, scheduler: InProcessScheduler) -> None:
    gate = "example.com/wait"
    await own_world.admin.create(pod(own_world, "gated", schedulingGates=[{"name": gate}]), pod(own_world, "free"))
    await own_world.all_run("free")
    reported = await condition(own_world, "gated")
    assert reported is not None
    assert reported["reason"] == "SchedulingGated"
    await own_world.admin.patch("Pod", "gated", {"spec": {"schedulingGates": None}}, own_world.namespace)
    await own_world.all_run("gated")


async def test_the_last_room_goes_to_the_most_important(own_world: World, cluster: DevCluster) -> None:
    node = own_world.name("small")
    await cluster.add_nodes([NodeSpec(node, "zone-a", labels={"story": own_world.namespace}, pods=1)])
    there = {"story": own_world.namespace}
    await own_world.admin.create(
        pod(own_world, "low", nodeSelector=there),
        pod(own_world, "high", nodeSelector=there, priorityClassName="system-cluster-critical"),
    )
    async with running_scheduler(cluster.kubeconfig, own_world.namespace, own_world.prefix):
        await own_world.all_run("high")
        await rejected(own_world, "low", "1 Too many pods")
        await own_world.admin.delete("Pod", "high", own_world.namespace)
        await own_world.all_run("low")
    await own_world.admin.delete("Node", node)
