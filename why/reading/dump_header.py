"""What `why dump` says of itself: what it read and what not. Without it, a kind that is missing was not dumped."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Raw, Struct

from why.report.report import API_VERSION, Skipped

KIND: Final = "WhyDump"


class DumpHeader(Struct, frozen=True, rename="camel"):
    """`read` are resources of which the dump has every object, of one `namespace` or of all, at the time `at`."""

    namespace: str
    at: datetime
    read: tuple[str, ...]
    skipped: tuple[Skipped, ...] = ()
    api_version: str = API_VERSION
    kind: str = KIND


_DECODER: Final = msgspec.json.Decoder(DumpHeader)


def is_header(kind: str, api: str) -> bool:
    return kind == KIND and api == API_VERSION


def header_of(raw: bytes | Raw) -> DumpHeader:
    """Return the header. Raises MsgspecError."""
    return _DECODER.decode(raw)


def joined(headers: Sequence[DumpHeader]) -> DumpHeader:
    """Return what several dumps together are: complete in what each of them is."""
    skipped = {each.resource: each for header in headers for each in header.skipped}
    read = frozenset.intersection(*(frozenset(header.read) for header in headers)) - skipped.keys()
    namespaces = {header.namespace for header in headers}
    return DumpHeader(
        namespaces.pop() if len(namespaces) == 1 else "",
        max(header.at for header in headers),
        tuple(sorted(read)),
        tuple(skipped.values()),
    )
