"""Groups of nodes follow the nodes, and the labels of a class follow its volumes."""

from hypothesis import given
from hypothesis import strategies as st

from kube.objects.model import Node, Volume
from kube.rules.topology import LabelKeys, NodeKind
from scheduler.extender.cache import NodeGroups, VolumeLabels
from tests.builders import HOSTNAME, ZONE, node, node_selector, volume

KEYS = (ZONE, "disk")


def kinds(groups: NodeGroups, keys: LabelKeys) -> dict[str, NodeKind]:
    grouping = groups.by(keys)
    return {name: grouping.kinds[number] for name, number in grouping.numbers.items()}


def test_nodes_that_are_alike_are_of_one_kind() -> None:
    groups = NodeGroups()
    for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "a")):
        groups.node_changed(None, node(name, zone=zone))
    grouping = groups.by((ZONE,))
    assert grouping.numbers == {"n1": 0, "n2": 1, "n3": 0}
    assert grouping.kinds == [("a",), ("b",)]
    assert groups.by(KEYS).labels(0) == {ZONE: "a"}


def test_scores_of_kinds_are_those_of_their_nodes_after_any_changes() -> None:
    groups = NodeGroups()
    for name, zone in (("n1", "a"), ("n2", "b")):
        groups.node_changed(None, node(name, zone=zone))
    grouping = groups.by((ZONE,))
    assert grouping.scores((3, 7)) == {"n1": 3, "n2": 7}
    assert "unknown" not in grouping.scores((3, 7))
    groups.node_changed(node("n1", zone="a"), node("n1", zone="b"))
    assert grouping.scores((3, 7)) == {"n1": 7, "n2": 7}
    groups.node_changed(node("n2", zone="b"), None)
    assert grouping.scores((3, 7)) == {"n1": 7}
    assert grouping.scores((3, 8)) == {"n1": 8}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["n1", "n2", "n3"]),
            st.one_of(st.none(), st.fixed_dictionaries({}, optional={key: st.sampled_from("ab") for key in KEYS})),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_after_any_changes_the_groups_are_those_of_the_nodes_there_are(
    changes: list[tuple[str, dict[str, str] | None, bool]],
) -> None:
    groups, present = NodeGroups(), dict[str, Node]()
    for name, labels, grouped in changes:
        if grouped:
            groups.by(KEYS)
        old, new = present.pop(name, None), None if labels is None else node(name, zone=None, labels=labels)
        groups.node_changed(old, new)
        if new is not None:
            present[name] = new
    expected = {name: tuple(dict(node.labels).get(key) for key in KEYS) for name, node in present.items()}
    assert kinds(groups, KEYS) == expected


def test_more_questions_than_are_remembered_are_answered_all_the_same() -> None:
    groups = NodeGroups()
    groups.node_changed(None, node("n1", zone="a"))
    for number in range(200):
        assert kinds(groups, (ZONE, f"z{number}")) == {"n1": ("a", None)}


def test_kinds_of_nodes_that_have_gone_do_not_pile_up() -> None:
    groups = NodeGroups()
    for number in range(1000):
        old = node(f"n{number - 1}") if number else None
        groups.node_changed(old, None)
        groups.node_changed(None, node(f"n{number}"))
        assert kinds(groups, (HOSTNAME,)) == {f"n{number}": (f"n{number}",)}
        assert len(groups.by((HOSTNAME,)).kinds) < 100


def test_labels_of_a_class_are_those_its_volumes_require() -> None:
    labels = VolumeLabels()
    zonal, local = volume("1", zone="a"), volume("2", node="n1")
    both = volume("3", node_affinity=node_selector({ZONE: "a"}, {"disk": "x"}), storage_class="slow")
    changes: list[tuple[Volume | None, Volume | None]] = [(None, zonal), (None, local), (None, both)]
    for old, new in changes:
        labels.volume_changed(old, new)
    assert labels.keys("fast") == (HOSTNAME, ZONE)
    assert labels.keys("slow") == ("disk", ZONE)
    labels.volume_changed(local, volume("2", zone="b"))
    labels.volume_changed(both, None)
    assert (labels.keys("fast"), labels.keys("slow"), labels.keys("none")) == ((ZONE,), (), ())
