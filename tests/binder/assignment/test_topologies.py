"""Grouping nodes into topologies: heartbeats keep the groups and bring the present nodes, labels make new ones."""

import pytest
from msgspec.structs import replace

from binder.assignment.topologies import Groupings, Topology, topologies_of
from binder.matching.index import VolumeIndex
from binder.model.decision import Mode
from binder.model.demand import Demand
from kube.objects.labels import NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import Node
from kube.persistent_map import Map
from tests.builders import HOSTNAME, claim, node, pod, volume

NODES = Map({name: node(name, zone=name[0]) for name in ("a1", "a2", "b1")})
INDEX = VolumeIndex.of([volume("pv-1", zone="a"), volume("pv-2", zone="b")])
DEMAND = Demand(pod("web"), Mode.ANNOTATE, (claim("data"),))


GROUPINGS = Groupings()


def topologies(nodes: Map[str, Node]) -> tuple[Topology, ...]:
    return topologies_of(nodes, INDEX, [DEMAND], GROUPINGS).all


def test_a_heartbeat_keeps_the_groups_and_shows_the_present_node() -> None:
    before = topologies(NODES)
    tainted = replace(node("a2", zone="a", unschedulable=True), resource_version=9)
    after = topologies(NODES.set("a2", tainted))
    assert [topology.labels for topology in after] == [topology.labels for topology in before]
    assert after[0].nodes == (NODES["a1"], tainted)
    assert after[1] is before[1]
    assert topologies(NODES)[0].nodes == before[0].nodes


def test_other_labels_and_other_nodes_are_grouped_again() -> None:
    assert [len(topology.nodes) for topology in topologies(NODES)] == [2, 1]
    assert [len(topology.nodes) for topology in topologies(NODES.set("a2", node("a2", zone="b")))] == [1, 2]
    assert [len(topology.nodes) for topology in topologies(NODES.delete("a2"))] == [1, 1]
    assert [len(topology.nodes) for topology in topologies(NODES.delete("a2").set("b2", node("b2", zone="b")))] == [
        1,
        2,
    ]


@pytest.mark.parametrize(
    ("operator", "values", "reached"),
    [
        pytest.param("In", ("n03", "n05"), {"n03", "n05"}, id="some"),
        pytest.param("NotIn", ("n03", "n05"), {f"n{number:02}" for number in range(20)} - {"n03", "n05"}, id="others"),
        pytest.param("Exists", (), {f"n{number:02}" for number in range(20)}, id="all"),
    ],
)
def test_among_many_topologies_those_are_found_that_an_affinity_means(
    operator: str, values: tuple[str, ...], reached: set[str]
) -> None:
    nodes = Map({f"n{number:02}": node(f"n{number:02}") for number in range(20)})
    affinity = NodeSelector((NodeSelectorTerm((Requirement(HOSTNAME, operator, values),)),))
    index = VolumeIndex.of([volume("pv-1", node_affinity=affinity)])
    reaching = topologies_of(nodes, index, [DEMAND], Groupings()).reaching(affinity)
    assert {each.name for topology in reaching for each in topology.nodes} == reached
