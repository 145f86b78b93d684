"""Whether kube-scheduler could commit volumes to the same pod while we do.

It sees a pod when we see it. For one claim a race has one winner. With several claims each side may win some, and the
pod's volumes end up in two zones for good: kube-scheduler does not take back what it committed before it lost. So a pod
with several open claims is committed only if it waits behind our scheduling gate, or if kube-scheduler cannot serve it:
it goes by size, smallest first, without ever going back (volumebinding/binder.go, findMatchingVolumes). Any other gets
a hint, and that only when kube-scheduler has had its time (binder.reconciler).
"""

from collections.abc import Mapping, Sequence

from binder.demand import Demand
from binder.reach import Reach
from binder.reservation import carries_gate
from binder.view import View
from kube.model import Claim


def may_race(view: View, reach: Reach, demand: Demand) -> bool:
    """Whether kube-scheduler and we could divide the pod's claims between us."""
    claims = (*demand.required, *demand.optional)
    if len(claims) < 2 or carries_gate(demand.pod, view.settings.prefix):
        return False
    by_name = sorted(demand.required, key=lambda claim: claim.key)
    # Claims of equal size are taken in any order; both extremes stand for the orders between them.
    orders = [sorted(names, key=lambda claim: claim.request) for names in (by_name, by_name[::-1])]
    labels = (topology.labels for topology in reach.open_to(demand))
    return any(_greedy_serves(view, order, here) for here in labels for order in orders)


def _greedy_serves(view: View, claims: Sequence[Claim], labels: Mapping[str, str]) -> bool:
    taken: set[str] = set()
    for claim in claims:
        candidates = view.index.candidates(claim, labels)
        found = next((volume.name for volume in candidates if volume.name not in taken), None)
        if found is None:
            return False
        taken.add(found)
    return True
