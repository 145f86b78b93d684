"""One object for equal values: a cluster repeats the same few labels, modes and affinities a hundred thousand times.

Sharing only saves memory, so it is bounded in bytes: values written by namespace users must not outlive their objects.
A pool has two generations. When the younger one is full, the older one is dropped; values that were used in between
have moved to the younger: values that repeat stay, those used once go. Values already shared stay shared.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, Generic, TypeVar

from msgspec import UNSET

from kube.decoding.wire import RawPart
from kube.objects.labels import Pairs
from kube.objects.memory import size_of

POOL_BYTES: Final = 4 * 2**20
"""Of one generation: 5,000 local volumes, each with a node affinity of its own, are some 4 MB."""

MAX_SHARED_BYTES: Final = 32 * 2**10
"""Bytes of a value. A larger one is unlikely to repeat."""

_MAX_SHARED_PART_BYTES: Final = 4096
"""Bytes of the text that a value was decoded from."""

_MAX_NAME_CHARACTERS: Final = 256
"""Characters of a text that may be a name, which Python's own pool interns."""

T = TypeVar("T", bound=Hashable)
V = TypeVar("V")


class Generations(Generic[V]):
    """A cache of two generations, limited in bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._young: dict[Hashable, V] = {}
        self._old: dict[Hashable, V] = {}
        self._young_bytes = 0

    def get(self, key: Hashable) -> V | None:
        """Return what is kept; None if it is not."""
        kept = self._young.get(key)
        if kept is None and (kept := self._old.get(key)) is not None:
            self.keep(key, kept)
        return kept

    def keep(self, key: Hashable, value: V) -> None:
        """Keep a value, not None, unless it is large."""
        size = size_of(value) if key is value else size_of(key) + size_of(value)
        if size > MAX_SHARED_BYTES:
            return
        if self._young_bytes + size > self._most_bytes:
            self._old, self._young, self._young_bytes = self._young, {}, 0
        self._young[key] = value
        self._young_bytes += size


class Pool:
    """Returns the first of all equal values it has seen."""

    def __init__(self, most_bytes: int = POOL_BYTES) -> None:
        self._kept: Generations[Hashable] = Generations(most_bytes)

    def share(self, value: T) -> T:
        kept = self._kept.get(value)
        if kept is not None:
            return kept  # type: ignore[return-value]
        if value is not None:
            self._kept.keep(value, value)
        return value


class DecodedParts(Generic[V]):
    """Decodes a raw part of an object once for all objects that have exactly the same bytes."""

    def __init__(self, decode: Callable[[bytes], V], most_bytes: int = POOL_BYTES) -> None:
        self._decode = decode
        self._kept: Generations[V] = Generations(most_bytes)

    def of(self, raw: RawPart) -> V | None:
        """Return the decoded part, or None when it is absent or null."""
        if raw is UNSET:
            return None
        text = bytes(raw)
        part = self._kept.get(text)
        if part is None and text != b"null":
            part = self._decode(text)
            if len(text) <= _MAX_SHARED_PART_BYTES and part is not None:
                self._kept.keep(text, part)
        return part


_POOL: Final = Pool()


def _drops_interned_strings() -> bool:
    """Whether Python's own pool drops a string that is no longer used. It keeps all for ever in early releases of
    Python 3.12 (github.com/python/cpython/issues/113993), where their reference count is a constant above 2**31.
    """
    return sys.getrefcount(sys.intern("-".join(("interned", "by", __name__)))) < 2**20


_intern: Final[Callable[[str], str]] = sys.intern if _drops_interned_strings() else _POOL.share


def text(value: str | None) -> str:
    """Return the one shared copy of a text; null is the empty text."""
    return _intern(value) if value else ""


def _name(value: str) -> str:
    return _intern(value) if len(value) <= _MAX_NAME_CHARACTERS else value


def texts(values: Iterable[str] | None) -> tuple[str, ...]:
    """Return a shared tuple."""
    return _POOL.share(tuple(values)) if values else ()


def pairs(mapping: Mapping[str, str | None] | None) -> Pairs:
    """Return labels as a shared tuple sorted by key."""
    if not mapping:
        return ()
    return _POOL.share(tuple((_intern(key), _name(mapping[key] or "")) for key in sorted(mapping)))


def shared(value: T) -> T:
    """Return the one shared copy of any other hashable value."""
    return _POOL.share(value)
