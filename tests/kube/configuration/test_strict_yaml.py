import re
from collections.abc import Mapping

import pytest

from kube.configuration.strict_yaml import load_strictly


def test_only_true_and_false_are_booleans() -> None:
    assert load_strictly("a: off\nb: no\nc: true\nd: False\n") == {"a": "off", "b": "no", "c": True, "d": False}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("a: [", "invalid YAML", id="not YAML"),
        pytest.param("a:\n\tb: 1\n", r"invalid YAML: line 2, column 1: found character '\t' that", id="a tab"),
        pytest.param("a:\n\tb: 1\n", "; indent with spaces", id="a tab, and what to do"),
        pytest.param("a: 1\n---\na: 1\n", "invalid YAML: line 2, column 1: but found another", id="two documents"),
        pytest.param("a: 1\nb: 2\na: 3\n", 'duplicate key "a"', id="a key twice"),
        pytest.param("a: &x [1]\nb: *x\n", "alias *x on line 2", id="an alias"),
        pytest.param("a: &x {b: 1}\nc: {<<: *x}\n", "alias *x on line 2", id="a merge"),
        pytest.param("? [a]\n: 1\n", "unhashable key", id="a key that is a list"),
        pytest.param("[" * 5000, "nested too deeply", id="deep"),
        pytest.param("!!python/object/apply:os.getcwd []", "could not determine a constructor", id="code"),
    ],
)
def test_ambiguous_yaml_is_rejected(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        load_strictly(text)


def test_lines_that_stand_for_more_than_any_memory_holds_are_rejected_at_once() -> None:
    levels = "".join(f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]\n" for level in range(1, 30))
    with pytest.raises(ValueError, match="alias"):
        load_strictly(f"l0: &l0 x\n{levels}")


def test_many_keys_are_each_processed_once() -> None:
    """With a look at all the others for each, this would take minutes."""
    mapping = load_strictly("{" + ", ".join(f"k{number}: 1" for number in range(20_000)) + "}")
    assert isinstance(mapping, Mapping)
    assert len(mapping) == 20_000
