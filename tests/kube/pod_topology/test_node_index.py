"""The sets of nodes agree with the plain rules, whatever the nodes and the pod."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.objects import model
from kube.objects.labels import NodeSelector, NodeSelectorTerm, Requirement
from kube.pod_topology.node_index import NodeIndex
from kube.rules.selectors import node_matches, pod_node_affinity_matches, term_matches
from kube.rules.taints import untolerated_taint
from kube.store.node_view import effective_taints
from tests import builders
from tests.scheduler import clusters


def names(bits: int, nodes: list[model.Node]) -> set[str]:
    return {node.name for number, node in enumerate(nodes) if bits >> number & 1}


@settings(deadline=None, max_examples=100)
@given(clusters.nodes(), clusters.labels, st.one_of(st.none(), clusters.node_selectors))
def test_selectors_and_affinities(
    nodes: list[model.Node], wanted: dict[str, str], affinity: NodeSelector | None
) -> None:
    plain = {
        node.name
        for node in nodes
        if dict(node.labels).items() >= wanted.items() and pod_node_affinity_matches(affinity, node.labels, node.name)
    }
    assert names(NodeIndex.of(nodes).selected(builders.pairs(wanted), affinity), nodes) == plain


@settings(deadline=None)
@given(clusters.nodes(), st.one_of(st.none(), clusters.node_selectors))
def test_volumes_are_reached(nodes: list[model.Node], affinity: NodeSelector | None) -> None:
    plain = {node.name for node in nodes if node_matches(affinity, node.labels)}
    assert names(NodeIndex.of(nodes).reaching(affinity), nodes) == plain


@settings(deadline=None, max_examples=100)
@given(clusters.nodes(), st.lists(clusters.tolerations, max_size=3).map(tuple))
def test_taints(nodes: list[model.Node], tolerations: tuple[model.Toleration, ...]) -> None:
    plain = {node.name for node in nodes if untolerated_taint(effective_taints(node), tolerations) is None}
    assert names(NodeIndex.of(nodes).tolerated(tolerations), nodes) == plain


@settings(deadline=None)
@given(clusters.nodes(), clusters.terms)
def test_a_single_term(nodes: list[model.Node], term: NodeSelectorTerm) -> None:
    plain = {node.name for node in nodes if term_matches(term, dict(node.labels), node.name)}
    assert names(NodeIndex.of(nodes).matching((term,)), nodes) == plain


@settings(deadline=None)
@given(clusters.nodes(most=3), clusters.nodes(most=5))
def test_a_changed_node_leaves_nothing_behind(before: list[model.Node], after: list[model.Node]) -> None:
    after = after + before[len(after) :]
    index = NodeIndex.of(before)
    for number, node in enumerate(after):
        index = index.with_node(number, before[number] if number < len(before) else None, node)
    assert index == NodeIndex.of(after)


@settings(deadline=None)
@given(clusters.nodes(), st.lists(clusters.keys, max_size=2).map(tuple))
def test_nodes_that_are_alike(nodes: list[model.Node], keys: tuple[str, ...]) -> None:
    plain: dict[tuple[str | None, ...], set[str]] = {}
    for node in nodes:
        plain.setdefault(tuple(dict(node.labels).get(key) for key in keys), set()).add(node.name)
    parts = [names(bits, nodes) for bits in NodeIndex.of(nodes).alike(keys)]
    assert sorted(map(sorted, parts)) == sorted(map(sorted, plain.values()))


@settings(deadline=None)
@given(clusters.nodes(), st.data())
def test_a_node_that_went_leaves_nothing_behind(nodes: list[model.Node], data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(nodes) - 1))
    gone, last = nodes[number], nodes[-1]
    index = NodeIndex.of(nodes).without_node(number, gone)
    left = nodes[:-1]
    if last is not gone:
        index = index.without_node(len(left), last).with_node(number, None, last)
        left[number] = last
    assert index == NodeIndex.of(left)


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ("8", "16"), {"n0", "n1"}),
        ("NotIn", ("8",), {"n1", "n2"}),
        ("Exists", (), {"n0", "n1"}),
        ("DoesNotExist", (), {"n2"}),
        ("Gt", ("8",), {"n1"}),
        ("Lt", ("16",), {"n0"}),
        ("Near", ("8",), set()),
    ],
)
def test_each_operator(operator: str, values: tuple[str, ...], expected: set[str]) -> None:
    nodes = [builders.node("n0", labels={"cores": "8"}), builders.node("n1", labels={"cores": "16"})]
    nodes.append(builders.node("n2"))
    term = NodeSelectorTerm((Requirement("cores", operator, values),))
    assert names(NodeIndex.of(nodes).matching((term,)), nodes) == expected
