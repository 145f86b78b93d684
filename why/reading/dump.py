"""Objects from files for `match`: any mix of YAML documents, JSON objects one after another, and lists of objects.

An object that cannot be read is named and skipped, and reading continues. A file of 300 MB is mapped, not copied, and
each byte of it is read twice: once to split the list, once to decode the object.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from mmap import ACCESS_READ, mmap
from os import fstat
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, Final, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct

from kube.decoding.decode import DECODERS, MalformedObject
from kube.objects.api_resource import NAMESPACES, WATCHED
from kube.objects.model import Claim, Node, Pod, Record, StorageClass, Volume, record_key
from kube.store.snapshot import Snapshot
from kube.store.store import snapshot_of
from why.errors import WhyError
from why.reading.dump_documents import ENVELOPE, TOO_DEEP, Document, Unreadable, documents

_APIS: Final = {resource.kind: resource.group or resource.version for resource in (*WATCHED, NAMESPACES)}

_EXPECTED: Final = "Expected YAML or JSON objects, as `kubectl get ... -o json` prints them"

_HEAD: Final = re.compile(rb'\s*\{\s*"apiVersion"\s*:\s*"([^"\\]*)"\s*,\s*"kind"\s*:\s*"([^"\\]*)"')
"""How objects begin that the API or kubectl wrote; anything else is decoded to determine its kind."""


_GZIP: Final = b"\x1f\x8b"
"""How files of gzip begin."""


class _Status(Struct):
    """What the API server answers if it has no objects, such as a user without the right to list them."""

    message: str | None = None


_STATUS: Final = msgspec.json.Decoder(_Status)


@dataclass(slots=True)
class Objects:
    """The content of the input, by key; `others` are the kinds with the capabilities and attachments of drivers.

    `faults` and `duplicates` are lines for the user, `ignored` counts kinds that are not needed.
    """

    claims: dict[str, Claim] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    others: dict[type[Record], dict[str, Record]] = field(default_factory=dict)
    ignored: Counter[str] = field(default_factory=Counter)
    duplicates: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def take(self, raw: bytes | Raw, api: str, kind: str, source: str) -> None:
        """Decode and keep an object; a malformed one becomes a fault, one that is not needed is counted."""
        if not kind:
            self.faults.append(f"{source}: an object without a kind")
        elif not is_record(kind, api):
            self.ignored[kind] += 1
        else:
            try:
                self.add(DECODERS[kind](raw))
            except MalformedObject as error:
                self.faults.append(f"{source}: {error}")

    def add(self, record: Record) -> None:
        """Keep an object; of two with the same kind and key the later one counts."""
        by_kind: dict[type, dict[str, Any]] = {
            Claim: self.claims,
            Volume: self.volumes,
            StorageClass: self.classes,
            Pod: self.pods,
            Node: self.nodes,
        }
        kept = by_kind.get(type(record))
        if kept is None:
            kept = self.others.setdefault(type(record), {})
        key = record_key(record)
        if key in kept:
            self.duplicates.append(f"{type(record).__name__} {key} is in the input twice; the later one counts")
        kept[key] = record

    def snapshot(self) -> Snapshot:
        """Return all objects as a snapshot for the rules."""
        kinds: list[Mapping[str, Record]] = [self.claims, self.volumes, self.classes, self.pods, self.nodes]
        return snapshot_of(record for kind in (*kinds, *self.others.values()) for record in kind.values())

    def summary(self) -> str:
        """Return in one line what was read and what was not."""
        counts = {
            "PersistentVolume": len(self.volumes),
            "PersistentVolumeClaim": len(self.claims),
            "Pod": len(self.pods),
            "Node": len(self.nodes),
            "StorageClass": len(self.classes),
            **{kind.__name__: len(records) for kind, records in self.others.items()},
        }
        read = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        ignored = ", ".join(f"{count} {kind}" for kind, count in sorted(self.ignored.items()))
        return f"Read {read}." + (f" Ignored: {ignored}." if ignored else "")


class DumpSink(Protocol):
    """Receives the objects of files; `faults` are lines for the user about what could not be read."""

    faults: list[str]

    def take(self, raw: bytes | Raw, api: str, kind: str, source: str) -> None:
        """Receive an object of this kind; `api` is its apiVersion, and both are empty if it does not state them."""


def is_record(kind: str, api: str) -> bool:
    """Whether objects of this kind become records. `api` is their apiVersion, or empty: other APIs have a Node too."""
    known = _APIS.get(kind)
    return known is not None and known == (api.partition("/")[0] or known)


def read_objects(paths: Sequence[str], stdin: BinaryIO) -> Objects:
    """Read all objects of these files; `-` is the standard input.

    Raises WhyError for a file that cannot be read, or in which nothing is JSON or YAML, and if all are empty.
    """
    objects = Objects()
    read_into(objects, paths, stdin)
    return objects


def read_into(sink: DumpSink, paths: Sequence[str], stdin: BinaryIO) -> None:
    """Pass all objects of these files to the sink. Raises WhyError as `read_objects` does."""
    count = 0
    for path in paths:
        with _contents(path, stdin) as contents:
            count += _read(contents, _name(path), sink)
    if not count:
        raise WhyError(f"nothing is in {' and '.join(map(_name, paths))}. {_EXPECTED}")


def _name(path: str) -> str:
    return "standard input" if path == "-" else path


@contextmanager
def _contents(path: str, stdin: BinaryIO) -> Iterator[memoryview]:
    if path == "-":
        yield memoryview(stdin.read())
        return
    try:
        with Path(path).open("rb") as file:
            status = fstat(file.fileno())
            mappable = S_ISREG(status.st_mode) and status.st_size
            yield memoryview(mmap(file.fileno(), 0, access=ACCESS_READ) if mappable else file.read())
    except OSError as error:
        raise WhyError(f"cannot read {path}: {error.strerror}") from error


def _read(contents: memoryview, source: str, sink: DumpSink) -> int:
    """Add what the file holds, and return how many documents it has."""
    if bytes(contents[: len(_GZIP)]) == _GZIP:
        raise WhyError(f"{source} is compressed: pass what `gunzip -c` makes of it. {_EXPECTED}")
    count = 0
    faults = []
    for document in documents(contents):
        if isinstance(document, Unreadable):
            faults.append(f"{source}, line {document.line}: {document.problem}")
            continue
        if document.envelope.kind == "Status":
            faults.append(f"{source}: the API server's answer instead of objects: {_message(document)}")
            continue
        count += 1
        try:
            _add_document(document, source, sink)
        except RecursionError:
            faults.append(f"{source}: {TOO_DEEP}")
    if faults and not count:
        raise WhyError(f"{faults[0]}. {_EXPECTED}")
    sink.faults += faults
    return count


def _message(status: Document) -> str:
    """Return what a Status says."""
    try:
        return _STATUS.decode(status.text).message or "no message"
    except msgspec.ValidationError:
        return "no message"


def _add_document(document: Document, source: str, sink: DumpSink) -> None:
    api, kind, items = document.envelope.api_version or "", document.envelope.kind or "", document.envelope.items
    if items is UNSET or not kind.endswith("List"):
        sink.take(bytes(document.text), api, kind, source)
        return
    for item in items or ():
        _add_item(item, api, kind.removesuffix("List"), source, sink)


def _add_item(item: Raw, api: str, kind: str, source: str, sink: DumpSink) -> None:
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
