"""The changes that arrived while pods were in progress, so that a pod that is then rejected misses none.

As the in-flight events of pkg/scheduler/backend/queue/active_queue.go.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from scheduler.framework.cluster_event import ClusterEvent

MAX_EVENTS: Final = 10_000
"""Changes kept. If a pod was in progress for longer, one of those dropped is assumed to help it."""


class InFlightEvents:
    """Keeps changes from the moment the pod longest in progress was begun."""

    def __init__(self, longest: int = MAX_EVENTS) -> None:
        self._longest = longest
        self._changes: deque[ClusterEvent] = deque()
        self._first = 0
        self._begun: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, change: ClusterEvent) -> None:
        """Record a change, if any pod is in progress."""
        if self._begun:
            self._changes.append(change)
            if len(self._changes) > self._longest:
                self._drop(1)

    def begin(self, pod_key: str) -> None:
        """The pod is in progress from now on."""
        self._begun[pod_key] = self._first + len(self._changes)

    def since(self, pod_key: str) -> Sequence[ClusterEvent] | None:
        """Return what arrived since the pod was begun; None if that is not known any more."""
        begun = self._begun.get(pod_key)
        if begun is None or begun < self._first:
            return None
        return tuple(islice(self._changes, begun - self._first, None))

    def end(self, pod_key: str) -> None:
        """The pod is not in progress any more."""
        self._begun.pop(pod_key, None)
        # Pods are stored in the order in which they were begun.
        oldest = next(iter(self._begun.values()), self._first + len(self._changes))
        self._drop(oldest - self._first)

    def forget(self) -> None:
        """Behave as if changes had been dropped: every pod in progress is assumed to be helped."""
        self._first += len(self._changes) + 1
        self._changes.clear()

    def _drop(self, changes: int) -> None:
        for _ in range(changes):
            self._changes.popleft()
        self._first += max(0, changes)
