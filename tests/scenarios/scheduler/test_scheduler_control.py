"""The control port of the scheduler on a real control plane: single pods, weights, a profile."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import pytest_asyncio

from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.provisioner import NAME, make_volume, selected
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.scheduler.control_port import ControlledScheduler, controlled_scheduler, leading, profile


@pytest_asyncio.fixture
async def scheduler(own_world: World) -> AsyncIterator[ControlledScheduler]:
    async with controlled_scheduler(own_world, "--no-leader-elect") as running:
        await leading(running, own_world)
        yield running


def pod(world: World, name: str, *claims: str, cpu: str = "10m") -> Document:
    """A pod of the story's scheduler, for the nodes that the story marks as its own."""
    extra = {"schedulerName": world.namespace, "nodeSelector": {f"{world.namespace}.example/own": "yes"}}
    pod = documents.pod(world.namespace, name, documents.pod_spec(claims, extra=extra))
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return pod


async def own_nodes(world: World, number: int) -> list[str]:
    """Mark so many nodes as the story's own, and return their names."""
    names = sorted(node["metadata"]["name"] for node in await world.admin.list("Node"))[:number]
    for name in names:
        await world.admin.patch("Node", name, {"metadata": {"labels": {f"{world.namespace}.example/own": "yes"}}})
    return names


async def node_of(world: World, name: str) -> str | None:
    node_name: str | None = (await world.pods())[name]["spec"].get("nodeName")
    return node_name


async def rejections(world: World, name: str) -> list[str]:
    events = await world.admin.list("Event", world.namespace)
    return [
        event["note"] for event in events if (event["reason"], event["regarding"]["name"]) == ("FailedScheduling", name)
    ]


async def test_a_waiting_pod_is_placed_where_the_tool_says(own_world: World, scheduler: ControlledScheduler) -> None:
    (known, *_) = [node["metadata"]["name"] for node in await own_world.admin.list("Node")]
    await own_world.admin.create(pod(own_world, "web"))
    # Each call that is in vain makes the loop wait longer before it tries by itself: ten seconds in the end.
    for _ in range(5):
        error = await eventually(
            lambda: scheduler.call("bind.pod", own_world, "web", node=known),
            lambda answer: answer["code"] == -32005,
            "the scheduler knows the pod, and rejects the node",
        )
    assert error["data"]["rejections"][0]["reason"] == "NodeSelectorMismatch"
    assert error["data"]["rejections"][0]["subject"] == known
    _, wanted, *_ = await own_nodes(own_world, 3)
    result = await eventually(
        lambda: scheduler.call("bind.pod", own_world, "web", node=wanted),
        lambda answer: "node" in answer,
        "the scheduler has heard of the label",
    )
    assert result["node"] == wanted == await node_of(own_world, "web")
    node = await own_world.admin.get("Node", wanted)
    assert result["zone"] == node["metadata"]["labels"][documents.ZONE]
    assert (await scheduler.call("bind.pod", own_world, "web"))["code"] == -32004
    assert (await scheduler.call("unbind.pod", own_world, "web"))["code"] == -32004
    await own_world.all_run("web")


async def test_what_is_reserved_is_released_and_reserved_again(
    own_world: World, scheduler: ControlledScheduler
) -> None:
    """The volume is never made at first, so the pod waits for it with a node and a claim reserved for it."""
    disks = await own_world.storage_class(None, provisioner=NAME)
    (node,) = await own_nodes(own_world, 1)
    claim = documents.claim(own_world.namespace, "data", claim_spec(disks))
    await own_world.admin.create(claim, pod(own_world, "db", "data"))

    async def chosen() -> str | None:
        return selected((await own_world.claims())["data"])

    await eventually(chosen, lambda selected: selected == node, "a node is selected for the claim")
    assert await scheduler.call("unbind.pod", own_world, "db") == {"released": True, "node": node}
    assert await node_of(own_world, "db") is None
    notes = await eventually(lambda: rejections(own_world, "db"), bool, "the pod is told")
    assert notes[0].endswith("found a request to unbind it")
    # The provisioner was asked already, so the claim keeps the node that was selected for it.
    calling = asyncio.create_task(scheduler.call("bind.pod", own_world, "db", node=node))
    await make_volume(own_world, (await own_world.claims())["data"])
    result = await calling
    assert (result["node"], result["provisioned"]) == (node, ["data"])
    assert result["volumes"] == {"data": own_world.name("data")}
    await own_world.all_run("db")


async def test_weights_change_between_two_pods(own_world: World, scheduler: ControlledScheduler) -> None:
    full, _ = await own_nodes(own_world, 2)
    name = own_world.namespace
    assert (await scheduler.configure(name, {"LeastAllocated": 1}))[0] == 200
    filler = pod(own_world, "filler", cpu="3")
    filler["spec"]["nodeName"] = full
    await own_world.admin.create(filler)
    numbers = count()

    async def chosen() -> str | None:
        spread = f"spread-{next(numbers)}"
        await own_world.admin.create(pod(own_world, spread))
        await own_world.all_run(spread)
        return await node_of(own_world, spread)

    # A pod may come before the scheduler has seen the one that fills the node.
    await eventually(chosen, lambda node: node != full, "a pod goes to the emptier node")
    status, problem = await scheduler.configure(name, {"BinPuck": 1})
    assert (status, problem.startswith('profiles[0].scores: there is no "BinPuck"')) == (422, True)
    assert await scheduler.configure(name, {"BinPack": 1}) == (200, "applied\n")
    assert b"BinPack: 1" in (await scheduler.request("GET", "/config", None, ""))[1]
    await own_world.admin.create(pod(own_world, "packed"))
    await own_world.all_run("packed")
    assert await node_of(own_world, "packed") == full


async def test_a_profile_names_what_the_scheduler_does(own_world: World, scheduler: ControlledScheduler) -> None:
    await own_nodes(own_world, 6)
    looking = asyncio.create_task(profile(scheduler, "--seconds=5"))
    await own_world.admin.create_at_once(pod(own_world, f"web-{number}", cpu="1m") for number in range(300))
    tree = await looking
    assert "Recorded:" in tree
    assert "scheduler/standalone/scheduler.py" in tree


async def test_a_replica_that_does_not_lead_places_nothing(own_world: World) -> None:
    async with controlled_scheduler(own_world) as leader, controlled_scheduler(own_world) as other:
        await leading(leader, own_world)
        error = await other.call("bind.pod", own_world, "nobody")
        assert (error["code"], error["data"]) == (-32001, {"reason": "NotReady"})
