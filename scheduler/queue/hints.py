"""Which change in the cluster may help which rejected pod, by the hints of the plugins that rejected it."""

from typing import Final, TypeAlias

from kube.objects.model import Claim, Pod
from kube.rules.disruption import DisruptionBudget
from scheduler.framework.cluster_event import ClusterEvent, Wanted
from scheduler.framework.queueing_hint import ANYTHING_HELPS, QueueingHint, any_change_of

Hints: TypeAlias = frozenset[QueueingHint]
"""Those of the plugins that rejected a pod; none: any change may help."""

EVICTION: Final = any_change_of(DisruptionBudget)
"""One of a pod's hints if disruption budgets kept it from preempting others."""

_ANY: Final[Hints] = frozenset({ANYTHING_HELPS})


def may_help(pod: Pod, hints: Hints, change: ClusterEvent, wanted: Wanted | None = None) -> bool:
    """Whether a rejected pod may fit a node now."""
    if not change.concerns(pod):
        return False
    subject = change.old if change.new is None else change.new
    if isinstance(subject, Claim) and by_claims(hints) and subject.key in pod.claim_keys:
        return True
    return any(hint.concerns(change.kind) and hint.helps(pod, change, wanted) for hint in effective(hints))


def effective(hints: Hints) -> Hints:
    """Return the hints to evaluate: at least one."""
    return hints or _ANY


def by_claims(hints: Hints) -> bool:
    """Whether any change of one of the pod's claims may help."""
    return any(hint.claims for hint in hints)
