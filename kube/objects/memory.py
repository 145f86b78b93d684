"""Caches of pure functions, bounded in bytes.

`lru_cache` bounds the number of entries. That is no bound where namespace users write the arguments: a node selector
term of 20,000 values would keep 2 MB long after its pod is gone.
"""

import sys
from collections.abc import Callable, Hashable
from typing import TypeVar

from msgspec import Struct

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def remembered(most_bytes: int) -> Callable[[Callable[[K], V]], Callable[[K], V]]:
    """Cache a pure function of one frozen value, within so many bytes.

    When there is no room left, everything is dropped. An argument that alone exceeds the limit is never cached.
    """

    def wrap(function: Callable[[K], V]) -> Callable[[K], V]:
        # The dict's own method, so that a hit costs no more than a dict lookup: terms are evaluated once per node.
        return _Answers(function, most_bytes).__getitem__

    return wrap


class _Answers(dict[K, V]):
    def __init__(self, function: Callable[[K], V], most_bytes: int) -> None:
        self._function = function
        self._most_bytes = most_bytes
        self._bytes = 0

    def __missing__(self, key: K) -> V:
        answer = self._function(key)
        size = size_of(key) + size_of(answer)
        if size > self._most_bytes:
            return answer
        if self._bytes + size > self._most_bytes:
            self.clear()
            self._bytes = 0
        self[key] = answer
        self._bytes += size
        return answer


def size_of(value: object) -> int:
    """Return about how many bytes a value takes, including everything it holds."""
    size = sys.getsizeof(value)
    if isinstance(value, tuple | frozenset):
        return size + sum(map(size_of, value))
    if isinstance(value, dict):
        return size + sum(size_of(key) + size_of(held) for key, held in value.items())
    if isinstance(value, Struct):
        return size + sum(size_of(getattr(value, name)) for name in value.__struct_fields__)
    return size
