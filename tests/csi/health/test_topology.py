import pytest
from hypothesis import given
from hypothesis import strategies as st

from csi.health.topology import contradiction, segments
from csi.health.verdict import Segment
from kube.objects.labels import NodeSelector, NodeSelectorTerm, Requirement
from tests.builders import node_selector


def segment(**labels: str) -> Segment:
    return Segment(tuple(sorted(labels.items())))


def demand(operator: str, *values: str, key: str = "zone") -> NodeSelector:
    return NodeSelector((NodeSelectorTerm((Requirement(key, operator, values),)),))


A, B = segment(zone="a"), segment(zone="b")


def test_segments_are_sorted_and_single() -> None:
    answer = [{"zone": zone, "rack": "1"} for zone in "bab"]
    assert segments(answer) == (segment(rack="1", zone="a"), segment(rack="1", zone="b"))


@pytest.mark.parametrize(
    ("topology", "affinity", "contradicts"),
    [
        pytest.param((A,), node_selector({"zone": "a"}), False, id="same zone"),
        pytest.param((A,), node_selector({"zone": "b"}), True, id="other zone"),
        pytest.param((A, B), node_selector({"zone": "b"}), False, id="one segment fits"),
        pytest.param((A,), node_selector({"zone": "b"}, {"zone": "a"}), False, id="one term fits"),
        pytest.param((A,), node_selector({"zone": "b"}, {"zone": "c"}), True, id="no term fits"),
        pytest.param((A,), node_selector({"host": "n1"}), False, id="keys of which the other says nothing"),
        pytest.param((A,), node_selector({"host": "n1", "zone": "b"}), True, id="one requirement suffices"),
        pytest.param((segment(zone="a", rack="1"),), node_selector({"zone": "a", "rack": "2"}), True, id="two keys"),
        pytest.param((A,), demand("NotIn", "a"), True, id="NotIn names it"),
        pytest.param((A,), demand("NotIn", "b"), False, id="NotIn names another"),
        pytest.param((A,), demand("Exists"), False, id="Exists"),
        pytest.param((A,), demand("DoesNotExist"), True, id="DoesNotExist"),
        pytest.param((segment(zone="5"),), demand("Gt", "5"), True, id="Gt fails"),
        pytest.param((segment(zone="6"),), demand("Gt", "5"), False, id="Gt holds"),
        pytest.param((segment(zone="5"),), demand("Lt", "5"), True, id="Lt fails"),
        pytest.param((segment(zone="4"),), demand("Lt", "5"), False, id="Lt holds"),
        pytest.param((A,), demand("Gt", "5"), True, id="Gt of a text"),
        pytest.param((A,), demand("Resembles", "b"), False, id="an unknown operator proves nothing"),
        pytest.param((A,), NodeSelector((NodeSelectorTerm(),)), False, id="a term that demands nothing"),
        pytest.param((A,), NodeSelector(), False, id="no terms"),
        pytest.param((A,), None, False, id="no affinity"),
        pytest.param((segment(),), node_selector({"zone": "b"}), False, id="an empty segment is everywhere"),
        pytest.param((), node_selector({"zone": "b"}), False, id="no constraint"),
        pytest.param(None, node_selector({"zone": "b"}), False, id="not said"),
    ],
)
def test_contradiction(topology: tuple[Segment, ...] | None, affinity: NodeSelector | None, contradicts: bool) -> None:
    assert (contradiction(topology, affinity) is not None) is contradicts


def test_the_evidence_names_both_sides() -> None:
    assert contradiction((A,), node_selector({"zone": ["b", "c"]}, {"zone": "d", "host": "n"})) == (
        "the driver reports the volume in zone=a; its node affinity requires zone In [b, c] or zone In [d]"
    )


labels = st.dictionaries(st.sampled_from(["zone", "rack"]), st.sampled_from("ab"))


@given(st.lists(labels.map(lambda pairs: segment(**pairs)), max_size=3), labels)
def test_a_node_that_both_sides_allow_refutes_any_contradiction(topology: list[Segment], node: dict[str, str]) -> None:
    affinity = node_selector(node)
    if any(set(segment.labels) <= node.items() for segment in topology):
        assert contradiction(topology, affinity) is None
