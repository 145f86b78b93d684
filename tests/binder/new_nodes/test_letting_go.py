"""In mode provision a pod for which only a node is missing is left to kube-scheduler where an autoscaler adds one."""

from collections.abc import Callable

import pytest

from tests.binder.provisioner import DRIVER, gated, is_gated, pool_world, report, selected
from tests.binder.world import World
from tests.fakes.objects import ZONE, Object, csi_node_object, node_pool_object, pod_object

NODES = ("node-a1", "node-a2", "node-b1", "node-b2")


def zonal_world(*sizes: str, joins: bool = True) -> World:
    """A class whose driver reports no capacity and makes volumes for a zone, and a gated pod that fits no node."""
    world = pool_world({})
    world.server.change("csidrivers", DRIVER, lambda driver: driver["spec"].update(storageCapacity=False))
    if joins:
        annotate(world, "new-nodes", "join-volumes")
    world.put(*(csi_node_object(node) for node in NODES))
    world.server.node_pools = [node_pool_object(zones=("a", "b", "c"))]
    gated(world, "db", *(sizes or ("1Gi",)))
    for node in NODES:
        world.server.change("nodes", node, lambda document: document["spec"].update(unschedulable=True))
    return world


def annotate(world: World, word: str, value: str) -> None:
    def change(document: Object) -> None:
        document["metadata"].setdefault("annotations", {})[f"scheduler.cloud.example/{word}"] = value

    world.server.change("storageclasses", "made", change)


@pytest.mark.parametrize("sizes", [("1Gi",), ("1Gi", "2Gi")], ids=["one claim", "two claims, one place"])
async def test_it_is_let_go_and_nothing_is_selected(sizes: tuple[str, ...]) -> None:
    world = zonal_world(*sizes)
    async with world.process() as process:
        await process.run()
        assert not is_gated(world, "db")
        assert selected(world) == {}


async def test_without_node_pools_an_emptied_node_is_the_template() -> None:
    world = zonal_world()
    world.server.node_pools = None
    for node in NODES:
        world.server.change("nodes", node, lambda document: document["spec"].update(unschedulable=False))
        world.put(pod_object(f"on-{node}", [], node=node))
        request(world, f"on-{node}", "8")
    request(world, "db", "1")
    async with world.process() as process:
        await process.run()
        assert not is_gated(world, "db")


def request(world: World, pod: str, cpu: str) -> None:
    wanted = {"requests": {"cpu": cpu}}
    world.server.change("pods", f"default/{pod}", lambda each: each["spec"]["containers"][0].update(resources=wanted))


async def test_without_the_annotation_it_stays_behind_its_gate() -> None:
    world = zonal_world(joins=False)
    async with world.process() as process:
        await process.run(60)
        assert is_gated(world, "db")


def reports_capacity(world: World) -> None:
    for node in NODES:
        report(world, node, "100Gi")
    world.server.change("csidrivers", DRIVER, lambda driver: driver["spec"].update(storageCapacity=True))


def is_not_strict(world: World) -> None:
    annotate(world, "topology", "")


def has_room_without_driver(world: World) -> None:
    world.server.remove("csinodes", "node-a1")
    world.server.change("nodes", "node-a1", lambda document: document["spec"].update(unschedulable=False))


def pool_is_not_ready(world: World) -> None:
    world.server.node_pools = [node_pool_object(zones=("a", "b", "c"), ready=False)]


def zone_without_pool(world: World) -> None:
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z"]}]}]
    world.server.change("storageclasses", "made", lambda document: document.update(allowedTopologies=terms))


@pytest.mark.parametrize(
    ("obstacle", "reason", "words"),
    [
        pytest.param(reports_capacity, "RoomWithoutDisk", f"capacities of {DRIVER}", id="capacity"),
        pytest.param(is_not_strict, "NoNodeFits", "all volumes of the pod in one place", id="not strict"),
        pytest.param(has_room_without_driver, "NoNodeFits", "not registered there", id="room without driver"),
        pytest.param(pool_is_not_ready, "NoNodeFits", "not Ready", id="pool not ready"),
        pytest.param(zone_without_pool, "NoNodeFits", "", id="allowed topologies"),
    ],
)
async def test_it_stays_behind_its_gate_where_kube_scheduler_or_the_autoscaler_could_be_wrong(
    obstacle: Callable[[World], None], reason: str, words: str
) -> None:
    world = zonal_world("1Gi", "2Gi")
    obstacle(world)
    async with world.process() as process:
        await process.run(60)
        assert is_gated(world, "db")
        assert selected(world) == {}
        notes = [event.note for event in process.sink.events if event.regarding.kind == "Pod"]
        assert process.sink.reasons_of("Pod", "db")[:1] == [reason]
        assert words in notes[0]
