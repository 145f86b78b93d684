"""The path in a message of msgspec, which has it nowhere else."""

import tomllib
from typing import Annotated

import msgspec
import pytest

from kube.decoding.decode_parts import field_error
from tests.test_architecture import ROOT


class Part(msgspec.Struct):
    number: int = 0
    names: list[str] = []
    labels: dict[str, str] = {}
    small: Annotated[int, msgspec.Meta(le=5)] = 0
    inner: "Part | None" = None


@pytest.mark.parametrize(
    ("text", "path", "problem"),
    [
        pytest.param("[]", "$.spec", "Expected `object`, got `array`", id="the part itself"),
        pytest.param('{"number": "x"}', "$.spec.number", "Expected `int`, got `str`", id="a field"),
        pytest.param('{"names": ["a", 1]}', "$.spec.names[1]", "Expected `str`, got `int`", id="an element"),
        pytest.param('{"labels": {"a": 1}}', "$.spec.labels[...]", "Expected `str`, got `int`", id="a value"),
        pytest.param('{"inner": {"number": null}}', "$.spec.inner.number", "Expected `int`, got `null`", id="nested"),
        pytest.param('{"small": 6}', "$.spec.small", "Expected `int` <= 5", id="out of bounds"),
    ],
)
def test_the_path_is_split_from_the_problem(text: str, path: str, problem: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(text, type=Part)
    error = field_error(caught.value, "$.spec")
    assert (error.path, error.problem) == (path, problem)


def test_a_message_without_a_path_is_about_the_part() -> None:
    assert field_error(ValueError("Input data was truncated"), "$.spec").path == "$.spec"


def test_only_one_minor_version_of_msgspec_is_admitted() -> None:
    """Another one may phrase its messages differently: admit it together with the tests above."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (bounds,) = (each.removeprefix("msgspec>=0.") for each in dependencies if each.startswith("msgspec"))
    least, below = bounds.split(",<0.")
    assert int(below) == int(least) + 1
