"""The objects of one kind as one persistent map, its indexes, and its listeners.

Changes arrive from three sources that may overtake each other: a list, a watch, and the responses to single requests.
Versions order them, also across deletions and recreated objects: the API server gives every change of a kind, a
deletion included, a larger version than all before it. So lists and watch together are complete up to a certain
version, and a direct response matters only if it is newer than that. Persistent maps let a reader keep the state of one
moment at no cost.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from math import inf
from typing import Final, Generic, Protocol, TypeVar

from kube.objects.model import Record, record_key
from kube.persistent_map import Map
from kube.store.index import Change

T = TypeVar("T", bound=Record)
U_contra = TypeVar("U_contra", bound=Record, contravariant=True)

STEP: Final = 1_000
"""Objects taken from a list in one step: about 5 ms."""

Listener = Callable[[T | None, T | None], None]
"""Called with (old, new) after the change is visible; None means absent."""


class Follower(Protocol[U_contra]):
    """Keeps something in sync with a collection (kube.store.index.Index)."""

    def update(self, changes: Iterable[Change[U_contra]], /) -> None:
        """Apply changes of objects."""


class Collection(Generic[T]):
    """Holds the objects of one kind by key.

    `version` is the version up to which lists and watch have been applied: `items` shows every change up to it, and of
    later ones those seen in direct responses. An object that is not held did not exist at `version`.
    """

    def __init__(self, indexes: Sequence[Follower[T]] = (), on_change: Callable[[], None] = lambda: None) -> None:
        self.items: Map[str, T] = Map()
        self.version = 0
        self.listeners: list[Listener[T]] = []
        self._witnesses: list[tuple[Callable[[T], None], Callable[[str | None], None]]] = []
        self._indexes = indexes
        self._on_change = on_change

    @contextmanager
    def listening(self, listener: Listener[T]) -> Iterator[None]:
        """Call the listener on each change while inside the context."""
        self.listeners.append(listener)
        try:
            yield
        finally:
            self.listeners.remove(listener)

    @contextmanager
    def witnessed(self, saw: Callable[[T], None], missed: Callable[[str | None], None]) -> Iterator[None]:
        """Call `saw` with every object in an event of the watch while inside the context, shown or overtaken already.

        `missed` is called with the key of an object that is gone or cannot be read, and with None when a new list
        begins: then events of any object may have been missed.
        """
        witness = (saw, missed)
        self._witnesses.append(witness)
        try:
            yield
        finally:
            self._witnesses.remove(witness)

    def replace(self, items: Iterable[T], resource_version: str) -> None:
        """Replace the content by a complete list: it overrides everything that is held, except what is newer than the
        list.
        """
        for _ in self.replace_in_steps(items, resource_version):
            pass

    def replace_in_steps(self, items: Iterable[T], resource_version: str) -> Iterator[None]:
        """Like `replace`, but pause between steps, so that a large list does not block everything else."""
        for _, missed in self._witnesses:
            missed(None)
        version = int(resource_version) if resource_version.isdigit() else 0
        # A list older than what was shown before it comes from a server restored from a backup, and nothing is newer
        # than a list whose version is not a number: trust the list completely.
        covered = inf if not version or version < self.version else version
        self.version = version
        unlisted = set(self.items)
        rest = iter(items)
        while step := list(islice(rest, STEP)):
            if unlisted:
                unlisted.difference_update(map(record_key, step))
            self._take(step, covered)
            yield
        unlisted_keys = iter(unlisted)
        while keys := list(islice(unlisted_keys, STEP)):
            self._drop(keys, covered)
            yield

    def upsert(self, item: T) -> None:
        """Store what the watch shows, unless a direct response showed a newer version."""
        for saw, _ in self._witnesses:
            saw(item)
        self.version = max(self.version, item.resource_version)
        self._take((item,))

    def remember(self, item: T, as_of: int = 0) -> None:
        """Store the response to a single read or write, which may be late.

        `as_of` is the collection's version when a read was sent: the response is not older than that. An object that is
        not held, and was not changed since `version`, is stored only if nothing else was shown in the meantime, since
        that may have been its deletion.
        """
        if item.resource_version > self.version or as_of >= self.version or record_key(item) in self.items:
            self._take((item,))

    def forget(self, key: str, version: int) -> None:
        """Drop an object that did not exist at that version according to a direct response."""
        self._drop((key,), version)

    def delete(self, key: str, version: int = 0) -> None:
        """Apply a deletion from the watch: the object did not exist at that version; a newer one of its name stays.

        0 means that the version is not known: whatever is held is dropped.
        """
        for _, missed in self._witnesses:
            missed(key)
        held = self.items.get(key)
        self.version = max(self.version, version or (held.resource_version if held is not None else 0))
        self._drop((key,), version or inf)

    def _take(self, items: Sequence[T], covered: float = -1) -> None:
        """Store what is newer than the held object, or overrides it: `covered` is the version up to which items do."""
        changes: list[Change[T]] = []
        mutation = self.items.mutate()
        for item in items:
            key = record_key(item)
            held = mutation.get(key)
            if held is None or (
                item != held and (item.resource_version >= held.resource_version or held.resource_version <= covered)
            ):
                mutation[key] = item
                changes.append((key, held, item))
        self.items = mutation.finish()
        self._changed(changes)

    def _drop(self, keys: Sequence[str], covered: float) -> None:
        """Drop the objects held under these keys, unless they are newer than the version `covered`."""
        changes: list[Change[T]] = []
        mutation = self.items.mutate()
        for key in keys:
            held = mutation.get(key)
            if held is not None and held.resource_version <= covered:
                del mutation[key]
                changes.append((key, held, None))
        self.items = mutation.finish()
        self._changed(changes)

    def _changed(self, changes: Sequence[Change[T]]) -> None:
        if not changes:
            return
        for index in self._indexes:
            index.update(changes)
        self._on_change()
        for _, old, new in changes:
            for listener in self.listeners:
                listener(old, new)
