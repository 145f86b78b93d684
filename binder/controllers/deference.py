"""When a pod may be touched that others may be working on: its scheduler, or the PV controller.

A write of ours makes a concurrent write of theirs fail, and leaves a pod with several claims half bound.
"""

from itertools import islice
from typing import Final

from binder.model.decision import Finish, Reserve
from binder.planning.commitment import scheduler_may_serve
from binder.planning.pod_claims import begun
from kube.clock import Elapsed
from kube.objects.model import Pod
from kube.store.store import Store

HINT_AFTER: Final = 5.0
"""Seconds after which a pod that its scheduler may be working on gets its hint.

A hint changes the volume, so that a concurrent write of kube-scheduler fails, and a pod with several claims may be left
with only some of them bound (volumebinding bindAPIUpdate). While a scheduler is active for any pod, others may only be
waiting for their turn in its queue.
"""
HINT_AT_LATEST: Final = 30.0
"""Seconds after which a pod gets its hint however busy schedulers are, unless a bind of its own is in progress."""
COMMIT_AFTER: Final = 5.0
"""Seconds for which schedulers must have begun no bind before volumes are committed to a pod reported as unschedulable,
and for which a pod with several claims must have been servable.

What makes it possible to serve the pod (a new volume, a claim that its scheduler had not seen yet) makes kube-scheduler
try it and others again. It commits volumes claim by claim, and keeps what it committed before it lost one to us.
"""
COMMIT_AT_LATEST: Final = 30.0
"""Seconds after which volumes are committed to such a pod however busy schedulers are."""
MAX_PODS_LEFT_TO_PV_CONTROLLER: Final = 3
"""Pods: the one that it is working on, and those that it takes next before we have seen that it is done."""
FINISH_AFTER: Final = 2.0
"""Seconds without progress after which we finish binds: the PV controller is stuck, or busy with something else."""
FINISH_AT_LATEST: Final = 10.0
"""Seconds after which we finish a pod's binds however busy the PV controller is with others."""


class Deference:
    """How long a pod is left to its scheduler or the PV controller.

    | the pod | what is planned for it | it is left to | until |
    |---|---|---|---|
    | its scheduler may serve it | a hint | its scheduler | no bind was begun for HINT_AFTER, or HINT_AT_LATEST |
    | has our scheduling gate | a commitment | no scheduler: none considers it | at once |
    | was reported as unschedulable | a commitment | its scheduler | the same with COMMIT_*, since it could be served |
    | has a bind that another writer began | to finish it | the PV controller | FINISH_*, and only the oldest few pods |
    """

    def __init__(self, store: Store, clock: Elapsed) -> None:
        self._store = store
        self._clock = clock
        self._scheduler_active = float("-inf")
        """When a scheduler was last seen to begin a bind, of any pod."""
        self._hint_due_since: dict[str, float] = {}
        self._servable_since: dict[str, float] = {}
        self._head_start = HeadStart(clock)

    def seconds_left(self, pod: Pod, decision: Reserve | Finish | None = None) -> float:
        """Return how long the pod is still left to others; with a decision, before it is executed."""
        if isinstance(decision, Finish):
            return self._head_start.seconds_left(pod.key)
        if decision is None or pod.scheduling_gates or scheduler_may_serve(pod):
            return self._seconds_to_hint(pod)
        now = self._clock.monotonic()
        since = self._servable_since.setdefault(pod.key, now)
        quiet_since = self._scheduler_active
        if len(decision.placements) > 1:
            quiet_since = max(since, quiet_since)
        return min(quiet_since + COMMIT_AFTER, since + COMMIT_AT_LATEST) - now

    def bind_begun(self, pod: Pod) -> None:
        """Note that a bind of the pod was begun: by its scheduler, unless the pod has a gate."""
        self._seconds_to_hint(pod)
        self._head_start.noticed(pod.key)
        if not pod.scheduling_gates:
            self._scheduler_active = self._clock.monotonic()

    def taken_over(self, pod_key: str) -> None:
        """The pod's binds are ours to finish, or not needed."""
        self._head_start.forget(pod_key)

    def not_servable(self, pod_key: str) -> None:
        """The pod cannot be served now: its scheduler gets its time again when it can."""
        self._servable_since.pop(pod_key, None)

    def done(self, pod_key: str) -> None:
        """The pod lacks no volume, or is gone."""
        self._head_start.finished(pod_key)
        self._hint_due_since.pop(pod_key, None)
        self._servable_since.pop(pod_key, None)

    def _seconds_to_hint(self, pod: Pod) -> float:
        if not scheduler_may_serve(pod):
            return 0.0
        now = self._clock.monotonic()
        if begun(pod, self._store.snapshot()):
            self._hint_due_since[pod.key] = self._scheduler_active = now
        since = self._hint_due_since.setdefault(pod.key, now)
        return min(max(since, self._scheduler_active) + HINT_AFTER, since + HINT_AT_LATEST) - now


class HeadStart:
    """Pods with a bind that another writer began, oldest first, until it is finished or we take over.

    The PV controller takes claims in the order in which their volumes named them, one at a time, and each of its writes
    waits for one of its 20 requests a second. Another writer that finishes the claim it is working on makes its write
    fail: one request of its own is lost, and one more of ours. So the oldest binds are left to it for a while, and we
    finish the others behind them, which it then finds done.
    """

    def __init__(self, clock: Elapsed) -> None:
        self._clock = clock
        self._begun: dict[str, float] = {}
        self._last_finished = float("-inf")

    def noticed(self, pod_key: str) -> None:
        """A bind of the pod was begun."""
        self._begun.setdefault(pod_key, self._clock.monotonic())

    def seconds_left(self, pod_key: str) -> float:
        """Return how long the pod's binds are still left to the PV controller; from 0.0 on we finish them."""
        since = self._begun.get(pod_key)
        if since is None or pod_key not in islice(self._begun, MAX_PODS_LEFT_TO_PV_CONTROLLER):
            return 0.0
        until = min(max(since, self._last_finished) + FINISH_AFTER, since + FINISH_AT_LATEST)
        return max(0.0, until - self._clock.monotonic())

    def finished(self, pod_key: str) -> None:
        """The binds are finished by another writer, or not needed any more."""
        if self._begun.pop(pod_key, None) is not None:
            self._last_finished = self._clock.monotonic()

    def forget(self, pod_key: str) -> None:
        """The binds are taken over, or not ours."""
        self._begun.pop(pod_key, None)
