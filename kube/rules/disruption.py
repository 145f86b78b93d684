"""PodDisruptionBudgets: how many pods of an application may be evicted at this moment."""

from kube.objects.labels import LabelSelector
from kube.objects.model import Namespaced, Pod
from kube.rules.selectors import matches_labels


class DisruptionBudget(Namespaced, frozen=True, gc=False):
    """A PodDisruptionBudget. `allowed` is how many evictions its status permits, 0 while that status is out of date.

    A selector of None selects no pod, an empty one every pod of the namespace.
    """

    selector: LabelSelector | None = None
    allowed: int = 0

    def covers(self, pod: Pod) -> bool:
        """Whether an eviction of the pod counts against this budget (pkg/registry/core/pod/storage/eviction.go)."""
        if self.selector is None or pod.namespace != self.namespace:
            return False
        return matches_labels(self.selector, pod.labels)
