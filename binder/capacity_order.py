"""Volumes sorted by capacity and name, as a persistent value.

A sorted list cut into short tuples: a change copies one of them and the list of them, some hundred pointers among
100,000 volumes, and leaves every earlier value as it was.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, Self

from kube.model import Volume

Entry = tuple[int, str, Volume]
"""Capacity, name and the volume. Names are unique, so comparing entries never reaches the volume."""

_CHUNK: Final = 256
"""Entries in a chunk; twice as many split it. Near the square root of the largest list we plan for."""


def entry_of(volume: Volume) -> Entry:
    """Return what a volume is sorted by, with the volume."""
    return (volume.capacity, volume.name, volume)


class CapacityOrder:
    """An immutable sorted sequence of volumes, each name at most once."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: tuple[tuple[Entry, ...], ...] = ()) -> None:
        self._chunks = chunks

    @classmethod
    def of(cls, volumes: Iterable[Volume]) -> Self:
        entries = sorted(map(entry_of, volumes))
        return cls(tuple(tuple(entries[start : start + _CHUNK]) for start in range(0, len(entries), _CHUNK)))

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __iter__(self) -> Iterator[Entry]:
        for chunk in self._chunks:
            yield from chunk

    @property
    def largest(self) -> int:
        """Capacity of the largest volume. There must be one."""
        return self._chunks[-1][-1][0]

    def at_least(self, request: int) -> Iterator[Entry]:
        """Yield the entries of at least this capacity, smallest first."""
        chunks = self._chunks
        place = self._chunk_for((request, ""))
        if place == len(chunks):
            return
        first = chunks[place]
        yield from first[bisect_left(first, (request, "")) :]
        for chunk in chunks[place + 1 :]:
            yield from chunk

    def with_volume(self, volume: Volume) -> "CapacityOrder":
        """Return the order with this volume; one of the same capacity and name is replaced."""
        entry = entry_of(volume)
        if not self._chunks:
            return CapacityOrder(((entry,),))
        place = min(self._chunk_for(entry[:2]), len(self._chunks) - 1)
        chunk = self._chunks[place]
        at = bisect_left(chunk, entry[:2])
        kept = at + 1 if at < len(chunk) and chunk[at][:2] == entry[:2] else at
        grown = (*chunk[:at], entry, *chunk[kept:])
        if len(grown) <= 2 * _CHUNK:
            return self._replaced(place, (grown,))
        return self._replaced(place, (grown[:_CHUNK], grown[_CHUNK:]))

    def without_volume(self, volume: Volume) -> "CapacityOrder":
        """Return the order without the volume of this capacity and name; without it already, the order itself."""
        key = (volume.capacity, volume.name)
        place = self._chunk_for(key)
        if place == len(self._chunks):
            return self
        chunk = self._chunks[place]
        at = bisect_left(chunk, key)
        if at == len(chunk) or chunk[at][:2] != key:
            return self
        left = (*chunk[:at], *chunk[at + 1 :])
        return self._replaced(place, (left,) if left else ())

    def _chunk_for(self, key: tuple[int, str]) -> int:
        """Return which chunk holds the first entry not below the key; the number of chunks if none does."""
        return bisect_left(self._chunks, key, key=_last_of)

    def _replaced(self, place: int, by: tuple[tuple[Entry, ...], ...]) -> "CapacityOrder":
        return CapacityOrder((*self._chunks[:place], *by, *self._chunks[place + 1 :]))


def _last_of(chunk: tuple[Entry, ...]) -> tuple[int, str]:
    capacity, name, _ = chunk[-1]
    return capacity, name
