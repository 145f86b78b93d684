"""The pods that wait for a node: which is scheduled next, and which have to wait, and for what.

As pkg/scheduler/backend/queue, without its locks: a pod is active (scheduled as soon as its turn comes), backing off
(retried after a while), unschedulable (waits for a change that may help, 5 minutes at most), kept aside (gated or
invalid), or in progress. Pure: times are arguments, in seconds of a monotonic clock.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from binder.matching.rejection import Rejection
from kube.objects.model import Pod
from scheduler.framework.cluster_event import ClusterEvent, Wanted
from scheduler.framework.plugin import SortKey
from scheduler.queue.heap import Heap
from scheduler.queue.hints import Hints, may_help
from scheduler.queue.in_flight_events import InFlightEvents
from scheduler.queue.unschedulable_pods import UnschedulablePods
from scheduler.queue.validation import reject_pod

FIRST_BACKOFF: Final = 1.0
MAX_BACKOFF_SECONDS: Final = 10.0
MAX_UNSCHEDULABLE_SECONDS: Final = 300.0
"""Seconds after which an unschedulable pod is retried although nothing happened (podMaxInUnschedulablePodsDuration)."""

TRIED_EARLY: Final = 16
"""Pods that are taken out of their backoff at once if no other pod is waiting."""


_STATUS: Final = ("resource_version", "phase", "nominated_node", "started", "evicted", "unschedulable")
"""Fields of a pod that do not affect where it may run."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The `number`th attempt to schedule a pod, from 1; `since` is when it was first seen."""

    pod: Pod
    number: int
    since: float


class QueueState(StrEnum):
    """Where a pod is. DONE: it has a node, and is only remembered."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    INVALID = "invalid"
    IN_WORK = "in_work"
    DONE = "done"


_TAKEABLE: Final = frozenset({QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE})


@dataclass(slots=True, eq=False)
class _Waiting:
    """A pod and its history.

    `rested_at` is when it may be retried. `gone`: deleted while in progress, `successor` was recreated under its name
    meanwhile; `changed` while in progress.
    """

    pod: Pod
    since: float
    rejection: Rejection | None
    state: QueueState | None = None
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    rested_at: float = 0.0
    changed: bool = False
    gone: bool = False
    successor: "_Waiting | None" = None


class SchedulingQueue:
    """All pods of this scheduler that have no node. `key` is the order in which they are scheduled, the smallest
    first.
    """

    def __init__(self, key: Callable[[Pod], SortKey]) -> None:
        self._key = key
        self._pods: dict[str, _Waiting] = {}
        self._sizes: Counter[QueueState] = Counter()
        self._active: Heap[SortKey, str] = Heap()
        self._backoff: Heap[float, str] = Heap()
        self._timed: Heap[float, str] = Heap()
        self._rejected = UnschedulablePods()
        self._in_flight = InFlightEvents()

    def upsert(self, pod: Pod, now: float) -> Rejection | None:
        """Add or update a pod. Return the problem if it has become invalid: it is kept aside then.

        A change of its status alone is not an update.
        """
        if pod.node_name or pod.deleting or pod.finished:
            self.remove(pod.key)
            return None
        held = self._pods.get(pod.key)
        if held is not None and held.pod.uid == pod.uid:
            return self._update(held, pod, now)
        fresh = _Waiting(pod, now, reject_pod(pod))
        if held is not None and held.state is QueueState.IN_WORK:
            held.gone, held.successor = True, fresh
        else:
            self._enter(fresh, now)
        return fresh.rejection

    def remove(self, pod_key: str) -> None:
        """Drop a pod that was deleted, or has a node; one in progress is dropped when its attempt ends."""
        held = self._pods.get(pod_key)
        if held is None:
            return
        if held.state is QueueState.IN_WORK:
            held.gone, held.successor = True, None
            return
        self._move(held, None)
        del self._pods[pod_key]

    def pop(self, now: float, most: int) -> list[Attempt]:
        """Return the pods to be scheduled now, the best first. They are in progress until done, failed or retry is
        called.

        If no other pod is active, some that are backing off are retried early (SchedulerPopFromBackoffQ).
        """
        for heap in (self._backoff, self._timed):
            while (first := heap.first()) is not None and first[0] <= now:
                self._settle(self._pods[first[1]], now)
        attempts = self._first_of(self._active, most)
        return attempts or self._first_of(self._backoff, min(most, TRIED_EARLY))

    def take(self, pod_key: str) -> Attempt | None:
        """Return one pod to be scheduled now, ahead of its turn; None if it is unknown, kept aside, or in progress
        already.
        """
        held = self._pods.get(pod_key)
        if held is None or held.state not in _TAKEABLE:
            return None
        return self._begun(held)

    def done(self, attempt: Attempt) -> None:
        """The pod has a node. It is remembered until `remove`: an older event without the node may still arrive."""
        held = self._ended(attempt, attempt.since)
        if held is not None:
            self._move(held, QueueState.DONE)

    def failed(
        self,
        attempt: Attempt,
        hints: Hints,
        now: float,
        wanted: Wanted | None = None,
    ) -> None:
        """No node fits the pod: `hints` are those of the plugins that rejected one, or the pod as a whole.

        `wanted` is what it waits for (requeue.wanted_by), None if that was not looked up.
        """
        missed = self._in_flight.since(attempt.pod.key)
        held = self._ended(attempt, now)
        if held is None:
            return
        held.rejections, held.errors = held.rejections + 1, 0
        held.rested_at = now + backoff(held.rejections)
        if missed is None or held.changed or any(may_help(held.pod, hints, event, wanted) for event in missed):
            self._settle(held, now)
            return
        self._move(held, QueueState.UNSCHEDULABLE)
        self._rejected.add(held.pod, hints, wanted)
        again_in = None if wanted is None else wanted.again_in
        wait = MAX_UNSCHEDULABLE_SECONDS if again_in is None else min(again_in, MAX_UNSCHEDULABLE_SECONDS)
        self._timed.put(held.pod.key, max(held.rested_at, now + wait))

    def retry(self, attempt: Attempt, now: float) -> None:
        """The attempt failed for a reason unrelated to the pod, or another writer was faster."""
        held = self._ended(attempt, now)
        if held is not None:
            held.errors += 1
            held.rested_at = now + backoff(held.errors)
            self._settle(held, now)

    def change(self, change: ClusterEvent, now: float) -> None:
        """Apply a change in the cluster: requeue the pods that it may help, including those in progress that will be
        rejected.
        """
        self._in_flight.add(change)
        for pod_key in self._rejected.helped_by(change):
            self._settle(self._pods[pod_key], now)

    def wake(self, pod_key: str, now: float) -> None:
        """Retry a pod, if it is unschedulable, although no change could have helped it."""
        held = self._pods.get(pod_key)
        if held is not None and held.state is QueueState.UNSCHEDULABLE:
            self._settle(held, now)

    def wake_all(self, now: float) -> None:
        """The rules changed: retry every pod."""
        self._in_flight.forget()
        for pod_key in list(self._rejected):
            self._settle(self._pods[pod_key], now)

    def due_in(self, now: float) -> float | None:
        """Return in how many seconds `pop` has something; None if never, unless something happens."""
        if self._active or self._backoff:
            return 0.0
        first = self._timed.first()
        return None if first is None else max(0.0, first[0] - now)

    def sizes(self) -> Mapping[str, int]:
        """Return the number of pods in each place."""
        return {str(state): self._sizes[state] for state in QueueState if state is not QueueState.DONE}

    def get(self, pod_key: str) -> Pod | None:
        """Return the latest version of a pod that waits or is in progress; None if it is gone or has a node."""
        held = self._pods.get(pod_key)
        if held is not None and held.successor is not None:
            return held.successor.pod
        return None if held is None or held.gone or held.state is QueueState.DONE else held.pod

    def _update(self, held: _Waiting, pod: Pod, now: float) -> Rejection | None:
        news = not same_spec(held.pod, pod)
        held.pod, held.gone = pod, held.successor is not None
        if not news:
            return None
        held.rejection = reject_pod(pod)
        if held.state is QueueState.IN_WORK:
            held.changed = True
        elif held.state is not QueueState.DONE:
            self._settle(held, now)
        return held.rejection

    def _enter(self, fresh: _Waiting, now: float) -> None:
        self.remove(fresh.pod.key)
        self._pods[fresh.pod.key] = fresh
        self._settle(fresh, now)

    def _settle(self, held: _Waiting, now: float) -> None:
        """Put a pod in its place unless it is unschedulable: aside, with the active ones, or with those that back
        off.
        """
        key = held.pod.key
        if held.pod.scheduling_gates:
            self._move(held, QueueState.GATED)
        elif held.rejection is not None:
            self._move(held, QueueState.INVALID)
        elif held.rested_at <= now:
            self._move(held, QueueState.ACTIVE)
            self._active.put(key, self._key(held.pod))
        else:
            self._move(held, QueueState.BACKOFF)
            (self._timed if held.errors else self._backoff).put(key, held.rested_at)

    def _move(self, held: _Waiting, state: QueueState | None) -> None:
        """Remove a pod from wherever it is, and record its new state."""
        if held.state is not None:
            self._sizes[held.state] -= 1
        if state is not None:
            self._sizes[state] += 1
        held.state = state
        for heap in (self._active, self._backoff, self._timed):
            heap.discard(held.pod.key)
        self._rejected.discard(held.pod.key)

    def _first_of(self, heap: Heap[Any, str], most: int) -> list[Attempt]:
        attempts: list[Attempt] = []
        while len(attempts) < most and (first := heap.first()) is not None:
            attempts.append(self._begun(self._pods[first[1]]))
        return attempts

    def _begun(self, held: _Waiting) -> Attempt:
        self._move(held, QueueState.IN_WORK)
        held.changed = False
        held.attempts += 1
        self._in_flight.begin(held.pod.key)
        return Attempt(held.pod, held.attempts, held.since)

    def _ended(self, attempt: Attempt, now: float) -> _Waiting | None:
        """End a pod's attempt; None if it is gone, or if this attempt is not the one in progress."""
        held = self._pods.get(attempt.pod.key)
        ours = held is not None and held.pod.uid == attempt.pod.uid and held.attempts == attempt.number
        if held is None or not ours or held.state is not QueueState.IN_WORK:
            return None
        self._in_flight.end(attempt.pod.key)
        if not held.gone:
            return held
        self._move(held, None)
        del self._pods[attempt.pod.key]
        if held.successor is not None:
            self._enter(held.successor, now)
        return None


def backoff(times: int) -> float:
    """Return the backoff in seconds after so many failures in a row, at least one."""
    return float(min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF * 2 ** min(times - 1, 16)))


def same_spec(pod: Pod, other: Pod) -> bool:
    """Whether a pod is the same but for its version and its status."""
    status = {name: getattr(pod, name) for name in _STATUS}
    return msgspec.structs.replace(other, **status) == pod
