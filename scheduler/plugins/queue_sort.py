"""The order in which pods are scheduled: by priority, then by age.

Source: pkg/scheduler/framework/plugins/queuesort/priority_sort.go, with the pod's creation instead of the time it
entered the queue, so that the order does not depend on when the process started.
"""

from typing import Final

from kube.objects.model import Pod
from scheduler.framework.plugin import QueueSort, SortKey

_NEVER: Final = float("inf")


class PrioritySort(QueueSort):
    """Priority, then age, then name."""

    name = "PrioritySort"

    def key(self, pod: Pod) -> SortKey:
        return -pod.priority, pod.created.timestamp() if pod.created is not None else _NEVER, pod.key
