"""Maps a word to the keys of objects: persistent, and small where nearly every word has a single object."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from kube.objects.model import Record
from kube.persistent_map import Map, MapMutation

T = TypeVar("T", bound=Record)

Keys = tuple[str, ...]
"""Keys, sorted, each once."""

Change = tuple[str, T | None, T | None]
"""Key, old, new; None means absent."""

_Held = str | Keys
"""A single key is held without a tuple: a cluster has hundreds of thousands of them, and a tuple costs 64 bytes
each.
"""


class KeyMap(Mapping[str, Keys]):
    """An immutable map from a word to keys. A word without keys is not in it."""

    __slots__ = ("_held",)

    def __init__(self, held: Map[str, _Held] | None = None) -> None:
        self._held: Map[str, _Held] = Map() if held is None else held

    def __getitem__(self, word: str) -> Keys:
        return _keys(self._held[word])

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __eq__(self, other: object) -> bool:
        return self._held == other._held if isinstance(other, KeyMap) else dict(self) == other

    def __hash__(self) -> int:
        return hash(self._held)

    def mutate(self) -> MapMutation[str, _Held]:
        return self._held.mutate()


def _keys(held: _Held) -> Keys:
    return (held,) if isinstance(held, str) else held


class Index(Generic[T]):
    """Keeps a KeyMap in sync with a collection. `words` returns each word of an object once."""

    def __init__(self, words: Callable[[T], Keys]) -> None:
        self._words = words
        self.entries = KeyMap()

    def update(self, changes: Iterable[Change[T]]) -> None:
        """Apply changes of objects."""
        mutation = self.entries.mutate()
        for key, old, new in changes:
            before = self._words(old) if old is not None else ()
            after = self._words(new) if new is not None else ()
            if before == after:
                continue
            for word in before:
                if word not in after:
                    _hold(mutation, word, [held for held in _keys(mutation[word]) if held != key])
            for word in after:
                if word not in before:
                    _hold(mutation, word, sorted({key, *_keys(mutation.get(word, ()))}))
        self.entries = KeyMap(mutation.finish())


def updated(
    entries: Mapping[str, Keys], words: Callable[[T], Keys], changes: Iterable[Change[T]]
) -> Mapping[str, Keys]:
    """Return the entries of an index after these changes."""
    index = Index(words)
    index.entries = entries if isinstance(entries, KeyMap) else KeyMap(Map(entries))
    index.update(changes)
    return index.entries


def _hold(mutation: MapMutation[str, _Held], word: str, keys: list[str]) -> None:
    if keys:
        mutation[word] = keys[0] if len(keys) == 1 else tuple(keys)
    else:
        del mutation[word]
