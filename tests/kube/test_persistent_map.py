"""The map does what a dict does, and never changes."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube import persistent_map
from kube.persistent_map import MAX_SHARD_ENTRIES, Map

KEYS = st.integers(0, 30) | st.text(max_size=2)
CHANGES = st.lists(st.tuples(KEYS, st.integers(0, 3) | st.none()), max_size=60)
"""Keys with their new values; None deletes."""


@pytest.fixture(autouse=True, params=[1, 4, MAX_SHARD_ENTRIES])
def shard_sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few entries in a shard small maps have many shards."""
    monkeypatch.setattr(persistent_map, "MAX_SHARD_ENTRIES", request.param)


def after(start: dict[Any, int], changes: list[tuple[Any, int | None]]) -> dict[Any, int]:
    content = dict(start)
    for key, value in changes:
        if value is None:
            content.pop(key, None)
        else:
            content[key] = value
    return content


def one_by_one(start: Map[Any, int], changes: list[tuple[Any, int | None]]) -> Map[Any, int]:
    for key, value in changes:
        if value is not None:
            start = start.set(key, value)
        elif key in start:
            start = start.delete(key)
    return start


def together(start: Map[Any, int], changes: list[tuple[Any, int | None]]) -> Map[Any, int]:
    mutation = start.mutate()
    for key, value in changes:
        if value is not None:
            mutation[key] = value
        elif key in mutation:
            del mutation[key]
    return mutation.finish()


@pytest.mark.parametrize("change", [one_by_one, together])
@given(st.dictionaries(KEYS, st.integers(0, 3)), CHANGES)
def test_changes_are_those_of_a_dict_and_leave_the_first_map_alone(
    change: Callable[[Map[Any, int], list[tuple[Any, int | None]]], Map[Any, int]],
    start: dict[Any, int],
    changes: list[tuple[Any, int | None]],
) -> None:
    first = Map(start)
    changed, expected = change(first, changes), after(start, changes)
    for made, content in ((first, start), (changed, expected)):
        assert made == content
        assert made == Map(content)
        assert hash(made) == hash(Map(content))
        assert len(made) == len(content)
        assert dict(made.items()) == content
        assert sorted(made.values()) == sorted(content.values())
        assert set(made) == set(made.keys()) == set(content)
        assert all(made[key] == made.get(key) == value for key, value in content.items())
    assert changed.get("absent", 7) == 7
    assert "absent" not in changed


@given(st.dictionaries(KEYS, st.integers(0, 3)), st.dictionaries(KEYS, st.integers(0, 3)))
def test_an_update_takes_mappings_and_pairs(start: dict[Any, int], more: dict[Any, int]) -> None:
    assert Map(start).update(more) == Map(start).update(more.items()) == {**start, **more}


def test_what_changes_nothing_returns_the_same_map() -> None:
    value = object()
    first = Map({"a": value})
    assert first.set("a", value) is first
    assert first.update({}) is first
    assert first.mutate().finish() is first


def test_a_key_that_is_absent_is_an_error() -> None:
    first = Map({"a": 1})
    mutation = first.mutate()
    for lookup in (first.__getitem__, first.delete, mutation.__getitem__, mutation.__delitem__):
        with pytest.raises(KeyError, match="b"):
            lookup("b")
    assert (mutation.get("b"), mutation.get("b", 2), len(mutation)) == (None, 2, 1)
