"""Pods whose volume is made on the disk of one node are let go, one at a time, where a new node brings such a disk."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from binder.matching.rejection import Reason
from binder.model.decision import Decision, Reject, Wait
from binder.model.ledger import Ledger
from binder.model.new_nodes import NewNodes
from binder.new_nodes.joining import with_new_nodes
from binder.reservation.contract import DEFAULT_PREFIX, Annotations
from kube.decoding.decode_node_pool import decode_node_pool
from tests.binder.new_nodes.test_letting_go import annotate, request
from tests.binder.provisioner import DRIVER, gated, is_gated, pool_world, selected
from tests.binder.views import NOW, view
from tests.binder.world import World
from tests.builders import claim, csi_driver, pod, storage_class
from tests.fakes.objects import node_object, node_pool_object

WORDS = {"mode": "provision", "new-nodes": "join-volumes", "new-node-storage": "100Gi"}
NODES = ("node-a1", "node-a2", "node-b1", "node-b2")


def full_world(size: str = "1Gi", *pods: str, states: str | None = "100Gi") -> World:
    """Nodes that are cordoned and whose disks are full, and gated pods; a new node brings 100Gi."""
    world = pool_world(dict.fromkeys(NODES, "0"))
    annotate(world, "new-nodes", "join-volumes")
    if states is not None:
        annotate(world, "new-node-storage", states)
    world.server.node_pools = [node_pool_object(zones=("a", "b", "c"))]
    for name in pods or ("db",):
        gated(world, name, size)
    for node in NODES:
        cordon(world, node, cordoned=True)
    return world


def cordon(world: World, node: str, *, cordoned: bool) -> None:
    world.server.change("nodes", node, lambda document: document["spec"].update(unschedulable=cordoned))


async def test_it_is_let_go_and_nothing_is_selected() -> None:
    world = full_world()
    async with world.process() as process:
        await process.run()
        assert not is_gated(world, "db")
        assert selected(world) == {}


async def test_as_large_as_a_new_disk_is_not_too_large() -> None:
    world = full_world("100Gi")
    async with world.process() as process:
        await process.run()
        assert not is_gated(world, "db")


async def test_nodes_that_are_full_are_no_obstacle() -> None:
    world = full_world()
    request(world, "db", "8")
    for node in NODES:
        cordon(world, node, cordoned=False)
        world.server.change("nodes", node, lambda each: each["status"]["allocatable"].update(cpu="4"))
    async with world.process() as process:
        await process.run()
        assert not is_gated(world, "db")


async def test_once_it_is_let_go_a_node_that_has_come_before_its_disk_is_not_reported() -> None:
    world = full_world()
    async with world.process() as process:
        await process.run()
        world.put(node_object("node-new", "c"))
        unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        world.server.change("pods", "default/db", lambda each: each["status"].update(conditions=[unschedulable]))
        await process.run(60)
        assert process.sink.reasons_of("Pod", "db") == []


def fits_a_node(world: World) -> None:
    cordon(world, "node-b1", cordoned=False)


def fits_a_node_without_the_driver(world: World) -> None:
    world.put(node_object("node-c1", "c"))


def has_two_claims(world: World) -> None:
    world.server.remove("pods", "default/db")
    gated(world, "db", "1Gi", "1Gi")


def is_behind_another(world: World) -> None:
    gated(world, "other", "1Gi", gate=False)


@pytest.mark.parametrize(
    ("obstacle", "reason", "words"),
    [
        pytest.param(fits_a_node, "RoomWithoutDisk", "node-b1", id="fits a node"),
        pytest.param(fits_a_node_without_the_driver, "RoomWithoutDisk", "node-c1", id="fits a node without driver"),
        pytest.param(has_two_claims, "InsufficientCapacity", "2 claims", id="two claims"),
        pytest.param(is_behind_another, "WaitingForNewNode", "default/other", id="another first"),
    ],
)
async def test_it_stays_behind_its_gate_where_no_node_would_come_for_it(
    obstacle: Callable[[World], None], reason: str, words: str
) -> None:
    world = full_world()
    obstacle(world)
    async with world.process() as process:
        await process.run(60)
        assert is_gated(world, "db")
        assert selected(world) == {}
        (note, *_) = [event.note for event in process.sink.events if event.regarding.name == "db"]
        assert process.sink.reasons_of("Pod", "db")[:1] == [reason]
        assert words in note


@pytest.mark.parametrize(
    ("size", "states", "reason", "words"),
    [
        pytest.param("101Gi", "100Gi", "RoomWithoutDisk", "found 100Gi, by", id="too large"),
        pytest.param("1Gi", None, "InsufficientCapacity", "0 left of 0", id="no annotation"),
        pytest.param("1Gi", "plenty", "InsufficientCapacity", "0 left of 0", id="not a quantity"),
    ],
)
async def test_it_stays_behind_its_gate_where_no_new_disk_is_known_to_be_large_enough(
    size: str, states: str | None, reason: str, words: str
) -> None:
    world = full_world(size, states=states)
    async with world.process() as process:
        await process.run(60)
        assert is_gated(world, "db")
        (note, *_) = [event.note for event in process.sink.events if event.regarding.name == "db"]
        assert process.sink.reasons_of("Pod", "db")[:1] == [reason]
        assert words in note


async def test_one_pod_is_let_go_and_the_next_when_that_has_its_node() -> None:
    world = full_world("1Gi", "db-0", "db-1", "db-2")
    async with world.process() as process:
        await process.run(60)
        waiting = [name for name in ("db-0", "db-1", "db-2") if is_gated(world, name)]
        assert len(waiting) == 2
        (first,) = {"db-0", "db-1", "db-2"} - set(waiting)
        world.server.change("pods", f"default/{first}", lambda document: document["spec"].update(nodeName="node-new"))
        await process.run()
        assert sum(is_gated(world, name) for name in waiting) == 1


def two_gated_pods(ledger: Ledger) -> dict[str, Decision]:
    """Decide about the second of two gated pods that fit no node, and about the first if nothing is known of it."""
    annotations = {f"{DEFAULT_PREFIX}{word}": value for word, value in WORDS.items()}
    made = storage_class("made", provisioner=DRIVER, annotations=annotations)
    pods = [pod(name, claims=[name], scheduling_gates=[Annotations().gate]) for name in ("db-0", "db-1")]
    claims = [claim(name, storage_class="made") for name in ("db-0", "db-1")]
    seen = view(made, csi_driver(DRIVER, storage_capacity=True), *pods, *claims)
    pool = decode_node_pool(json.dumps(node_pool_object()).encode())
    assert pool is not None
    seen = replace(seen, new_nodes=NewNodes((pool,)), ledger=ledger)
    undecided = [Reject(each, Reason.NO_NODE_FITS, ()) for each in pods if each.key not in ledger.lifts]
    return {each.pod.name: each for each in with_new_nodes(seen, tuple(undecided), NOW)}


def test_while_its_gate_is_being_removed_no_other_is_let_go() -> None:
    first = two_gated_pods(Ledger())["db-0"]
    assert isinstance(first, Wait)
    assert first.node, "the controller remembers only gates of pods with a place"
    second = two_gated_pods(Ledger().with_lift(first.pod.key, first.pod.uid))["db-1"]
    assert isinstance(second, Reject)
    assert second.reason is Reason.WAITING_FOR_NEW_NODE
