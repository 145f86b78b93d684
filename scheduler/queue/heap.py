"""A priority queue whose ranks may change: a heap from which items can be removed anywhere."""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Generic, Protocol, TypeVar


class Comparable(Protocol):
    """A value with an order."""

    def __lt__(self, other: Any, /) -> bool: ...


R = TypeVar("R", bound=Comparable)
T = TypeVar("T", bound=Hashable)

_SLACK = 64
"""Outdated entries that are not worth removing."""


class Heap(Generic[R, T]):
    """Each item once, the smallest rank first; of equal ranks the one that was inserted first.

    Insertion and removal cost the logarithm of the size: a removed item stays in the heap until it comes up, or until
    half of the heap consists of such items.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[R, int, T]] = []
        self._places: dict[T, tuple[R, int]] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, item: T) -> bool:
        return item in self._places

    def put(self, item: T, rank: R) -> None:
        """Insert an item, or change its rank. If the rank stays, the item keeps its place among equals."""
        held = self._places.get(item)
        if held is not None and held[0] == rank:
            return
        place = self._places[item] = (rank, next(self._numbers))
        heappush(self._heap, (*place, item))

    def discard(self, item: T) -> None:
        """Remove an item, if it is present."""
        self._places.pop(item, None)
        if len(self._heap) > 2 * len(self._places) + _SLACK:
            self._heap = [(*place, kept) for kept, place in self._places.items()]
            heapify(self._heap)

    def first(self) -> tuple[R, T] | None:
        """Return the smallest rank and its item; None if empty."""
        while self._heap:
            rank, number, item = self._heap[0]
            if self._places.get(item) == (rank, number):
                return rank, item
            heappop(self._heap)
        return None
