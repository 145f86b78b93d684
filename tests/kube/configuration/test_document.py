"""Configuration files of a small kind: what is read, and how a mistake is named."""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import pytest
from pydantic import Field

from kube.configuration.document import ConfigurationError, ConfigurationFile, decode_part, dump_part, path_of
from kube.configuration.fields import CAMEL_KEYS, AsText, camel, show


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True)
class Wheel:
    __pydantic_config__ = CAMEL_KEYS

    spokes: int
    own_name: str = "front"


def read_letters(text: str) -> frozenset[str]:
    if not text.isalpha():
        raise ValueError(f'expected letters, found "{text}"')
    return frozenset(text)


LETTERS = AsText(read_letters, lambda letters: "".join(sorted(letters)), "letters")


@dataclass(frozen=True)
class Bicycle:
    __pydantic_config__ = CAMEL_KEYS

    wheels: tuple[Wheel, ...] = ()
    colour: Colour | None = None
    spare: Wheel | None = None
    gears: Annotated[int, Field(ge=1, le=30)] = 1
    load: Annotated[float, Field(gt=0)] = 1.5
    seats: Annotated[int, Field(ge=1)] = 1
    owners: dict[str, Wheel] = field(default_factory=dict)
    max_ttl: int = 5
    letters: Annotated[frozenset[str], LETTERS] = frozenset("ab")


@dataclass(frozen=True)
class Plain:
    most_spokes: int = 3


FILE = ConfigurationFile("Bicycle", Bicycle)
HEAD = f"apiVersion: {FILE.api_version}\nkind: Bicycle\n"


def complaint(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        FILE.parse(text)
    return str(caught.value)


def test_keys_are_in_camel_case_and_absent_ones_have_their_default() -> None:
    read = FILE.parse(f"{HEAD}wheels: [{{spokes: 32, ownName: rear}}]\nmaxTTL: 9\ncolour: green\nletters: ba\n")
    assert read == Bicycle((Wheel(32, "rear"),), Colour.GREEN, max_ttl=9)
    assert camel("no_https_url") == "noHTTPSURL"


def test_what_is_dumped_reads_back() -> None:
    bicycle = Bicycle((Wheel(32),), Colour.RED, Wheel(2), 7, letters=frozenset("xy"))
    text = FILE.dump(bicycle)
    assert text.startswith(HEAD)
    assert "letters: xy" in text
    assert FILE.parse(text) == bicycle


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wheels: [", "invalid YAML"),
        ("- 1\n", "expected a mapping with apiVersion and kind, found a list"),
        ("kind: Bicycle\n", f'apiVersion: expected "{FILE.api_version}", found nothing'),
        (HEAD.replace("kind: B", "kind: Tr"), 'kind: expected "Bicycle", found "Tricycle" (line 2)'),
        (f"{HEAD}1: 2\n", "expected a string as a key, found 1; put it in quotes"),
        (f"{HEAD}wheels: [{{spokes: 1, off: 2, 3: 4}}]\n", "wheels[0]: expected a string as a key, found 3"),
    ],
)
def test_what_is_no_such_document_is_reported_first(text: str, expected: str) -> None:
    assert complaint(text).startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gear: 2", 'gear: unknown key; did you mean "gears"? (line 3)'),
        ("spare: {spokes: 1, zzz: me}", "spare.zzz: unknown key; expected spokes, ownName (line 3)"),
        ("wheels: [{spokes: 1}, {ownNames: x}]", 'wheels[1].ownNames: unknown key; did you mean "ownName"? (line 3)'),
        ("owners: {me: {spoke: 1}}", 'owners.me.spoke: unknown key; did you mean "spokes"? (line 3)'),
        ("wheels: [{}]", "wheels[0].spokes: is required (line 3)"),
        ("colour: gren", 'colour: expected red, green, found "gren"; did you mean "green"? (line 3)'),
        ("colour: x", 'colour: expected red, green, found "x" (line 3)'),
        ("gears: 31", "gears: expected a whole number from 1 to 30, found 31 (line 3)"),
        ("load: 0", "load: expected a number greater than 0, found 0 (line 3)"),
        ("seats: 0", "seats: expected a whole number of at least 1, found 0 (line 3)"),
        ("seats: many", 'seats: expected a whole number, found "many" (line 3)'),
        ("spare: 7", "spare: expected a mapping, found 7 (line 3)"),
        ("letters: 7", "letters: expected letters, found 7 (line 3)"),
        ("letters: a7", 'letters: expected letters, found "a7" (line 3)'),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_was_expected(text: str, expected: str) -> None:
    assert complaint(f"{HEAD}{text}\n") == expected


def test_the_schema_requires_the_head_and_knows_every_key() -> None:
    schema = FILE.schema()
    assert schema["required"] == ["apiVersion", "kind"]
    assert list(schema["properties"])[:3] == ["apiVersion", "kind", "wheels"]
    assert schema["properties"]["kind"] == {"const": "Bicycle"}
    assert schema["title"] == "Bicycle"


@pytest.mark.parametrize(
    ("kind", "content", "decoded"),
    [
        pytest.param(Plain, {"mostSpokes": 4}, Plain(4), id="a dataclass that knows nothing of files"),
        pytest.param(Wheel, {"spokes": 4, "ownName": "x"}, Wheel(4, "x"), id="one that does"),
        pytest.param(int, 4, 4, id="a number"),
    ],
)
def test_a_part_is_decoded_by_its_own_type(kind: type[Any], content: object, decoded: object) -> None:
    part = decode_part(kind, content, json.dumps(content), ())
    assert isinstance(part, kind)
    assert repr(part) == repr(decoded)


def test_a_mistake_in_a_part_is_named_by_its_place_in_the_whole() -> None:
    text = "a:\n  - mostSpoke: 4\n"
    with pytest.raises(ConfigurationError) as caught:
        decode_part(Plain, {"mostSpoke": 4}, text, ("a", 0))
    assert str(caught.value) == 'a[0].mostSpoke: unknown key; did you mean "mostSpokes"? (line 2)'
    assert (caught.value.place, caught.value.line) == ("a[0].mostSpoke", 2)
    assert dump_part(Wheel(4)) == {"spokes": 4, "ownName": "front"}


def test_places_and_values_are_shown_as_their_author_wrote_them() -> None:
    assert path_of(("profiles", 0, "scores")) == "profiles[0].scores"
    shown = [None, True, 3, 1.5, "a" * 99, b"x", (1,), {"a": 1}, 2**100]
    assert [show(value) for value in shown] == [
        *("nothing", "true", "3", "1.5", f'"{"a" * 60}"', "bytes", "a list", "a mapping", "a very long number"),
    ]
