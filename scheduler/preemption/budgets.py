"""Which pods may be evicted together without exceeding a disruption budget.

Budgets are never exceeded here, while kube-scheduler exceeds them if nothing else helps. Pods count against them as for
the eviction API (pkg/registry/core/pod/storage/eviction.go), except that all pods count as healthy: the API lets more
unready pods be evicted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from kube.objects.model import Pod
from kube.rules.disruption import DisruptionBudget


class Budgets:
    """The disruption budgets of a moment."""

    def __init__(self, budgets: Iterable[DisruptionBudget] = ()) -> None:
        self._by_namespace: dict[str, list[DisruptionBudget]] = defaultdict(list)
        for budget in budgets:
            self._by_namespace[budget.namespace].append(budget)

    def of(self, pod: Pod) -> list[DisruptionBudget]:
        """Return the budgets that cover a pod. A pod that is being deleted is not protected any more."""
        known = self._by_namespace.get(pod.namespace)
        if known is None or pod.deleting:
            return []
        return [budget for budget in known if budget.covers(pod)]

    def never(self, pod: Pod) -> bool:
        """Whether the pod cannot be evicted now in any case: the API rejects those covered by two budgets too."""
        covering = self.of(pod)
        return len(covering) > 1 or any(budget.allowed < 1 for budget in covering)

    def beyond(self, pods: Iterable[Pod]) -> list[Pod]:
        """Return the pods that exceed a budget if all are evicted in this order."""
        if not self._by_namespace:
            return []
        taken: Counter[str] = Counter()
        exceeding = []
        for pod in pods:
            covering = self.of(pod)
            taken.update(budget.key for budget in covering)
            if len(covering) > 1 or any(taken[budget.key] > budget.allowed for budget in covering):
                exceeding.append(pod)
        return exceeding
