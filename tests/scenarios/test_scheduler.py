"""The standalone scheduler on a real control plane, beside kube-scheduler: how pods reach nodes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from devcluster.cluster import DevCluster
from tests.scenarios import documents
from tests.scenarios.admin import Document
from tests.scenarios.composed import Composed, composed
from tests.scenarios.documents import ZONE, claim_spec
from tests.scenarios.waiting import eventually
from tests.scenarios.world import World


@pytest_asyncio.fixture
async def scheduler(cluster: DevCluster, own_world: World) -> AsyncIterator[Composed]:
    """A scheduler that answers to the name of the story's namespace."""
    async with composed(cluster.kubeconfig, own_world.namespace, own_world.prefix) as running:
        yield running


def pod(world: World, name: str, *claims: str, cpu: str = "10m", **spec: Any) -> Document:
    extra = {"schedulerName": world.namespace, **spec}
    found = documents.pod(world.namespace, name, documents.pod_spec(claims, extra=extra))
    found["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return found


async def condition(world: World, name: str) -> Document | None:
    found = (await world.pods())[name]["status"].get("conditions", [])
    return next((one for one in found if one["type"] == "PodScheduled"), None)


async def refused(world: World, name: str, text: str) -> None:
    """Wait until the pod's condition says it is unschedulable, in these words."""

    def says(found: Document | None) -> bool:
        return found is not None and found["status"] == "False" and text in found["message"]

    found = await eventually(lambda: condition(world, name), says, f"{name} is refused: {text}")
    assert found is not None
    assert found["reason"] == "Unschedulable"


async def events(world: World, reason: str, about: str) -> list[Document]:
    found = await world.admin.list("Event", world.namespace)
    return [one for one in found if (one["reason"], one["regarding"]["name"]) == (reason, about)]


async def test_pods_without_volumes_run(own_world: World, scheduler: Composed) -> None:
    names = [f"web-{number}" for number in range(30)]
    await own_world.admin.create_at_once(pod(own_world, name, cpu="1") for name in names)
    await own_world.all_run(*names)
    nodes = {one["spec"]["nodeName"] for one in (await own_world.pods()).values()}
    assert len(nodes) == 6
    told = await eventually(lambda: events(own_world, "Scheduled", "web-0"), bool, "an Event Scheduled")
    node = (await own_world.pods())["web-0"]["spec"]["nodeName"]
    assert told[0]["note"] == f"Successfully assigned {own_world.namespace}/web-0 to {node}"
    assert (told[0]["action"], told[0]["type"]) == ("Binding", "Normal")


async def test_static_volumes_are_bound_where_the_pod_goes(own_world: World, scheduler: Composed) -> None:
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


async def test_a_new_node_helps_at_once(own_world: World, scheduler: Composed, cluster: DevCluster) -> None:
    await own_world.admin.create(pod(own_world, "picky", nodeSelector={"story": own_world.namespace}))
    await refused(own_world, "picky", "node(s) didn't match Pod's node affinity/selector")
    told = await eventually(lambda: events(own_world, "FailedScheduling", "picky"), bool, "an Event FailedScheduling")
    assert (told[0]["type"], told[0]["action"]) == ("Warning", "Scheduling")
    assert told[0]["note"].startswith("0/")
