"""The order in which nodes are evaluated where no results are cached for a pod's template: the most promising first.

A node promises the total of its scores for a pod that requests nothing. That is the same for all templates, so it is
computed once for each change of the node. Nodes of different sizes take turns, because a large pod may leave more on a
large node that is half full than on a small one that is empty.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, compress, zip_longest
from operator import is_not
from typing import Final

from scheduler.state.node_info import NodeInfo

_Size = tuple[tuple[str, int], ...]
"""The resources of a node, each to the next power of two."""

_Entry = tuple[int, int]
"""The promise, negated so that the best comes first, and the number of the node."""

_FEW: Final = 128
"""Changed nodes that are moved individually; of more than these, all are sorted again."""


class PromisingNodes:
    """All nodes of a view, ordered by what they promise. It determines where to look first, never what is chosen."""

    def __init__(self) -> None:
        self._states: list[NodeInfo | None] = []
        self._sizes: list[_Size] = []
        self._entries: list[_Entry] = []
        self._orders: dict[_Size, list[_Entry]] = {}

    def update(self, nodes: Sequence[NodeInfo], promises: Callable[[Sequence[NodeInfo]], Sequence[int]]) -> None:
        """Take the nodes of the present view. `promises` is evaluated for those that have changed."""
        if len(self._states) != len(nodes):
            self._states = [None] * len(nodes)
            self._sizes, self._entries, self._orders = [()] * len(nodes), [(0, 0)] * len(nodes), {}
        changed = list(compress(nodes, map(is_not, nodes, self._states)))
        if not changed:
            return
        if len(changed) <= _FEW:
            self._move(changed, promises(changed))
            return
        for state, promise in zip(changed, promises(changed), strict=True):
            self._note(state, promise)
        self._orders = {}
        for size, entry in zip(self._sizes, self._entries, strict=True):
            self._orders.setdefault(size, []).append(entry)
        for order in self._orders.values():
            order.sort()

    def in_order(self, turn: int) -> Iterator[int]:
        """Yield the numbers of all nodes, those of each size in turn; among equal ones the first is that from `turn`
        on.
        """
        sizes = [_best_first(order, turn) for order in self._orders.values()]
        return (number for numbers in zip_longest(*sizes) for number in numbers if number is not None)

    def _move(self, changed: Sequence[NodeInfo], promises: Sequence[int]) -> None:
        for state, promise in zip(changed, promises, strict=True):
            if self._states[state.number] is not None:
                self._take_out(state.number)
            self._note(state, promise)
            insort(self._orders.setdefault(self._sizes[state.number], []), self._entries[state.number])

    def _note(self, state: NodeInfo, promise: int) -> None:
        before, number = self._states[state.number], state.number
        if before is None or before.node is not state.node:
            self._sizes[number] = tuple((name, amount.bit_length()) for name, amount in state.node.allocatable)
        self._states[number], self._entries[number] = state, (-promise, number)

    def _take_out(self, number: int) -> None:
        order, entry = self._orders[self._sizes[number]], self._entries[number]
        del order[bisect_left(order, entry)]
        if not order:
            del self._orders[self._sizes[number]]


def _best_first(order: Sequence[_Entry], turn: int) -> Iterator[int]:
    """Yield the numbers by falling promise, and those of equal promise from `turn` on."""
    first = 0
    while first < len(order):
        promise = order[first][0]
        end = bisect_left(order, (promise + 1, 0), first)
        middle = bisect_left(order, (promise, turn), first, end)
        for at in chain(range(middle, end), range(first, middle)):
            yield order[at][1]
        first = end
