"""Leaves a few binds that kube-scheduler began to the PV controller, which is already working on them.

The PV controller takes claims in the order in which their volumes named them, one at a time, and each of its writes
waits for one of its 20 requests a second. Another writer that finishes the claim it is working on makes its write fail:
one request of its own is lost, and one more of ours. So the oldest binds are left to it for a while, and we finish the
others behind them, which it then finds done.
"""

from itertools import islice
from typing import Final

from kube.clock import Elapsed

MAX_PODS_LEFT_TO_PV_CONTROLLER: Final = 3
"""Pods: the one that it is working on, and those that it takes next before we have seen that it is done."""
PATIENCE: Final = 2.0
"""Seconds without progress after which we finish them: it is stuck, or busy with something else."""
AT_LATEST: Final = 10.0
"""Seconds after which we finish a pod's binds however busy the PV controller is with others."""


class HeadStart:
    """Pods with a bind that another writer began, oldest first, until it is finished or we take over."""

    def __init__(self, clock: Elapsed) -> None:
        self._clock = clock
        self._begun: dict[str, float] = {}
        self._finished_one = float("-inf")

    def noticed(self, pod_key: str) -> None:
        """A bind of the pod was begun."""
        self._begun.setdefault(pod_key, self._clock.monotonic())

    def seconds_left(self, pod_key: str) -> float:
        """Return how long the pod's binds are still left to the PV controller; from 0.0 on we finish them."""
        since = self._begun.get(pod_key)
        if since is None or pod_key not in islice(self._begun, MAX_PODS_LEFT_TO_PV_CONTROLLER):
            return 0.0
        until = min(max(since, self._finished_one) + PATIENCE, since + AT_LATEST)
        return max(0.0, until - self._clock.monotonic())

    def finished(self, pod_key: str) -> None:
        """The binds are finished by another writer, or not needed any more."""
        if self._begun.pop(pod_key, None) is not None:
            self._finished_one = self._clock.monotonic()

    def forget(self, pod_key: str) -> None:
        """The binds are taken over, or not ours."""
        self._begun.pop(pod_key, None)
