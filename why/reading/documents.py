"""Splits a file into documents: JSON values one after another, YAML documents, or a mix of both.

What cannot be read becomes an `Unreadable`, and reading continues after it.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec
import yaml
from msgspec import UNSET, Raw, Struct, UnsetType

from why.reading.cut_short import lost_end

_BLANK: Final = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t\r\n]+|---(?=[ \t\r\n]|\Z))*")
_SEPARATOR: Final = re.compile(rb"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_NEXT_OBJECT: Final = re.compile(rb"^(?:[{]|---)", re.MULTILINE)
_LOGS: Final = re.compile(
    rb"==== START logs for container .*?(?:^==== END logs for container [^\n]*(?:\n|\Z)|\Z)", re.S | re.M
)
"""What `kubectl cluster-info dump` prints between objects if it has no directory (clusterinfo_dump.go)."""

_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_NO_OBJECT: Final = re.compile(r"Expected `object`, got `(\w+)`")
"""msgspec tells where a value ends, and what it found instead of an object, only in these messages. Its bounds in
pyproject.toml admit one minor version, and tests compare the messages of the installed one.
"""
_NOUNS: Final = {"str": "a string", "array": "a list", "int": "a number", "float": "a number", "bool": "a boolean"}
TOO_DEEP: Final = "objects are nested too deeply"
_MAX_FLOW_BYTES: Final = 1 << 20
"""Bytes. YAML may begin with a brace too, but a file longer than this is JSON, and broken."""


class Envelope(Struct, rename="camel"):
    """What identifies the kind of a document. `items` is UNSET if there are none, each item stays undecoded."""

    api_version: str | None = None
    kind: str | None = None
    items: list[Raw] | UnsetType | None = UNSET


ENVELOPE: Final = msgspec.json.Decoder(Envelope)


class _Object(Struct):
    """Any JSON object."""


_OBJECTS: Final = msgspec.json.Decoder(list[_Object])
_RAW_LIST: Final = msgspec.json.Decoder(list[Raw])


class Document(NamedTuple):
    """A document as JSON, decoded as far as its envelope. `lost`: what a list lacks that was cut off, empty if it is
    whole.
    """

    envelope: Envelope
    text: memoryview
    lost: str = ""


class Unreadable(NamedTuple):
    """A part of a file that is neither JSON nor YAML, and the line where it begins. The problem may name another
    line.
    """

    line: int
    problem: str


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: what looks like a date is a string. Aliases are rejected, as in configurations: some
    that stand for others take all memory.
    """

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        _reject_aliases(node)
        return node


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _reject_aliases(root: yaml.Node | None) -> None:
    """Raise ComposerError if a node is in the document twice."""
    seen: set[int] = set()
    left = [] if root is None else [root]
    while left:
        node = left.pop()
        if id(node) in seen:
            problem = "aliases are not supported, write the value out: one stands for what begins"
            raise yaml.composer.ComposerError(None, None, problem, node.start_mark)
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            left += node.value
        elif isinstance(node, yaml.MappingNode):
            left += chain.from_iterable(node.value)


def documents(contents: memoryview) -> Iterator[Document | Unreadable]:
    """Yield the documents of a file in order. Empty ones, such as a file of comments, are skipped."""
    at = _skip_blank(contents, 0)
    while at < len(contents):
        read = _json_document if contents[at] in b"{[" else _yaml_document
        try:
            document, end = read(contents, at)
        except RecursionError:
            document, end = Unreadable(_line(contents, at), TOO_DEEP), len(contents)
        if document is not None:
            yield document
        at = _skip_blank(contents, end)


def _skip_blank(contents: memoryview, at: int) -> int:
    while True:
        blank = _BLANK.match(contents, at)
        at = blank.end() if blank else at
        logs = _LOGS.match(contents, at)
        if logs is None:
            return at
        at = logs.end()


def _json_document(contents: memoryview, at: int) -> tuple[Document | Unreadable | None, int]:
    """Return the JSON value that begins here and where it ends. A large list is scanned only once."""
    try:
        return Document(ENVELOPE.decode(contents[at:]), contents[at:]), len(contents)
    except msgspec.ValidationError as error:
        end = _end_of_json(contents, at)
        items = _items(contents[at:end])
        if items is not None:
            return Document(Envelope("v1", "List", items), contents[at:end]), end
        return Unreadable(_line(contents, at), _in_words(error)), end
    except msgspec.DecodeError as error:
        problem = str(error)
    trailing = _TRAILING.search(problem)
    if trailing:
        text = contents[at : at + int(trailing[1]) - 1]
        return Document(ENVELOPE.decode(text), text), at + len(text)
    if _end_of_yaml(contents, at) - at <= _MAX_FLOW_BYTES:
        document, end = _yaml_document(contents, at)
        if not isinstance(document, Unreadable):
            return document, end
    following = _NEXT_OBJECT.search(contents, at + 1)
    return Unreadable(_line(contents, at), problem), following.start() if following else len(contents)


def _items(text: memoryview) -> list[Raw] | None:
    """Return the objects of a bare JSON array, such as the `.items` of a list, else None."""
    try:
        _OBJECTS.decode(text)
        return _RAW_LIST.decode(text)
    except msgspec.DecodeError:
        return None


def _end_of_json(contents: memoryview, at: int) -> int:
    try:
        msgspec.json.decode(contents[at:], type=Raw)
    except msgspec.DecodeError as error:
        trailing = _TRAILING.search(str(error))
        if trailing:
            return at + int(trailing[1]) - 1
    return len(contents)


def _yaml_document(contents: memoryview, at: int) -> tuple[Document | Unreadable | None, int]:
    """Return the YAML document that begins here as JSON, None for an empty one, and where it ends."""
    end = _end_of_yaml(contents, at)
    try:
        value = yaml.load(bytes(contents[at:end]), Loader=_Loader)
        if value is None:
            return None, end
        lost = lost_end(value) if end == len(contents) else ""
        if lost:
            return _cut_short(value, lost, _line(contents, end)), end
        text = memoryview(msgspec.json.encode(value))
        return Document(ENVELOPE.decode(text), text), end
    except yaml.MarkedYAMLError as error:
        problem = _marked(error, _line(contents, at))
    except (yaml.YAMLError, ValueError, TypeError) as error:
        problem = _in_words(error)
    following = _NEXT_OBJECT.search(contents, at + 1, end)
    return Unreadable(_line(contents, at), problem), following.start() if following else end


def _cut_short(value: dict[str, Any], lost: str, line: int) -> Document | Unreadable:
    """Return what is left of a document without its end: a list without its last item, of an object nothing."""
    problem = f"the file ends too early: {lost}"
    items = value.get("items")
    if not isinstance(items, list):
        return Unreadable(line, problem)
    whole = [Raw(msgspec.json.encode(item)) for item in items[:-1]]
    return Document(Envelope("v1", "List", whole), memoryview(b""), problem)


def _in_words(error: Exception) -> str:
    if match := _NO_OBJECT.fullmatch(str(error)):
        return f"found {_NOUNS.get(match[1], match[1])}, not an object"
    return " ".join(str(error).split()).replace(' in "<byte string>",', " at")


def _marked(error: yaml.MarkedYAMLError, begins: int) -> str:
    """Return YAML's error with the line of the file instead of that of the document, which `begins` there."""
    problem = ", ".join(text for text in (error.context, error.problem) if text)
    mark = error.problem_mark
    return problem if mark is None else f"{problem} at line {begins + mark.line}, column {mark.column + 1}"


def _end_of_yaml(contents: memoryview, at: int) -> int:
    separator = _SEPARATOR.search(contents, at)
    return separator.start() if separator else len(contents)


def _line(contents: memoryview, at: int) -> int:
    return bytes(contents[:at]).count(b"\n") + 1
