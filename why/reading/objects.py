"""From a file's content to objects: JSON, YAML, lists, and lists in lists, each object passed on undecoded.

What cannot be read is named, and reading continues. Each byte of a file of 300 MB is read twice: once to split the
list, once to decode the object.
"""

import re
from pathlib import PurePath
from typing import Final, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct

from why.errors import WhyError
from why.reading.documents import ENVELOPE, TOO_DEEP, Document, Unreadable, documents
from why.reading.resources import RESOURCES

EXPECTED: Final = "Expected YAML or JSON objects, as `kubectl get ... -o json` prints them"

_HEAD: Final = re.compile(rb'\s*\{\s*"apiVersion"\s*:\s*"([^"\\]*)"\s*,\s*"kind"\s*:\s*"([^"\\]*)"')
"""How objects begin that the API or kubectl wrote; anything else is decoded to determine its kind."""


_KIND: Final = re.compile(rb"\bkind\"?\s*:\s*\"?(\w+)")
_LOOKED_AT: Final = 64 << 10


_API_OF: Final = {
    resource.kind: f"{resource.group}/{resource.version}".removeprefix("/") for resource in RESOURCES.values()
}


class _Status(Struct):
    """What the API server answers if it has no objects, such as a user without the right to list them."""

    message: str | None = None


_STATUS: Final = msgspec.json.Decoder(_Status)


class ObjectSink(Protocol):
    """Receives the objects of files; `faults` are lines for the user about what could not be read, and `damaged` the
    kinds of which an object may be missing therefore.
    """

    faults: list[str]
    damaged: set[str]

    def take(self, raw: bytes | Raw, api: str, kind: str, source: str) -> None:
        """Receive an object of this kind; `api` is its apiVersion, and both are empty if it does not state them."""


def pass_objects(contents: memoryview, source: str, sink: ObjectSink) -> int:
    """Pass on what the file holds, and return how many documents it has.

    Raises WhyError if it holds something, and nothing of that is an object.
    """
    count = 0
    faults = []
    for document in documents(contents):
        if isinstance(document, Unreadable):
            faults.append(f"{source}, line {document.line}: {document.problem}")
            sink.damaged |= _kinds_in(contents, source)
            continue
        if document.envelope.kind == "Status":
            faults.append(f"{source}: the API server's answer instead of objects: {_message(document)}")
            continue
        count += 1
        if document.lost:
            faults.append(f"{source}: {document.lost}")
            sink.damaged |= _kinds_in(contents, source)
        try:
            _add_document(document, source, sink)
        except RecursionError:
            faults.append(f"{source}: {TOO_DEEP}")
    if faults and not count:
        raise WhyError(f"{faults[0]}. {EXPECTED}")
    sink.faults += faults
    return count


def _kinds_in(contents: memoryview, source: str) -> set[str]:
    """Return the kinds that are named where a damaged file begins: what is missing of it is mostly one of these.

    So is the kind that the file has its name of: a list as the API returns it names its kind at its end only.
    """
    named = {name.decode().removesuffix("List") for name in _KIND.findall(contents[:_LOOKED_AT])}
    return (named | {_kind_of(source)}) - {""}


def _kind_of(source: str) -> str:
    """Return the kind that a file has its name of, as `nodes.yaml` or `systemPods.yaml`, empty if it has another."""
    stem = PurePath(source).name.partition(".")[0].lower()
    named = [resource for resource in RESOURCES.values() if stem.endswith(resource.plural)]
    return max(named, key=lambda resource: len(resource.plural)).kind if named else ""


def _message(status: Document) -> str:
    """Return what a Status says."""
    try:
        return _STATUS.decode(status.text).message or "no message"
    except msgspec.ValidationError:
        return "no message"


def _add_document(document: Document, source: str, sink: ObjectSink) -> None:
    api, kind, items = document.envelope.api_version or "", document.envelope.kind or "", document.envelope.items
    if items and not kind and (named := _kind_of(source)):
        # As Go's typed clients return a list, and talosctl and others write it: without what it is a list of.
        api, kind = _API_OF[named], f"{named}List"
    if items is UNSET or not kind.endswith("List"):
        sink.take(bytes(document.text), api, kind, source)
        return
    for item in items or ():
        _add_item(item, api, kind.removesuffix("List"), source, sink)


def _add_item(item: Raw, api: str, kind: str, source: str, sink: ObjectSink) -> None:
    """Add an item of a list. Items of a typed list, such as PodList, need not state their kind; a list may hold lists,
    as `jq -s` makes them.
    """
    if not kind:
        head = _HEAD.match(memoryview(item))
        if head:
            api, kind = head[1].decode(), head[2].decode()
        else:
            api, kind = _described(item)
    nested = _as_list(item) if kind.endswith("List") else None
    if nested is not None:
        _add_document(nested, source, sink)
    else:
        sink.take(item, api, kind, source)


def _as_list(item: Raw) -> Document | None:
    try:
        return Document(ENVELOPE.decode(item), memoryview(item))
    except msgspec.ValidationError:
        return None


def _described(item: Raw) -> tuple[str, str]:
    try:
        envelope = ENVELOPE.decode(item)
    except msgspec.ValidationError:
        return "", ""
    return envelope.api_version or "", envelope.kind or ""
