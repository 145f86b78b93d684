"""Leaves a few binds that kube-scheduler began to the PV controller, which is working at them already.

The PV controller takes claims in the order in which their volumes named them, one at a time, and each of its writes
waits for one of its 20 requests a second. Whoever finishes the claim that it has in hand makes its write fail: a
request of its own is lost, and one more of ours. So the oldest binds are its own for a while, and we finish the others
behind them, which it then finds done.
"""

from itertools import islice
from typing import Final

from kube.clock import Elapsed

LEFT: Final = 3
"""Pods: the one it has in hand, and those that it takes next before we have seen that it is done."""
PATIENCE: Final = 2.0
"""Seconds without any of them finished after which we finish them: it stands still, or has other things to do."""
AT_LATEST: Final = 10.0
"""Seconds after which a pod's binds are ours however busy the PV controller is with those of others."""


class HeadStart:
    """Pods with a bind that somebody else began, oldest first, until it is finished or we take it over."""

    def __init__(self, clock: Elapsed) -> None:
        self._clock = clock
        self._begun: dict[str, float] = {}
        self._finished_one = float("-inf")

    def noticed(self, pod_key: str) -> None:
        """A bind of the pod was begun."""
        self._begun.setdefault(pod_key, self._clock.monotonic())

    def seconds_left(self, pod_key: str) -> float:
        """Return how long the pod's binds are still left to the PV controller; from 0.0 on they are ours."""
        since = self._begun.get(pod_key)
        if since is None or pod_key not in islice(self._begun, LEFT):
            return 0.0
        until = min(max(since, self._finished_one) + PATIENCE, since + AT_LATEST)
        return max(0.0, until - self._clock.monotonic())

    def finished(self, pod_key: str) -> None:
        """The binds are finished by another, or nobody wants them any more."""
        if self._begun.pop(pod_key, None) is not None:
            self._finished_one = self._clock.monotonic()

    def forget(self, pod_key: str) -> None:
        """The binds are taken over, or none of ours."""
        self._begun.pop(pod_key, None)
