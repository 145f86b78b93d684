"""Joint assignment against every assignment there is."""

from collections.abc import Mapping, Sequence
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binder.assignment.assignment import assign
from kube.objects.model import Volume
from tests.builders import volume


def pool(**sizes: int) -> dict[str, Volume]:
    return {name: volume(name, size=f"{size}Gi") for name, size in sizes.items()}


def in_order(volumes: Sequence[Volume]) -> list[Volume]:
    return sorted(volumes, key=lambda volume: (volume.capacity, volume.name))


def best_by_trying_all(options: Mapping[str, Sequence[Volume]]) -> dict[str, str] | None:
    """The specification: least total capacity, then the first names, claims in order of their keys."""
    claims = sorted(options)
    every = {volume.name: volume for shortlist in options.values() for volume in shortlist}
    assignments = []
    for names in permutations(sorted(every), len(claims)):
        if all(every[name] in options[claim] for claim, name in zip(claims, names, strict=True)):
            assignments.append((sum(every[name].capacity for name in names), names))
    return dict(zip(claims, min(assignments)[1], strict=True)) if assignments else None


def names_of(assignment: Mapping[str, Volume] | None) -> dict[str, str] | None:
    return None if assignment is None else {claim: chosen.name for claim, chosen in assignment.items()}


CASES = [
    pytest.param({}, {}, {}, id="no claims"),
    pytest.param({"a": 1}, {"one": "a"}, {"one": "a"}, id="one claim, one volume"),
    pytest.param({"a": 1}, {"one": "a", "two": "a"}, None, id="two claims want the only volume"),
    pytest.param({"a": 1}, {"one": "a", "two": ""}, None, id="a claim without any option"),
    pytest.param(
        {"a": 1, "b": 2}, {"one": "ab", "two": "a"}, {"one": "b", "two": "a"}, id="greedy smallest-first would fail"
    ),
    pytest.param(
        {"a": 1, "b": 1, "c": 1}, {"one": "abc", "two": "abc"}, {"one": "a", "two": "b"}, id="ties go by name, in order"
    ),
    pytest.param(
        {"a": 1, "b": 5, "c": 6},
        {"one": "ab", "two": "a", "three": "bc"},
        {"one": "b", "three": "c", "two": "a"},
        id="a chain of three",
    ),
    pytest.param(
        {"a": 1, "b": 2, "c": 9},
        {"one": "abc", "two": "ab"},
        {"one": "a", "two": "b"},
        id="the large volume is spared",
    ),
]


@pytest.mark.parametrize(("sizes", "wanted", "expected"), CASES)
def test_assigns(sizes: dict[str, int], wanted: dict[str, str], expected: dict[str, str] | None) -> None:
    volumes = pool(**sizes)
    options = {claim: in_order([volumes[name] for name in names]) for claim, names in wanted.items()}
    assert names_of(assign(options)) == expected


@st.composite
def scarce_options(draw: st.DrawFn) -> dict[str, list[Volume]]:
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    volumes = [volume(f"pv-{number}", size=f"{size}Gi") for number, size in enumerate(sizes)]
    claims = draw(st.integers(1, 4))
    subsets = st.lists(st.sampled_from(volumes), unique_by=lambda volume: volume.name, max_size=6)
    return {f"claim-{number}": in_order(draw(subsets)) for number in range(claims)}


@given(scarce_options())
def test_agrees_with_trying_every_assignment(options: dict[str, list[Volume]]) -> None:
    assert names_of(assign(options)) == best_by_trying_all(options)


@given(st.randoms(use_true_random=False), st.integers(2, 16))
def test_finds_the_one_assignment_hidden_among_many_options(random, count: int) -> None:  # type: ignore[no-untyped-def]
    """Claim i may use volumes 0..i only, so exactly one assignment exists, whatever the volumes' sizes."""
    sizes = [random.randint(1, 100) for _ in range(count)]
    volumes = [volume(f"pv-{number:02}", size=f"{size}Gi") for number, size in enumerate(sizes)]
    options = {f"claim-{number:02}": in_order(volumes[: number + 1]) for number in range(count)}
    assert names_of(assign(options)) == {f"claim-{number:02}": f"pv-{number:02}" for number in range(count)}


def test_the_order_of_the_claims_does_not_matter() -> None:
    volumes = in_order(list(pool(a=3, b=3, c=3, d=4).values()))
    options = {f"claim-{number}": volumes for number in range(4)}
    assert names_of(assign(options)) == names_of(assign(dict(reversed(options.items()))))


@st.composite
def alike_options(draw: st.DrawFn) -> dict[str, list[Volume]]:
    """Few sizes and few kinds of claims, so that ties and equal claims abound."""
    sizes = draw(st.lists(st.integers(1, 2), min_size=1, max_size=7))
    names = draw(st.permutations([f"pv-{number}" for number in range(len(sizes))]))
    volumes = [volume(name, size=f"{size}Gi") for name, size in zip(names, sizes, strict=True)]
    subsets = st.lists(st.sampled_from(volumes), unique_by=lambda volume: volume.name, min_size=1, max_size=7)
    kinds = draw(st.lists(subsets.map(in_order), min_size=1, max_size=3))
    return {f"claim-{number}": draw(st.sampled_from(kinds)) for number in range(draw(st.integers(1, 5)))}


@settings(max_examples=400, deadline=None)
@given(alike_options())
def test_equal_claims_and_ties_agree_with_trying_every_assignment(options: dict[str, list[Volume]]) -> None:
    assert names_of(assign(options)) == best_by_trying_all(options)


def test_many_equal_claims_get_the_first_volumes_in_order() -> None:
    volumes = in_order([volume(f"pv-{number:03}", size=f"{1 + number // 3}Gi") for number in range(400)])
    options = {f"claim-{number:03}": volumes for number in range(128)}
    # All but the last have no choice of size; 42 sizes of three volumes are used up, and two of the next.
    assert names_of(assign(options)) == {f"claim-{number:03}": f"pv-{number:03}" for number in range(128)}
