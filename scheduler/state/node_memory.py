"""What was worked out for a node, kept until the node changes.

A placed pod changes one node of thousands, and pods of one template ask the same question of all of them. A node's
state is a frozen value, so an answer holds for as long as the state is the same object.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

from scheduler.state.node_info import NodeInfo

T = TypeVar("T")

MOST_QUESTIONS: Final = 64
"""Questions that are remembered at once, each with an answer per node; beyond it all are forgotten."""


class NodeMemory(Generic[T]):
    """Answers to questions about nodes. Purely a memory: what comes out does not depend on it."""

    def __init__(self) -> None:
        self._known: dict[Hashable, list[tuple[NodeInfo | None, T | None]]] = {}

    def answers(self, question: Hashable, nodes: Sequence[NodeInfo], work_out: Callable[[NodeInfo], T]) -> list[T]:
        """Return the answer for each node. Equal questions must come with functions that answer alike."""
        known = self._room(question, max((node.number for node in nodes), default=-1) + 1)

        def renewed(node: NodeInfo) -> T:
            answer = work_out(node)
            known[node.number] = node, answer
            return answer

        # The answer beside the very same state is there: only where none is does it stand beside None.
        return [
            kept[1] if (kept := known[node.number])[0] is node else renewed(node)  # type: ignore[misc]
            for node in nodes
        ]

    def _room(self, question: Hashable, size: int) -> list[tuple[NodeInfo | None, T | None]]:
        known = self._known.get(question)
        if known is None:
            if len(self._known) >= MOST_QUESTIONS:
                self._known.clear()
            known = self._known[question] = []
        if len(known) < size:
            known.extend([(None, None)] * (size - len(known)))
        return known
