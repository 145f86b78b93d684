"""A compiled test agrees with the requirements one by one, and reads no more labels than there are."""

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from kube.rules.label_test import label_test
from kube.rules.selectors import matches_labels, node_matches, problem_of

KEYS = ("a", "b", "c")
VALUES = ("1", "2", "3", "x")


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Requirement.Matches of apimachinery's labels package, for the values used here."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdigit() and int(value) > int(requirement.values[0])
        case _:
            return value is not None and value.isdigit() and int(value) < int(requirement.values[0])


sets = st.builds(
    lambda key, operator, values: Requirement(key, operator, tuple(values)),
    st.sampled_from(KEYS),
    st.sampled_from(["In", "NotIn"]),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=3),
)
presences = st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from(["Exists", "DoesNotExist"]))
comparisons = st.builds(
    lambda key, operator, value: Requirement(key, operator, (value,)),
    st.sampled_from(KEYS),
    st.sampled_from(["Gt", "Lt"]),
    st.sampled_from(["0", "1", "2", "3"]),
)


@given(
    st.lists(st.one_of(sets, presences, comparisons), max_size=5),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)),
)
def test_it_agrees_with_the_requirements_one_by_one(requirements: list[Requirement], labels: dict[str, str]) -> None:
    assert label_test(requirements).holds(labels) is all(holds(requirement, labels) for requirement in requirements)


class Counted(Mapping[str, str]):
    """Labels that count how often they are read."""

    def __init__(self, **labels: str) -> None:
        self._labels = labels
        self.reads = 0

    def __getitem__(self, key: str) -> str:
        self.reads += 1
        return self._labels[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)

    def __len__(self) -> int:
        return len(self._labels)


MANY = 300


@pytest.mark.parametrize(
    "requirements",
    [
        pytest.param([Requirement(f"k{each}", "DoesNotExist") for each in range(MANY)], id="absences"),
        pytest.param([Requirement(f"k{each}", "NotIn", ("v",)) for each in range(MANY)], id="exclusions"),
        pytest.param([Requirement("disk", "NotIn", (f"v{each}",)) for each in range(MANY)], id="of one key"),
    ],
)
def test_a_selector_of_many_requirements_reads_each_label_once(requirements: list[Requirement]) -> None:
    labels, node_labels = Counted(disk="d1", zone="a"), Counted(disk="d1", zone="a")
    assert matches_labels(LabelSelector((), tuple(requirements)), labels)
    assert node_matches(NodeSelector((NodeSelectorTerm(tuple(requirements)),)), node_labels)
    assert max(labels.reads, node_labels.reads) <= len(labels)


def test_labels_fewer_than_required_are_not_read() -> None:
    labels = Counted(disk="d1")
    assert not matches_labels(
        LabelSelector((), tuple(Requirement(f"k{each}", "Exists") for each in range(MANY))), labels
    )
    assert labels.reads == 0


def test_a_selector_that_was_not_read_matches_nothing_and_says_why() -> None:
    selector = LabelSelector(dropped_bytes=1_279_168)
    assert not matches_labels(selector, {})
    assert problem_of(selector) == "it has 1,279,168 bytes: at most 16,384 are evaluated"
