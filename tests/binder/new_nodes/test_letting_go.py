"""In mode provision a pod for which only a node is missing is left to kube-scheduler where an autoscaler adds one, and
a node that does not come is reported.
"""

from collections.abc import Callable

import pytest

from binder.new_nodes.ahead import DEFAULT_WITHIN
from tests.binder.provisioner import DRIVER, SELECTED, gated, is_gated, pool_world, report, selected
from tests.binder.world import World
from tests.fakes.kube_api import failure
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


CONFLICT = failure(409, "Conflict")
LATE = DEFAULT_WITHIN.total_seconds() + 20


def unschedulable(world: World, pod: str = "db") -> None:
    """kube-scheduler looks at the pod, and finds no node for it."""
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    world.server.change("pods", f"default/{pod}", lambda each: each["status"].update(conditions=conditions))


def waits(world: World, claim: str = "db-0") -> str:
    return world.annotations("persistentvolumeclaims", f"default/{claim}").get("awaits-node", "")


async def test_a_node_that_does_not_come_is_reported_once() -> None:
    world = zonal_world("1Gi", "2Gi")
    async with world.process() as process:
        await process.run()
        assert waits(world, "db-0") == waits(world, "db-1") != ""
        unschedulable(world)
        await process.run(DEFAULT_WITHIN.total_seconds() - 60)
        assert process.sink.reasons_of("Pod", "db") == []
        await process.run(80)
        await process.run(80)
        (told,) = [event for event in process.sink.events if event.reason == "WaitingForNewNode"]
        assert told.note.startswith(
            "Waiting for a new node for 10 min: its gate was removed so that an autoscaler adds a node for it and for "
            "db-0, db-1, and none fits the pod."
        )
        assert told.note.endswith("Nothing is bound yet")


async def test_after_a_restart_the_wait_is_known_from_the_claims() -> None:
    world = zonal_world()
    async with world.process() as process:
        await process.run()
        unschedulable(world)
        await process.run(DEFAULT_WITHIN.total_seconds() / 2)
    async with world.process(transition=2) as process:
        await process.run(DEFAULT_WITHIN.total_seconds() / 2 + 20)
        assert process.sink.reasons_of("Pod", "db") == ["WaitingForNewNode"]


def has_a_node(world: World) -> None:
    world.server.change("pods", "default/db", lambda each: each["spec"].update(nodeName="node-new"))


def has_a_selected_node(world: World) -> None:
    def select(document: Object) -> None:
        document["metadata"]["annotations"][SELECTED] = "node-new"

    world.server.change("persistentvolumeclaims", "default/db-0", select)


def is_not_looked_at(world: World) -> None:
    world.server.change("pods", "default/db", lambda each: each["status"].update(conditions=[]))


def is_another_pod(world: World) -> None:
    world.server.remove("pods", "default/db")
    another = pod_object("db", ["db-0"], unschedulable=True)
    another["metadata"]["uid"] = "uid-of-another"
    world.put(another)


@pytest.mark.parametrize("comes", [has_a_node, has_a_selected_node, is_not_looked_at, is_another_pod])
async def test_a_pod_that_waits_for_no_node_is_not_reported(comes: Callable[[World], None]) -> None:
    world = zonal_world()
    async with world.process() as process:
        await process.run()
        unschedulable(world)
        await process.run(10)
        comes(world)
        await process.run(LATE)
        assert "WaitingForNewNode" not in process.sink.reasons_of("Pod", "db")


@pytest.mark.parametrize("write", [1, 2])
async def test_killed_after_any_write_it_is_let_go_in_the_end(write: int) -> None:
    world = zonal_world()
    async with world.process(dies_after=write) as process:
        await process.run()
        assert is_gated(world, "db") == (write == 1)
    async with world.process(transition=2) as process:
        await process.run(30)
        assert not is_gated(world, "db")
        assert waits(world)


async def test_while_its_claim_keeps_changing_the_gate_stays() -> None:
    world = zonal_world()
    world.server.reject_next = [("PATCH /api/v1/namespaces/default/persistentvolumeclaims", CONFLICT)] * 100
    async with world.process() as process:
        await process.run(3)
        assert is_gated(world, "db")
        world.server.reject_next = []
        await process.run(30)
        assert not is_gated(world, "db")
        assert waits(world)


async def test_a_dry_run_writes_nothing() -> None:
    world = zonal_world()
    async with world.process(dry_run=True) as process:
        await process.run(30)
        assert world.server.writes == []
        assert is_gated(world, "db")
