"""Capacities by class and label: what is found for a node is what asking every one of them would find."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kube.objects.labels import LabelSelector, Requirement
from kube.objects.model import CSIStorageCapacity
from kube.rules.selectors import matches_labels
from kube.store.store import Store

_ASKED = st.builds(
    Requirement,
    st.sampled_from(("zone", "host", "rack")),
    st.sampled_from(("In", "NotIn", "Exists")),
    st.lists(st.sampled_from("ab"), min_size=1, max_size=2, unique=True).map(tuple),
).map(
    lambda requirement: Requirement(
        requirement.key, requirement.operator, () if requirement.operator == "Exists" else requirement.values
    )
)
_TOPOLOGIES = st.none() | st.builds(
    LabelSelector,
    st.dictionaries(st.sampled_from(("zone", "host")), st.sampled_from("ab")).map(lambda d: tuple(sorted(d.items()))),
    st.lists(_ASKED, max_size=2).map(tuple),
)
_LABELS = st.dictionaries(st.sampled_from(("zone", "host", "rack")), st.sampled_from("abc"))


def capacity(name: str, version: int, class_name: str, topology: LabelSelector | None) -> CSIStorageCapacity:
    return CSIStorageCapacity("default", name, f"uid-{name}", version, storage_class=class_name, node_topology=topology)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(("fast", "slow")), _TOPOLOGIES, st.booleans()), max_size=12),
    _LABELS,
)
def test_finds_what_a_full_search_finds_after_any_changes(
    changes: list[tuple[int, str, LabelSelector | None, bool]], labels: dict[str, str]
) -> None:
    store = Store()
    for version, (number, class_name, topology, gone) in enumerate(changes, 1):
        if gone:
            store.capacities.delete(f"default/c{number}")
        else:
            store.capacities.upsert(capacity(f"c{number}", version, class_name, topology))
    snapshot = store.snapshot()
    for class_name in ("fast", "slow", "unknown"):
        expected = [
            capacity
            for capacity in snapshot.capacities.values()
            if capacity.storage_class == class_name
            and capacity.node_topology is not None
            and matches_labels(capacity.node_topology, labels)
        ]
        capacities = list(snapshot.capacities_by_class.of_node(class_name, labels))
        assert sorted(capacity.name for capacity in capacities) == sorted(capacity.name for capacity in expected)
        keys = {
            key
            for capacity in snapshot.capacities.values()
            if capacity.storage_class == class_name
            for key in keys_of(capacity)
        }
        assert set(snapshot.capacities_by_class.deciding_labels(class_name)) == keys
    present = {
        capacity.storage_class for capacity in snapshot.capacities.values() if capacity.node_topology is not None
    }
    assert set(snapshot.capacities_by_class.by_class) == present


def keys_of(capacity: CSIStorageCapacity) -> set[str]:
    topology = capacity.node_topology or LabelSelector()
    return {key for key, _ in topology.match_labels} | {each.key for each in topology.match_expressions}


def test_a_capacity_of_one_node_is_found_without_evaluating_the_others() -> None:
    store = Store()
    for number in range(50):
        pairs = (("example.com/node", f"n{number}"), ("topology.kubernetes.io/zone", "a"))
        store.capacities.upsert(capacity(f"c{number}", number + 1, "fast", LabelSelector(pairs)))
    filed = store.snapshot().capacities_by_class.by_class["fast"]
    assert {len(named) for values in filed.pinned.values() for named in values.values()} == {1}
