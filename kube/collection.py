"""The objects of one kind as one persistent map, its indexes, and who wants to hear of changes.

Changes arrive from three sides that may overtake each other: a list, a watch, and the responses to our own writes.
Versions decide: nothing older than what is held is taken, and an object that was deleted does not come back from a
response that was under way. Persistent maps let a reader keep the state of one moment at no cost.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, Generic, TypeVar

from immutables import Map

from kube.index import Change, Index
from kube.model import Record, record_key

T = TypeVar("T", bound=Record)

STEP: Final = 1_000
"""Objects taken from a list in one step: about 5 ms."""

TOMBSTONES: Final = 4_096
"""Deletions remembered. A response to a write is late by seconds, not by so many deletions."""

Listener = Callable[[T | None, T | None], None]
"""Called with (old, new) after the change can be seen; None is absence."""


class Collection(Generic[T]):
    """Holds the objects of one kind by key. `synced` says whether a whole list has been taken yet."""

    def __init__(self, indexes: Sequence[Index[T]] = (), on_change: Callable[[], None] = lambda: None) -> None:
        self.items: Map[str, T] = Map()
        self.synced = False
        self.listeners: list[Listener[T]] = []
        self._indexes = indexes
        self._on_change = on_change
        self._list_version = 0
        self._tombstones: dict[str, int] = {}

    def replace(self, items: Iterable[T], resource_version: str) -> None:
        """Take a whole list: what is not in it does not exist, unless it is newer than the list."""
        for _ in self.replace_in_steps(items, resource_version):
            pass

    def replace_in_steps(self, items: Iterable[T], resource_version: str) -> Iterator[None]:
        """Do as `replace`, and stop between any two steps, so that a large list does not hold up everything else."""
        version = int(resource_version) if resource_version.isdigit() else 0
        # A list older than the last one comes from a server that was restored from a backup: believe all of it.
        restored = version < self._list_version
        self._list_version = version
        if restored:
            self._tombstones.clear()
        unlisted = set(self.items)
        rest = iter(items)
        while step := list(islice(rest, STEP)):
            if unlisted:
                unlisted.difference_update(map(record_key, step))
            self._take(step, believe=restored)
            yield
        unlisted_keys = iter([key for key in unlisted if restored or self._is_covered(key, version)])
        while keys := list(islice(unlisted_keys, STEP)):
            self._drop(keys, version)
            yield
        self.synced = True

    def _is_covered(self, key: str, version: int) -> bool:
        """Whether a list of that version would show the object if it existed. A version that is no number is newest."""
        held = self.items.get(key)
        return held is None or not version or held.resource_version <= version

    def upsert(self, item: T) -> None:
        """Take one object, unless a newer one is held or it has been deleted since."""
        self._take((item,))

    def remember(self, item: T) -> None:
        """Take the response to a write of ours: what is held is never older than what we wrote."""
        self._take((item,))

    def delete(self, key: str) -> None:
        """Drop one object."""
        self._drop((key,), 0)

    def _take(self, items: Sequence[T], *, believe: bool = False) -> None:
        changes: list[Change[T]] = []
        mutation = self.items.mutate()
        for item in items:
            key = record_key(item)
            held = mutation.get(key)
            if item != held if believe else self._is_news(held, item):
                mutation[key] = item
                changes.append((key, held, item))
                if held is not None and held.uid != item.uid:
                    self._bury(held, held.resource_version)
        self.items = mutation.finish()
        self._changed(changes)

    def _is_news(self, held: T | None, item: T) -> bool:
        if held is None:
            return item.resource_version > self._tombstones.get(item.uid, -1)
        if item.resource_version == held.resource_version:
            return item != held
        return item.resource_version > held.resource_version

    def _drop(self, keys: Sequence[str], version: int) -> None:
        changes: list[Change[T]] = []
        mutation = self.items.mutate()
        for key in keys:
            held = mutation.pop(key, None)
            if held is not None:
                changes.append((key, held, None))
                self._bury(held, max(held.resource_version, version))
        self.items = mutation.finish()
        self._changed(changes)

    def _bury(self, item: T, version: int) -> None:
        """Remember that this object, by uid, was gone at that version."""
        if item.uid:
            self._tombstones.pop(item.uid, None)
            self._tombstones[item.uid] = version
        while len(self._tombstones) > TOMBSTONES:
            del self._tombstones[next(iter(self._tombstones))]

    def _changed(self, changes: Sequence[Change[T]]) -> None:
        if not changes:
            return
        for index in self._indexes:
            index.update(changes)
        self._on_change()
        for _, old, new in changes:
            for listener in self.listeners:
                listener(old, new)
