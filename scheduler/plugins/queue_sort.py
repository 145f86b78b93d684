"""In what order pods are scheduled: the more important first, then the older.

Source: pkg/scheduler/framework/plugins/queuesort/priority_sort.go, with the pod's creation for the time it entered the
queue, so that the order does not depend on when we were started.
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
