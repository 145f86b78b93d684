"""Results per node, cached until the node changes.

A placed pod changes one node of thousands, and pods of one template ask the same of all of them. A node's state is a
frozen value, so a result holds for as long as the state is the same object.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

from scheduler.state.node_info import NodeInfo

T = TypeVar("T")

MAX_CACHE_KEYS: Final = 64
"""Keys cached at once, each with a result per node; beyond that the least recently used one is dropped."""

FEW: Final = 64
"""Results that are not worth room for those of all nodes, four times as many or more, while nothing is cached."""


class NodeMemory(Generic[T]):
    """Results about nodes, by a key of what was asked. It is only a cache: it never changes a result."""

    def __init__(self) -> None:
        self._known: dict[Hashable, list[tuple[NodeInfo | None, T | None]]] = {}

    def answers(self, cache_key: Hashable, nodes: Sequence[NodeInfo], work_out: Callable[[NodeInfo], T]) -> list[T]:
        """Return the result for each node. Equal keys must come with equivalent functions."""
        size = max((node.number for node in nodes), default=-1) + 1
        if len(nodes) <= FEW < size // 4 and cache_key not in self._known:
            return [work_out(node) for node in nodes]
        known = self._room(cache_key, size)

        def renewed(node: NodeInfo) -> T:
            answer = work_out(node)
            known[node.number] = node, answer
            return answer

        # Where the state is the very same object, its result is there: None is beside None only where there is none.
        return [
            kept[1] if (kept := known[node.number])[0] is node else renewed(node)  # type: ignore[misc]
            for node in nodes
        ]

    def _room(self, cache_key: Hashable, size: int) -> list[tuple[NodeInfo | None, T | None]]:
        # Removed and inserted again: the first one is always the least recently used.
        known = self._known.pop(cache_key, None)
        if known is None:
            while len(self._known) >= MAX_CACHE_KEYS:
                del self._known[next(iter(self._known))]
            known = []
        self._known[cache_key] = known
        if len(known) < size:
            known.extend([(None, None)] * (size - len(known)))
        return known
