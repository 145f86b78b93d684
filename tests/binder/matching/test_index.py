"""The index answers as a scan by the matching rules does, whatever came, changed and went before."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from binder.matching.capacity_order import CapacityOrder, entry_of
from binder.matching.index import VolumeIndex
from binder.matching.matching import scheduler_rejection
from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Pairs, Requirement
from kube.objects.model import Claim, Volume
from tests.builders import HOSTNAME, ZONE, claim, node_selector, volume

Labels = Mapping[str, str] | None


def by_scan(volumes: Iterable[Volume], wanted: Claim, labels: Labels) -> list[Volume]:
    """The specification: every Available volume that passes the rules, smallest first, then by name."""
    fitting = (
        volume for volume in volumes if volume.claim is None and scheduler_rejection(wanted, volume, labels) is None
    )
    return sorted(fitting, key=lambda volume: (volume.capacity, volume.name))


def expressions(*requirements: tuple[str, str, tuple[str, ...]]) -> NodeSelectorTerm:
    return NodeSelectorTerm(tuple(Requirement(*requirement) for requirement in requirements))


AFFINITIES: list[NodeSelector | None] = [
    None,
    NodeSelector(),
    node_selector({}),
    node_selector({ZONE: "a"}),
    node_selector({ZONE: ["a", "b"]}),
    node_selector({ZONE: "a", HOSTNAME: "n1"}),
    node_selector({HOSTNAME: "n1"}, {HOSTNAME: "n2"}),
    node_selector({HOSTNAME: "n1"}, {ZONE: "b"}),
    node_selector({ZONE: [f"z{number}" for number in range(99)] + ["a"], HOSTNAME: ["n1", "n3"]}),
    NodeSelector((expressions((ZONE, "NotIn", ("a",))),)),
    NodeSelector((expressions((ZONE, "Exists", ())), expressions((HOSTNAME, "In", ("n3",))))),
    NodeSelector((expressions((ZONE, "In", ("a",)), (ZONE, "In", ("a", "b"))),)),
    NodeSelector((expressions((ZONE, "In", ())), expressions((ZONE, "Near", ("a",))))),
    NodeSelector((expressions(("disks", "Gt", ("3",)), (ZONE, "In", ("b",))),)),
    NodeSelector((NodeSelectorTerm((), (Requirement("metadata.name", "In", ("n9",)),)),)),
]
NODES: list[Labels] = [
    None,
    {},
    {ZONE: "a"},
    {ZONE: "b", "disks": "4"},
    {ZONE: "a", HOSTNAME: "n1"},
    {ZONE: "c", HOSTNAME: "n2"},
    {HOSTNAME: "n3", ZONE: "z98"},
]
SELECTORS = [None, LabelSelector(), LabelSelector((("tier", "gold"),))]
MODES = [["ReadWriteOnce"], ["ReadOnlyMany"], ["ReadWriteOnce", "ReadOnlyMany"], []]

T = TypeVar("T")


def mostly(usual: T, *others: T) -> st.SearchStrategy[T]:
    """Each of many fields decides alone that nothing fits: were all values alike, hardly anything ever would."""
    return st.sampled_from([usual] * 9 * len(others) + [*others])


volumes = st.builds(
    volume,
    st.sampled_from([f"pv-{number}" for number in range(8)]),
    size=st.sampled_from(["1Gi", "2Gi", "3Gi"]),
    storage_class=mostly("fast", None),
    access_modes=mostly(MODES[2], *MODES),
    volume_mode=mostly("Filesystem", "Block"),
    attributes_class=mostly("", "gold"),
    node_affinity=st.sampled_from(AFFINITIES),
    claim=mostly(None, "default/other"),
    phase=mostly("Available", "Bound"),
    deleting=mostly(False, True),
    labels=st.sampled_from([{}, {"tier": "gold"}]),
)
claims = st.builds(
    claim,
    size=mostly("1Gi", "0", "2Gi", "4Gi"),
    storage_class=mostly("fast", "", None),
    access_modes=mostly(MODES[0], *MODES),
    volume_mode=mostly("Filesystem", "Block"),
    attributes_class=mostly("", "gold"),
    selector=mostly(*SELECTORS),
)


@given(st.lists(volumes, max_size=20), claims, st.sampled_from(NODES), st.sets(st.sampled_from(["pv-1", "pv-2"])))
def test_agrees_with_a_scan(history: list[Volume], wanted: Claim, labels: Labels, exclude: set[str]) -> None:
    """The history is one of versions: a name that comes again is the same volume, changed."""
    index, now = VolumeIndex(), dict[str, Volume]()
    for version in history:
        index = index.with_volume(now.get(version.name), version)
        now[version.name] = version
    expected = by_scan(now.values(), wanted, labels)
    assert list(index.candidates(wanted, labels)) == expected
    left = [volume for volume in expected if volume.name not in exclude]
    assert index.smallest(wanted, labels, exclude) == (left[0] if left else None)


@given(st.lists(volumes, max_size=12, unique_by=lambda volume: volume.name))
def test_made_at_once_or_one_by_one_is_the_same_and_undone_leaves_nothing(history: list[Volume]) -> None:
    index = VolumeIndex()
    for added in history:
        index = index.with_volume(None, added)
    at_once = VolumeIndex.of(history)
    for labels in NODES:
        for wanted in (claim(size="1Gi"), claim(size="2Gi", storage_class=None)):
            assert list(index.candidates(wanted, labels)) == list(at_once.candidates(wanted, labels))
            assert index.deciding_labels(wanted) == at_once.deciding_labels(wanted)
    for added in history:
        at_once = at_once.with_volume(added, None)
    assert at_once == VolumeIndex()


@given(st.lists(volumes, max_size=12, unique_by=lambda volume: volume.name), claims)
def test_topologies_are_those_of_volumes_large_enough(volumes: list[Volume], wanted: Claim) -> None:
    anything = claim(
        size=f"{wanted.request // 10**9}",
        storage_class=wanted.storage_class,
        access_modes=wanted.access_modes,
        volume_mode=wanted.volume_mode,
        attributes_class=wanted.attributes_class,
    )
    topologies = list(VolumeIndex.of(volumes).topologies(wanted))
    assert len(topologies) == len(set(topologies))
    assert set(topologies) == {volume.node_affinity for volume in by_scan(volumes, anything, None)}


def test_an_index_held_does_not_change() -> None:
    before = VolumeIndex.of([volume("pv-1")])
    after = before.with_volume(volume("pv-1"), volume("pv-1", claim="default/data"))
    assert before.smallest(claim()) == volume("pv-1")
    assert after.smallest(claim()) is None


def test_a_new_version_replaces_the_old_one() -> None:
    index = VolumeIndex.of([volume("pv-1", resource_version=1)])
    newer = volume("pv-1", resource_version=2)
    assert index.with_volume(volume("pv-1", resource_version=1), newer).smallest(claim()) == newer


@pytest.mark.parametrize("count", [1, 255, 256, 257, 512, 513, 1500])
def test_long_orders_stay_sorted_while_they_grow_and_shrink(count: int) -> None:
    every = [volume(f"pv-{number:04}", size=f"{number * 7919 % 1009 + 1}Gi") for number in range(count)]
    index = VolumeIndex()
    for member in every:
        index = index.with_volume(None, member)
    assert list(index.candidates(claim(size="500Gi"))) == by_scan(every, claim(size="500Gi"), None)
    for member in every[: count // 2]:
        index = index.with_volume(member, None)
    assert list(index.candidates(claim(size="1Gi"))) == by_scan(every[count // 2 :], claim(size="1Gi"), None)


def test_a_volume_that_was_never_there_can_go() -> None:
    index = VolumeIndex.of([volume("pv-1"), volume("pv-2", zone="a")])
    for absent in (volume("pv-9"), volume("pv-9", zone="b"), volume("pv-9", storage_class="x"), volume("pv-0")):
        assert index.with_volume(absent, None) == index


def test_labels_that_keep_changing_leave_nothing_behind() -> None:
    members = [volume(f"pv-{number}", labels={"number": str(number)}) for number in range(10)]
    order = CapacityOrder.of(map(entry_of, members))
    for change in range(1000):
        relabelled = structs.replace(members[0], labels=(("n", str(change)),))
        order = order.without_volume(members[0]).with_entry(entry_of(relabelled))
    asked: list[Pairs] = []

    def selects(labels: Pairs) -> bool:
        asked.append(labels)
        return False

    assert not list(order.at_least(0, selects))
    assert (("n", "999"),) in asked
    assert len(asked) <= 2 * len(members)
