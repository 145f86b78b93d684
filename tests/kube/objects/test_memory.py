"""What namespace users write is not kept after their objects, whatever its size."""

import gc
import tracemalloc
from collections.abc import Callable, Hashable

import pytest

from binder.matching.evidence import modes_text
from binder.matching.matching import indexed_modes
from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.memory import remembered, size_of
from kube.rules.quantity import parse_quantity
from kube.rules.selectors import label_keys, problem_of, term_problem
from scheduler.extender.cache import pin_of


def requirement(number: int) -> Requirement:
    return Requirement("zone", "In", tuple(f"zone-{number}-{each}" for each in range(5_000)))


def term(number: int) -> NodeSelectorTerm:
    return NodeSelectorTerm((requirement(number),), ())


def modes(number: int) -> tuple[str, ...]:
    return tuple(f"mode-{number}-{each}" for each in range(5_000))


@pytest.mark.parametrize(
    ("function", "made"),
    [
        pytest.param(term_problem, term, id="terms"),
        pytest.param(problem_of, lambda number: LabelSelector((), (requirement(number),)), id="label-selectors"),
        pytest.param(label_keys, lambda number: NodeSelector((term(number),)), id="keys-of-affinities"),
        pytest.param(pin_of, lambda number: NodeSelector((term(number),)), id="pins-of-affinities"),
        pytest.param(parse_quantity, lambda number: f"{number}." + "0" * 300_000, id="quantities"),
        pytest.param(indexed_modes, modes, id="access-modes"),
        pytest.param(modes_text, modes, id="access-modes-in-words"),
    ],
)
def test_large_arguments_of_many_objects_are_not_kept(
    function: Callable[[Hashable], object], made: Callable[[int], Hashable]
) -> None:
    """Bounded by number alone, 100 of them kept 29 MiB and more, and so 40 of them 11 MiB."""
    tracemalloc.start()
    try:
        for number in range(40):
            function(made(number))
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 10 * 2**20


def test_what_is_known_is_not_computed_again() -> None:
    computed: list[str] = []

    @remembered(10_000)
    def length(text: str) -> int:
        computed.append(text)
        return len(text)

    assert [length("a"), length("a"), length("bb")] == [1, 1, 2]
    assert computed == ["a", "bb"]


def test_when_there_is_no_room_left_everything_is_dropped_and_room_is_there_again() -> None:
    computed: list[str] = []
    each = size_of("a") + size_of(1)

    @remembered(2 * each)
    def length(text: str) -> int:
        computed.append(text)
        return len(text)

    for text in "ab" * 2 + "cdcd":
        length(text)
    assert "".join(computed) == "abcd"


def test_what_takes_just_all_of_the_room_is_known() -> None:
    computed: list[str] = []

    @remembered(size_of("a") + size_of(1))
    def length(text: str) -> int:
        computed.append(text)
        return len(text)

    assert [length("a"), length("a")] == [1, 1]
    assert computed == ["a"]


def test_too_large_an_argument_leaves_the_others_known() -> None:
    computed: list[str] = []

    @remembered(1_000)
    def length(text: str) -> int:
        computed.append(text)
        return len(text)

    assert [length("a"), length("b" * 2_000), length("b" * 2_000), length("a")] == [1, 2_000, 2_000, 1]
    assert [len(text) for text in computed] == [1, 2_000, 2_000]


def test_an_error_is_raised_each_time() -> None:
    @remembered(1_000)
    def reject(text: str) -> int:
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="a"):
            reject("a")


def test_the_size_of_a_value_is_that_of_all_it_holds() -> None:
    labels = (("tier", f"{1:05000}"),)
    assert size_of(LabelSelector(labels, ())) > size_of(labels) > 5_000
