"""The filter of topology spread constraints with DoNotSchedule.

Source: plugins/podtopologyspread/filtering.go and common.go. Two oddities are upstream's: pods that are being deleted
do not count, and an empty selector counts no other pod but does count the pod itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kube.objects.constraints import DO_NOT_SCHEDULE, HONOR, SpreadConstraint
from kube.objects.labels import LabelSelector
from kube.objects.model import Pod, value_of
from kube.pod_topology.placed_pods import PlacedPods
from kube.rules.selectors import matches_labels

EMPTY_SELECTOR: Final = LabelSelector()


@dataclass(frozen=True, slots=True)
class SpreadVerdict:
    """A constraint, counted: pods by domain, the minimum of them, and what the pod itself adds.

    `keyed` are the nodes that have the topology key, `allowed` those that the constraint allows.
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


def spread_verdicts(pod: Pod, placed: PlacedPods, at_least: PlacedPods | None = None) -> list[SpreadVerdict]:
    """Return the verdict of each constraint with DoNotSchedule.

    `at_least` is used for the minimum over the domains if it is not certain that all of `placed` will be there.
    """
    hard = constraints_of(pod, DO_NOT_SCHEDULE)
    everywhere = with_all_keys(hard, placed) if hard else 0
    return [_counted(pod, constraint, everywhere, placed, at_least or placed) for constraint in hard]


def constraints_of(pod: Pod, when: str) -> tuple[SpreadConstraint, ...]:
    """Return the pod's constraints with this `whenUnsatisfiable`."""
    spread = pod.constraints.spread if pod.constraints is not None else ()
    return tuple(constraint for constraint in spread if constraint.when_unsatisfiable == when)


def with_all_keys(constraints: Iterable[SpreadConstraint], placed: PlacedPods) -> int:
    """Return the nodes that have the topology keys of all constraints: no others are counted."""
    nodes = placed.index.everything
    for constraint in constraints:
        nodes &= placed.index.with_key(constraint.topology_key)
    return nodes


def selector_of(constraint: SpreadConstraint, pod: Pod) -> LabelSelector | None:
    """Return the selector with the pod's own values of `matchLabelKeys` (KEP-3243)."""
    if constraint.selector is None or not constraint.match_label_keys:
        return constraint.selector
    own = [(key, value) for key in constraint.match_label_keys if (value := value_of(pod.labels, key)) is not None]
    merged = tuple(sorted({*constraint.selector.match_labels, *own}))
    return LabelSelector(merged, constraint.selector.match_expressions)


def taking_part(constraint: SpreadConstraint, pod: Pod, placed: PlacedPods) -> int:
    """Return the nodes that the constraint's inclusion policies count (KEP-3094)."""
    nodes = placed.index.everything
    if constraint.node_affinity_policy == HONOR:
        nodes &= placed.index.selected(pod.node_selector, pod.node_affinity)
    if constraint.node_taints_policy == HONOR:
        nodes &= placed.index.tolerated(pod.tolerations)
    return nodes


def count_by_domain(
    key: str, selector: LabelSelector | None, pod: Pod, eligible: int, placed: PlacedPods
) -> dict[str, int]:
    """Return how many selected pods of the pod's namespace are in each domain that has nodes of `eligible`."""
    counts = {value: 0 for value, bits in placed.index.values.get(key, {}).items() if bits & eligible}
    if selector is None or selector == EMPTY_SELECTOR:
        return counts
    nodes = placed.nodes
    for group, places in placed.pod_groups.among(pod.namespace, selector):
        if not group.deleting and matches_labels(selector, group.labels):
            for number, count in places.items():
                if eligible >> number & 1:
                    counts[nodes[number].labels[key]] += count
    return counts


def _counted(
    pod: Pod, constraint: SpreadConstraint, everywhere: int, placed: PlacedPods, at_least: PlacedPods
) -> SpreadVerdict:
    key, selector = constraint.topology_key, selector_of(constraint, pod)
    eligible = everywhere & taking_part(constraint, pod, placed)
    counts = count_by_domain(key, selector, pod, eligible, placed)
    least = counts if at_least is placed else count_by_domain(key, selector, pod, eligible, at_least)
    fewest = min(least.values(), default=0) if len(least) >= constraint.min_domains else 0
    itself = int(selector is not None and matches_labels(selector, pod.labels))
    allowed = 0
    for value, bits in placed.index.values.get(key, {}).items():
        if counts.get(value, 0) + itself - fewest <= constraint.max_skew:
            allowed |= bits
    return SpreadVerdict(constraint, selector, counts, fewest, itself, placed.index.with_key(key), allowed)
