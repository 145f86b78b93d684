"""Immutable maps: a change returns another map that shares nearly all of its memory with the first.

A map is a tuple of small dicts, of which a change copies one. The interface is that of `immutables.Map`, as far as we
use it.
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from itertools import chain
from typing import Any, Final, Generic, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
D = TypeVar("D")

Items = Mapping[K, V] | Iterable[tuple[K, V]]

MAX_SHARD_ENTRIES: Final = 256
"""Entries in a shard on average, beyond which there are twice as many shards. Their number is a power of two."""

_ABSENT: Final[Any] = object()


class _Shards(Generic[K, V_co]):
    """Dicts, of which the hash of a key chooses one."""

    __slots__ = ("_length", "_shards")
    _shards: Sequence[dict[K, V_co]]
    _length: int

    def __getitem__(self, key: K) -> V_co:
        shards = self._shards
        return shards[hash(key) & (len(shards) - 1)][key]

    @overload
    def get(self, key: K, /) -> V_co | None: ...
    @overload
    def get(self, key: K, /, default: V_co | D) -> V_co | D: ...
    def get(self, key: K, default: V_co | D | None = None) -> V_co | D | None:
        shards = self._shards
        return shards[hash(key) & (len(shards) - 1)].get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._shards[hash(key) & (len(self._shards) - 1)]

    def __len__(self) -> int:
        return self._length


class Map(_Shards[K, V_co], Mapping[K, V_co]):
    """An immutable map. It is equal to every mapping with the same items."""

    __slots__ = ()

    def __init__(self, items: Items[K, V_co] = ()) -> None:
        content = dict(items)
        count = 1
        while len(content) > MAX_SHARD_ENTRIES * count:
            count *= 2
        self._shards, self._length = tuple(_spread(content.items(), count)), len(content)

    @classmethod
    def _of(cls, shards: tuple[dict[K, V_co], ...], length: int) -> "Map[K, V_co]":
        made = cls.__new__(cls)
        made._shards, made._length = shards, length
        return made

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._shards)

    def values(self) -> ValuesView[V_co]:
        return _Values(self)

    def items(self) -> ItemsView[K, V_co]:
        return _Items(self)

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))

    def __eq__(self, other: object) -> bool:
        return self is other or super().__eq__(other)

    def __repr__(self) -> str:
        return f"Map({dict(self)!r})"

    def set(self, key: K, value: V_co) -> "Map[K, V_co]":  # type: ignore[misc]  # returns another map
        """Return the map with this entry; the map itself if it has the very same value."""
        return self.update(((key, value),))

    def delete(self, key: K) -> "Map[K, V_co]":
        """Return the map without a key. Raises KeyError if it is not there."""
        draft = self.mutate()
        del draft[key]
        return draft.finish()

    def update(self, items: Items[K, V_co]) -> "Map[K, V_co]":
        """Return the map with these entries."""
        draft = self.mutate()
        for key, value in items.items() if isinstance(items, Mapping) else items:
            draft[key] = value
        return draft.finish()

    def mutate(self) -> "MapMutation[K, V_co]":
        """Return a copy that can be changed until it is finished. It costs little while it is not changed."""
        return MapMutation(self)


class MapMutation(_Shards[K, V]):
    """Changes of a map that become visible together. Shards that do not change are shared with it."""

    __slots__ = ("_of", "_own")
    _shards: list[dict[K, V]]

    def __init__(self, of: Map[K, V]) -> None:
        self._of, self._length = of, len(of)
        self._shards = list(of._shards)
        self._own: set[int] = set()
        """Numbers of the shards that are no longer shared."""

    def __setitem__(self, key: K, value: V) -> None:
        if self.get(key, _ABSENT) is value:
            return
        shard = self._own_shard(key)
        self._length += key not in shard
        shard[key] = value
        if self._length > MAX_SHARD_ENTRIES * len(self._shards):
            self._double()

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        del self._own_shard(key)[key]
        self._length -= 1

    def finish(self) -> Map[K, V]:
        """Return the changed map; the map itself if nothing changed. The mutation must not be used afterwards."""
        if not self._own:
            return self._of
        return Map._of(tuple(self._shards), self._length)

    def _own_shard(self, key: K) -> dict[K, V]:
        number = hash(key) & (len(self._shards) - 1)
        if number not in self._own:
            self._shards[number] = self._shards[number].copy()
            self._own.add(number)
        return self._shards[number]

    def _double(self) -> None:
        items = chain.from_iterable(shard.items() for shard in self._shards)
        self._shards = _spread(items, 2 * len(self._shards))
        self._own = set(range(len(self._shards)))


class _Items(ItemsView[K, V]):
    _mapping: Map[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return chain.from_iterable(shard.items() for shard in self._mapping._shards)


class _Values(ValuesView[V]):
    _mapping: Map[Any, V]

    def __iter__(self) -> Iterator[V]:
        return chain.from_iterable(shard.values() for shard in self._mapping._shards)


def _spread(items: Iterable[tuple[K, V]], count: int) -> list[dict[K, V]]:
    if count == 1:
        return [dict(items)]
    shards: list[dict[K, V]] = [{} for _ in range(count)]
    for key, value in items:
        shards[hash(key) & (count - 1)][key] = value
    return shards
