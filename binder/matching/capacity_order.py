"""Volumes sorted by capacity and name, as a persistent value.

A sorted list split into chunks: a change copies one of them and the list of them, some hundred pointers among 100,000
volumes, and leaves every earlier value unchanged. Each chunk records which labels occur in it, so that a selector that
matches few volumes skips whole chunks.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Self

from kube.objects.labels import Pairs
from kube.objects.model import Volume

Entry = tuple[int, str, Volume]
"""Capacity, name and the volume. Names are unique, so comparing entries never reaches the volume."""

Selects = Callable[[Pairs], bool]
"""Whether labels match a selector."""

_CHUNK: Final = 256
"""Entries in a chunk; twice as many split it. Near the square root of the largest expected list."""


def entry_of(volume: Volume) -> Entry:
    """Return the entry of a volume. Orders that share it share the memory."""
    return (volume.capacity, volume.name, volume)


class Chunk(NamedTuple):
    """A run of entries, and the labels in it; labels of removed entries may still be among them."""

    entries: tuple[Entry, ...]
    labels: frozenset[Pairs]

    @property
    def last(self) -> tuple[int, str]:
        capacity, name, _ = self.entries[-1]
        return capacity, name


class CapacityOrder:
    """An immutable sorted sequence of volumes, each name at most once."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: tuple[Chunk, ...] = ()) -> None:
        self._chunks = chunks

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Self:
        ordered = sorted(entries)
        return cls(tuple(_chunk(ordered[start : start + _CHUNK]) for start in range(0, len(ordered), _CHUNK)))

    def __bool__(self) -> bool:
        return bool(self._chunks)

    @property
    def largest(self) -> int:
        """Capacity of the largest volume. There must be one."""
        return self._chunks[-1].last[0]

    def at_least(self, request: int, selects: Selects | None = None) -> Iterator[Entry]:
        """Yield the entries of at least this capacity whose labels are selected, smallest first."""
        start = (request, "")
        for chunk in self._chunks[self._place(start) :]:
            if selects is not None and not any(map(selects, chunk.labels)):
                continue
            entries = chunk.entries
            for entry in entries[bisect_left(entries, start) :]:
                if selects is None or selects(entry[2].labels):
                    yield entry

    def with_entry(self, entry: Entry) -> "CapacityOrder":
        """Return the order with this entry; one of the same capacity and name is replaced."""
        if not self._chunks:
            return CapacityOrder((_chunk((entry,)),))
        place = min(self._place(entry[:2]), len(self._chunks) - 1)
        entries, labels = self._chunks[place]
        at = bisect_left(entries, entry[:2])
        kept = at + 1 if at < len(entries) and entries[at][:2] == entry[:2] else at
        grown = (*entries[:at], entry, *entries[kept:])
        if len(grown) > 2 * _CHUNK:
            return self._replaced(place, _chunk(grown[:_CHUNK]), _chunk(grown[_CHUNK:]))
        added = entry[2].labels
        if added in labels:
            return self._replaced(place, Chunk(grown, labels))
        if len(labels) >= 2 * len(grown):
            # Most are of removed entries: without this, a label that keeps changing would fill the memory.
            return self._replaced(place, _chunk(grown))
        return self._replaced(place, Chunk(grown, labels | {added}))

    def without_volume(self, volume: Volume) -> "CapacityOrder":
        """Return the order without the volume of this capacity and name; the order itself if it is not there."""
        key = (volume.capacity, volume.name)
        place = self._place(key)
        if place == len(self._chunks):
            return self
        entries, labels = self._chunks[place]
        at = bisect_left(entries, key)
        if entries[at][:2] != key:
            return self
        left = (*entries[:at], *entries[at + 1 :])
        return self._replaced(place, Chunk(left, labels)) if left else self._replaced(place)

    def _place(self, key: tuple[int, str]) -> int:
        """Return which chunk holds the first entry not below the key; the number of chunks if none does."""
        return bisect_left(self._chunks, key, key=_last)

    def _replaced(self, place: int, *by: Chunk) -> "CapacityOrder":
        return CapacityOrder((*self._chunks[:place], *by, *self._chunks[place + 1 :]))


def _chunk(entries: Iterable[Entry]) -> Chunk:
    kept = tuple(entries)
    return Chunk(kept, frozenset(volume.labels for _, _, volume in kept))


def _last(chunk: Chunk) -> tuple[int, str]:
    return chunk.last
