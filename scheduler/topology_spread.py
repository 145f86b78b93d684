"""The filter of topology spread constraints that say DoNotSchedule.

Source: plugins/podtopologyspread/filtering.go and common.go. Two oddities are upstream's: pods that are being deleted
do not count, and an empty selector counts none of the others but does count the pod itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from binder.rejection import Reason, Rejection
from kube.constraints import DO_NOT_SCHEDULE, HONOR, SpreadConstraint
from kube.model import LabelSelector, Pod, value_of
from kube.selectors import matches_labels
from scheduler.cluster import ClusterView
from scheduler.neighbours import pods_text, rule_of
from scheduler.node_state import NodeState
from scheduler.plugin import NodeRule
from scheduler.volumes import PodInfo

NOTHING_ASKED: Final = LabelSelector()


@dataclass(frozen=True, slots=True)
class _Spread:
    """One constraint, counted: pods by domain, the fewest of them, and what the pod itself adds.

    `keyed` are the nodes that have the topology key, `allowed` those it leaves.
    """

    constraint: SpreadConstraint
    selector: LabelSelector | None
    counts: Mapping[str, int]
    fewest: int
    itself: int
    keyed: int
    allowed: int

    def skew(self, value: str) -> int:
        return self.counts.get(value, 0) + self.itself - self.fewest

    def reasons(self, refused: int) -> Iterable[tuple[Reason, int]]:
        return (Reason.TOPOLOGY_LABEL_MISSING, refused & ~self.keyed), (Reason.TOPOLOGY_SPREAD, refused & self.keyed)


class PodTopologySpread:
    """No topology domain may get further ahead of the emptiest one than maxSkew."""

    name: Final = "PodTopologySpread"

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        hard = constraints_of(info.pod, DO_NOT_SCHEDULE)
        if not hard:
            return None
        everywhere = with_all_keys(hard, cluster)
        spreads = [_counted(info.pod, one, everywhere, cluster) for one in hard]
        return rule_of(spreads, cluster.index.everything, _words)


def constraints_of(pod: Pod, when: str) -> tuple[SpreadConstraint, ...]:
    """Return the pod's constraints with this `whenUnsatisfiable`."""
    said = pod.constraints.spread if pod.constraints is not None else ()
    return tuple(one for one in said if one.when_unsatisfiable == when)


def with_all_keys(constraints: Iterable[SpreadConstraint], cluster: ClusterView) -> int:
    """Return the nodes that have the topology keys of all constraints: no others take part in the counting."""
    found = cluster.index.everything
    for one in constraints:
        found &= cluster.index.with_key(one.topology_key)
    return found


def selector_of(constraint: SpreadConstraint, pod: Pod) -> LabelSelector | None:
    """Return the selector with the pod's own values of `matchLabelKeys` (KEP-3243)."""
    if constraint.selector is None or not constraint.match_label_keys:
        return constraint.selector
    own = [(key, value) for key in constraint.match_label_keys if (value := value_of(pod.labels, key)) is not None]
    merged = tuple(sorted({*constraint.selector.match_labels, *own}))
    return LabelSelector(merged, constraint.selector.match_expressions)


def taking_part(constraint: SpreadConstraint, pod: Pod, cluster: ClusterView) -> int:
    """Return the nodes that the constraint's inclusion policies let count (KEP-3094)."""
    found = cluster.index.everything
    if constraint.node_affinity_policy == HONOR:
        found &= cluster.index.selected(pod.node_selector, pod.node_affinity)
    if constraint.node_taints_policy == HONOR:
        found &= cluster.index.tolerated(pod.tolerations)
    return found


def count_by_domain(
    key: str, selector: LabelSelector | None, pod: Pod, among: int, cluster: ClusterView
) -> dict[str, int]:
    """Return how many selected pods of the pod's namespace are in each domain that `among` has nodes of."""
    counts = {value: 0 for value, bits in cluster.index.values.get(key, {}).items() if bits & among}
    if selector is None or selector == NOTHING_ASKED:
        return counts
    nodes = cluster.nodes
    for group, places in cluster.crowd.among(pod.namespace):
        if not group.deleting and matches_labels(selector, group.labels):
            for number, count in places.items():
                if among >> number & 1:
                    counts[nodes[number].labels[key]] += count
    return counts


def _counted(pod: Pod, constraint: SpreadConstraint, everywhere: int, cluster: ClusterView) -> _Spread:
    key, selector = constraint.topology_key, selector_of(constraint, pod)
    counts = count_by_domain(key, selector, pod, everywhere & taking_part(constraint, pod, cluster), cluster)
    fewest = min(counts.values(), default=0) if len(counts) >= constraint.min_domains else 0
    itself = int(selector is not None and matches_labels(selector, pod.labels))
    allowed = 0
    for value, bits in cluster.index.values.get(key, {}).items():
        if counts.get(value, 0) + itself - fewest <= constraint.max_skew:
            allowed |= bits
    return _Spread(constraint, selector, counts, fewest, itself, cluster.index.with_key(key), allowed)


def _words(spread: _Spread, state: NodeState) -> Rejection:
    key = spread.constraint.topology_key
    value = state.labels.get(key)
    if value is None:
        return Rejection(Reason.TOPOLOGY_LABEL_MISSING, state.name, f"a node with the label {key}", "none")
    wanted = f"{pods_text(spread.selector)} spread over {key} with a skew of at most {spread.constraint.max_skew}"
    offered = f"a skew of {spread.skew(value)} where {key}={value}"
    return Rejection(Reason.TOPOLOGY_SPREAD, state.name, wanted, offered)
