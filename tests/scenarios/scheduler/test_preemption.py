"""The standalone scheduler has others evicted for a pod that fits nowhere, on a real control plane."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest_asyncio

from devcluster.cluster import DevCluster
from kube.client.api import KubeApi
from kube.client.connect import connect
from kube.client.event_recorder import EventDraft
from kube.clock import SystemClock
from kube.decoding.decode import decode_pod_record
from kube.objects.api_resource import PODS
from kube.objects.model import SELECTED_NODE
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.preemption import Preemption
from scheduler.standalone.evict import Evictor
from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.island import Island, open_island
from tests.scenarios.environment.waiting import eventually, never
from tests.scenarios.environment.world import World


@pytest_asyncio.fixture
async def island(cluster: DevCluster, own_world: World) -> AsyncIterator[Island]:
    async with open_island(cluster, own_world) as island:
        yield island


async def test_a_pod_of_high_priority_gets_in(island: Island) -> None:
    await island.pod("old", "low")
    await island.world.all_run("old")
    await island.pod("mate", "low")
    await island.world.all_run("mate")
    await island.pod("new", "high")
    await island.world.all_run("new")
    left = await island.world.pods()
    assert len(left) == 2
    assert island.scheduler.metrics.victims == (1, 1)
    assert left["new"]["spec"]["nodeName"] == island.node
    events = await eventually(island.preempted, bool, "an Event Preempted")
    (gone,) = {"old", "mate"} - set(left)
    assert [event["regarding"]["name"] for event in events] == [gone]
    assert events[0]["note"] == f"Preempted by pod {left['new']['metadata']['uid']} on node {island.node}"
    assert (events[0]["type"], events[0]["action"], events[0]["related"]["name"]) == ("Normal", "Preempting", "new")


async def test_the_node_is_kept_while_the_victim_leaves(island: Island) -> None:
    await island.pod("old", "low", "4", held=True)
    await island.world.all_run("old")
    await island.pod("new", "high", "3")
    await eventually(
        lambda: island.status("new"), lambda status: status.get("nominatedNodeName") == island.node, "nominated"
    )
    victim = await eventually(
        lambda: island.status("old"),
        lambda status: any(condition["type"] == "DisruptionTarget" for condition in status["conditions"]),
        "the victim is evicted",
    )
    (target,) = [condition for condition in victim["conditions"] if condition["type"] == "DisruptionTarget"]
    assert target["reason"] == "EvictionByEvictionAPI"
    # Tried again while the victim is still there, it waits; and so does a pod that is no better.
    island.scheduler.scheduler.rules_changed()
    await island.rejected("new", "preemption: not eligible due to a terminating pod on the nominated node.")
    await island.pod("rival", "high", "2")
    await island.rejected("rival", "0/")
    assert (await island.status("new"))["nominatedNodeName"] == island.node
    assert len(await island.preempted()) == 1
    await island.release("old")
    await island.world.all_run("new")
    assert (await island.world.pod_phases())["rival"] == "Pending"
    assert "nominatedNodeName" not in await island.status("rival")


async def test_a_pod_that_waits_for_its_volumes_is_not_deleted(island: Island) -> None:
    world = island.world
    disks = await world.storage_class(None, provisioner="never.csi.example")
    await island.admin.create(documents.claim(world.namespace, "data", claim_spec(disks)))
    await island.pod("old", "low", "4", claims=["data"])

    async def selected() -> Document:
        annotations: Document = (await world.claims())["data"]["metadata"].get("annotations", {})
        return annotations

    await eventually(selected, lambda annotations: SELECTED_NODE in annotations, "a node is selected for the claim")
    before = (await world.pods())["old"]["metadata"]["uid"]
    await island.pod("new", "high", "3")
    await world.all_run("new")
    await island.rejected("old", "Insufficient cpu")
    old = (await world.pods())["old"]
    assert (old["metadata"]["uid"], "nodeName" in old["spec"]) == (before, False)
    (event,) = await eventually(island.preempted, bool, "an Event Preempted")
    assert (event["regarding"]["name"], event["note"].endswith("before it was assigned")) == ("old", True)


async def test_a_budget_is_respected(island: Island) -> None:
    for name in ("web-0", "web-1"):
        await island.pod(name, "low", app="web")
    await island.world.all_run("web-0", "web-1")
    await island.budget(2, app="web")
    await island.pod("new", "high")
    await island.rejected("new", "1 node(s) whose pods of lower priority are protected by disruption budgets")
    await never(island.world.pods, lambda pods: len(pods) < 3, "a protected pod was evicted")
    # With room for one in the budget, one of them goes, and at once.
    body: dict[str, Any] = {"spec": {"minAvailable": 1}}
    await island.admin.patch("PodDisruptionBudget", "budget", body, island.world.namespace)
    await island.world.all_run("new")
    assert len(await island.world.pods()) == 2


async def test_what_the_api_server_says_of_evictions(island: Island, cluster: DevCluster) -> None:
    for name in ("guarded", "doubly", "free"):
        await island.pod(name, "low", "1", held=name == "free", app=name)
    await island.world.all_run("guarded", "doubly", "free")
    await island.budget(1, app="guarded")
    await island.budget(0, "first", app="doubly")
    await island.budget(0, "second", app="doubly")
    async with await connect(str(cluster.kubeconfig)) as transport:
        api, clock = KubeApi(transport), SystemClock()
        evictor = Evictor(api, Unheard(), clock)

        async def evict(name: str, **other: str) -> str:
            pod = decode_pod_record(await api.get(PODS, name, island.world.namespace))
            victims = (msgspec.structs.replace(pod, **other),)
            # As if no budget were known.
            return await evictor.evict(Preemption(island.node, victims), pod, Budgets())

        assert "Cannot evict pod as it would violate the pod's disruption budget" in await evict("guarded")
        assert "more than one PodDisruptionBudget" in await evict("doubly")
        assert "does not match the UID" in await evict("free", uid="another")
        assert await evict("free") == ""
    assert "deletionTimestamp" in (await island.world.pods())["free"]["metadata"]
    await island.release("free")


class Unheard:
    """Drops all Events."""

    def publish(self, draft: EventDraft) -> None: ...


async def test_a_pod_that_may_not_preempt_waits(island: Island) -> None:
    await island.pod("old", "low", "4")
    await island.world.all_run("old")
    await island.pod("modest", "modest")
    await island.rejected("modest", "preemption: not eligible due to preemptionPolicy=Never.")
    assert "nominatedNodeName" not in await island.status("modest")
    await island.admin.delete("Pod", "old", island.world.namespace)
    await island.world.all_run("modest")


async def test_a_better_pod_takes_the_node_that_is_being_cleared(island: Island) -> None:
    await island.pod("old", "low", "4", held=True)
    await island.world.all_run("old")
    classes = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": island.world.name("top")},
    }
    await island.admin.create({**classes, "value": 2000})
    try:
        await island.pod("first", "high", "4")
        await eventually(lambda: island.status("first"), lambda status: "nominatedNodeName" in status, "nominated")
        await island.pod("better", "top", "4")
        await eventually(lambda: island.status("better"), lambda status: "nominatedNodeName" in status, "nominated")
        await eventually(lambda: island.status("first"), lambda status: "nominatedNodeName" not in status, "it lost it")
        assert len(await island.preempted()) == 1
        await island.release("old")
        await island.world.all_run("better")
        assert (await island.world.pod_phases())["first"] == "Pending"
    finally:
        await island.admin.delete("PriorityClass", island.world.name("top"))
