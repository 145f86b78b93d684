"""Volumes are committed ahead of a node where the class allows it, and the gate is removed once they are bound."""

from collections.abc import Callable, Iterable

import pytest

from binder.model.decision import Mode
from binder.new_nodes.ahead import DEFAULT_WITHIN
from prebinder.config.feature_gates import FeatureGates
from tests.binder.world import World, bind
from tests.fakes.objects import (
    ZONE,
    Object,
    claim_object,
    class_object,
    node_object,
    node_pool_object,
    pod_object,
    volume_object,
)

JOIN = {"scheduler.cloud.example/new-nodes": "join-volumes"}


def world_of(pods: Iterable[str] = ("db",), *, zone: str = "c", mode: Mode = Mode.PREBIND) -> World:
    """A class that joins new nodes, zones a and b with nodes, and a gated pod for each volume in the zone."""
    world = World(mode)
    fast = class_object()
    fast["metadata"]["annotations"] |= JOIN
    world.put(fast)
    world.server.node_pools = [node_pool_object(zones=("a", "b", "c"))]
    for number, name in enumerate(pods):
        world.put(volume_object(f"pv-{number}", zone=zone), claim_object(name), pod_object(name, [name], gated=True))
    return world


def is_gated(world: World, name: str) -> bool:
    return bool(world.server.get("pods", f"default/{name}")["spec"].get("schedulingGates"))


def committed(world: World) -> list[str]:
    volumes = world.server.all("persistentvolumes")
    return [each["spec"]["claimRef"]["name"] for each in volumes if "claimRef" in each["spec"]]


def bind_committed(world: World) -> None:
    """As the PV controller does."""
    for each in list(world.server.all("persistentvolumes")):
        if "claimRef" in each["spec"] and each["status"]["phase"] != "Bound":
            bind(world, each["spec"]["claimRef"]["name"], each["metadata"]["name"])


def launch(world: World, name: str, zone: str, pods: Iterable[str]) -> None:
    """A node comes and kube-scheduler assigns the pods to it."""
    world.put(node_object(name, zone))
    for pod in pods:
        world.server.change("pods", f"default/{pod}", lambda document: document["spec"].update(nodeName=name))


async def test_the_gate_is_removed_when_the_claim_is_bound_and_not_before() -> None:
    world = world_of()
    async with world.process() as process:
        await process.run()
        assert committed(world) == ["db"]
        assert is_gated(world, "db")
        await process.run(60)
        assert is_gated(world, "db"), "an autoscaler follows nothing but a completed bind"
        bind_committed(world)
        await process.run()
        assert not is_gated(world, "db")
        assert process.sink.reasons_of("Pod", "db") == ["VolumeReserved"]
        (event,) = process.sink.events
        assert "in zone c, for a node that an autoscaler has yet to add there" in event.note
    assert world.violations() == []


@pytest.mark.parametrize("mode", [Mode.PREBIND, Mode.COMPLETE])
async def test_a_pod_that_is_reported_unschedulable_gets_its_volume_too(mode: Mode) -> None:
    world = world_of((), mode=mode)
    world.put(volume_object("pv-0", zone="c"), claim_object("db"), pod_object("db", ["db"], unschedulable=True))
    async with world.process() as process:
        await process.run(15)
        assert committed(world) == ["db"]


def without_annotation(world: World) -> None:
    world.put(class_object())


def feature_gate_is_off(world: World) -> None:
    world.gates = FeatureGates(new_nodes=False)


def pool_is_not_ready(world: World) -> None:
    world.server.node_pools = [node_pool_object(zones=("a", "b", "c"), ready=False)]


def pool_lacks_the_zone(world: World) -> None:
    world.server.node_pools = [node_pool_object(zones=("a", "b"))]


def pool_is_at_its_limit(world: World) -> None:
    pool = node_pool_object(zones=("a", "b", "c"), limits={"cpu": "8"})
    pool["status"]["resources"] = {"cpu": "8"}
    world.server.node_pools = [pool]


def no_pool_and_no_node_there(world: World) -> None:
    world.server.node_pools = None


def label_that_no_new_node_has(world: World) -> None:
    world.server.change("pods", "default/db", lambda document: document["spec"].update(nodeSelector={"disk": "ssd"}))


def volume_of_one_node(world: World) -> None:
    world.put(volume_object("pv-0", zone=None, node="gone"))


def min_domains(world: World) -> None:
    spread: Object = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}},
        "minDomains": 3,
    }
    world.server.change(
        "pods", "default/db", lambda document: document["spec"].update(topologySpreadConstraints=[spread])
    )


@pytest.mark.parametrize(
    ("obstacle", "reason", "words"),
    [
        pytest.param(without_annotation, "NoJointAssignment", "", id="a class that says nothing"),
        pytest.param(feature_gate_is_off, "NoJointAssignment", "", id="feature gate NewNodes off"),
        pytest.param(pool_is_not_ready, "NoJointAssignment", "not Ready: NodeClassReady=False", id="pool not ready"),
        pytest.param(pool_lacks_the_zone, "NoJointAssignment", "", id="pool without the zone"),
        pytest.param(pool_is_at_its_limit, "NoJointAssignment", "limit of cpu 8 is reached", id="pool at its limit"),
        pytest.param(no_pool_and_no_node_there, "NoJointAssignment", "", id="neither pool nor node in the zone"),
        pytest.param(label_that_no_new_node_has, "NoJointAssignment", "no label disk", id="unknown label"),
        pytest.param(volume_of_one_node, "RoomWithoutDisk", "a volume of one node only", id="local volume"),
        pytest.param(min_domains, "NoJointAssignment", "minDomains 3", id="spread that is counted otherwise"),
    ],
)
async def test_nothing_is_committed_where_no_node_would_come(
    obstacle: Callable[[World], None], reason: str, words: str
) -> None:
    world = world_of()
    obstacle(world)
    async with world.process() as process:
        await process.run(120)
        assert committed(world) == []
        assert is_gated(world, "db")
        notes = [event.note for event in process.sink.events if event.regarding.kind == "Pod"]
        assert process.sink.reasons_of("Pod", "db")[:1] == [reason]
        assert words in notes[0]


@pytest.mark.parametrize(
    ("zones", "pods"),
    [
        pytest.param(("a", "b"), ["db"], id="zones with nodes"),
        pytest.param(("a", "b", "c"), [], id="a zone without a node counts for Karpenter"),
    ],
)
async def test_spread_has_to_hold_by_the_zones_that_kube_scheduler_counts_and_by_those_of_the_pools(
    zones: tuple[str, ...], pods: list[str]
) -> None:
    """A second pod in zone a is one more than in zone b, and two more than in zone c, which has no node."""
    world = world_of(zone="a")
    world.server.node_pools = [node_pool_object(zones=zones)]
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    spread["labelSelector"] = {"matchLabels": {"app": "db"}}
    world.server.change("pods", "default/db", lambda pod: pod["spec"].update(topologySpreadConstraints=[spread]))
    for node in ("node-a1", "node-b1"):
        world.put(pod_object(f"on-{node}", [], node=node))
    for name in ("db", "on-node-a1", "on-node-b1"):
        world.server.change("pods", f"default/{name}", lambda pod: pod["metadata"].update(labels={"app": "db"}))
    for node in ("node-a1", "node-a2"):
        world.server.change("nodes", node, lambda document: document["spec"].update(unschedulable=True))
    async with world.process() as process:
        await process.run(60)
        assert committed(world) == pods


async def test_without_node_pools_an_emptied_node_of_the_zone_is_the_template() -> None:
    world = world_of(zone="b")
    world.server.node_pools = None
    for name in ("node-b1", "node-b2"):
        world.put(pod_object(f"on-{name}", [], node=name))
        world.server.change(
            "pods",
            f"default/on-{name}",
            lambda pod: pod["spec"]["containers"][0].update(resources={"requests": {"cpu": "8"}}),
        )
    world.server.change(
        "pods",
        "default/db",
        lambda pod: pod["spec"]["containers"][0].update(resources={"requests": {"cpu": "1"}}),
    )
    async with world.process() as process:
        await process.run()
        assert committed(world) == ["db"]


async def test_one_pod_at_first_and_then_twice_as_many() -> None:
    names = [f"db-{number}" for number in range(7)]
    world = world_of(names)
    async with world.process() as process:
        done: list[str] = []
        for expected in (1, 2, 4):
            await process.run(20)
            ahead = [name for name in committed(world) if name not in done]
            assert len(ahead) == expected
            bind_committed(world)
            await process.run(20)
            assert [name for name in names if not is_gated(world, name)] == sorted(done + ahead)
            done += ahead
            launch(world, f"new-{expected}", "c", ahead)
            # Full, so that the next pods need another one.
            world.server.change("nodes", f"new-{expected}", lambda node: node["spec"].update(unschedulable=True))
        waiting = process.sink.reasons_of("Pod", names[-1])
        assert "WaitingForNewNode" in waiting
    assert world.violations() == []


async def test_a_node_that_does_not_come_is_reported_and_stops_what_is_committed_there() -> None:
    world = world_of(["db-0", "db-1"])
    async with world.process() as process:
        await process.run()
        bind_committed(world)
        first = committed(world)
        await process.run(DEFAULT_WITHIN.total_seconds() + 20)
        assert committed(world) == first
        assert "WaitingForNewNode" in process.sink.reasons_of("Pod", first[0])
        launch(world, "new-1", "c", first)
        world.server.change("nodes", "new-1", lambda node: node["spec"].update(unschedulable=True))
        await process.run(20)
        assert len(committed(world)) == 2, "the pod has its node: the next one may go"


async def test_a_class_says_how_long_a_node_may_take() -> None:
    world = world_of()
    world.server.change(
        "storageclasses",
        "fast",
        lambda document: document["metadata"]["annotations"].update({"scheduler.cloud.example/new-node-within": "2m"}),
    )
    async with world.process() as process:
        await process.run()
        bind_committed(world)
        await process.run(100)
        assert "WaitingForNewNode" not in process.sink.reasons_of("Pod", "db")
        await process.run(40)
        assert "WaitingForNewNode" in process.sink.reasons_of("Pod", "db")


async def test_after_a_restart_the_pods_ahead_are_known_from_the_objects() -> None:
    world = world_of(["db-0", "db-1"])
    async with world.process() as process:
        await process.run()
        assert len(committed(world)) == 1
    async with world.process(transition=2) as process:
        await process.run(60)
        assert len(committed(world)) == 1
        bind_committed(world)
        await process.run(DEFAULT_WITHIN.total_seconds())
        assert len(committed(world)) == 1
        assert "WaitingForNewNode" in process.sink.reasons_of("Pod", committed(world)[0])


async def test_switched_off_it_follows_the_pods_that_are_ahead_and_commits_nothing_for_others() -> None:
    world = world_of(["db-0", "db-1"])
    async with world.process() as process:
        await process.run()
        ahead = committed(world)
    world.gates = FeatureGates(new_nodes=False)
    async with world.process(transition=2) as process:
        bind_committed(world)
        await process.run(DEFAULT_WITHIN.total_seconds() + 20)
        assert not is_gated(world, ahead[0])
        assert "WaitingForNewNode" in process.sink.reasons_of("Pod", ahead[0])
        assert committed(world) == ahead
    assert world.violations() == []


@pytest.mark.parametrize("write", range(1, 3))
async def test_killed_after_any_write_it_converges(write: int) -> None:
    world = world_of()
    async with world.process(dies_after=write) as process:
        await process.run()
        bind_committed(world)
        await process.run()
    async with world.process(transition=2) as process:
        await process.run(30)
        bind_committed(world)
        await process.run(30)
        assert not is_gated(world, "db")
    assert world.violations() == []
