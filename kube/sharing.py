"""One object for equal values: a cluster repeats the same few labels, modes and affinities a hundred thousand times.

The pools are bounded and only save memory: when one is full it is emptied, and what was shared stays shared.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, Generic, TypeVar

from msgspec import UNSET

from kube.model import Pairs
from kube.wire import RawPart

POOL_SIZE: Final = 32_768
_LONGEST_SHARED_PART: Final = 4096

T = TypeVar("T", bound=Hashable)
V = TypeVar("V")


class Pool:
    """Hands out the first of all equal values it has seen."""

    def __init__(self, size: int = POOL_SIZE) -> None:
        self._size = size
        self._seen: dict[Hashable, object] = {}

    def share(self, value: T) -> T:
        seen = self._seen.setdefault(value, value)
        if len(self._seen) > self._size:
            self._seen.clear()
        return seen  # type: ignore[return-value]


class DecodedParts(Generic[V]):
    """Decodes a raw part of an object once for all objects that carry the very same bytes."""

    def __init__(self, decode: Callable[[bytes], V], size: int = POOL_SIZE) -> None:
        self._decode = decode
        self._size = size
        self._seen: dict[bytes, V] = {}

    def of(self, raw: RawPart) -> V | None:
        """Return the decoded part, or None when it is absent or null."""
        if raw is UNSET:
            return None
        text = bytes(raw)
        if text in self._seen:
            return self._seen[text]
        if text == b"null":
            return None
        part = self._decode(text)
        if len(text) <= _LONGEST_SHARED_PART:
            if len(self._seen) >= self._size:
                self._seen.clear()
            self._seen[text] = part
        return part


_POOL: Final = Pool()


def text(value: str | None) -> str:
    """Return the one shared copy of a text; null is the empty text."""
    return sys.intern(value) if value else ""


def texts(values: Iterable[str] | None) -> tuple[str, ...]:
    """Return a shared tuple."""
    return _POOL.share(tuple(values)) if values else ()


def pairs(mapping: Mapping[str, str | None] | None) -> Pairs:
    """Return labels as a shared tuple sorted by key."""
    if not mapping:
        return ()
    return _POOL.share(tuple((sys.intern(key), sys.intern(mapping[key] or "")) for key in sorted(mapping)))


def shared(value: T) -> T:
    """Return the one shared copy of any other hashable value."""
    return _POOL.share(value)
