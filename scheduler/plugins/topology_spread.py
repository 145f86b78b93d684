"""Topology spread constraints with DoNotSchedule as a plugin; the rule is kube.pod_topology.topology_spread.

The tally is AddPod and RemovePod, the hint isSchedulableAfterPodChange and isSchedulableAfterNodeChange (KEP-4247) of
plugins/podtopologyspread.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from binder.assignment.pod_rejection import spread_rejection
from binder.matching.rejection import Reason
from kube.objects.constraints import DO_NOT_SCHEDULE, HONOR, SpreadConstraint
from kube.objects.labels import LabelSelector, Pairs
from kube.objects.model import Node, Pod
from kube.pod_topology.topology_spread import (
    EMPTY_SELECTOR,
    SpreadVerdict,
    constraints_of,
    count_by_domain,
    selector_of,
    spread_verdicts,
    taking_part,
    with_all_keys,
)
from kube.rules.selectors import label_keys, matches_labels
from scheduler.framework.cluster_event import ClusterEvent, Wanted
from scheduler.framework.plugin import Counts, Eviction, Filter, NodeRule, rule_of_verdicts
from scheduler.framework.queueing_hint import QueueingHint
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.volumes import PodInfo

_MANY: Final = 2**62


def spread_eased(pod: Pod, change: ClusterEvent, _: Wanted | None) -> bool:
    """A counted pod was added or removed or counts otherwise, or a node that counts did."""
    if isinstance(change.old, Node) or isinstance(change.new, Node):
        return _spread_nodes_changed(pod, change)
    selectors = [selector_of(constraint, pod) for constraint in constraints_of(pod, DO_NOT_SCHEDULE)]
    nothing = [False for _ in selectors]
    before, after = (
        _is_counted(pod, other, selectors) if isinstance(other, Pod) else nothing for other in (change.old, change.new)
    )
    return before != after


def _shape(pod: Pod, _: Wanted | None) -> Hashable:
    hard = constraints_of(pod, DO_NOT_SCHEDULE)
    shapes = tuple((constraint, selector_of(constraint, pod)) for constraint in hard)
    return pod.namespace, shapes, pod.node_selector, pod.node_affinity


@dataclass(frozen=True, slots=True)
class _Spread:
    """A spread constraint, counted. `fewest` and `second` are the two smallest counts of any domains."""

    constraint: SpreadConstraint
    selector: LabelSelector | None
    allowed_nodes: int
    domains: Mapping[str, int]
    fewest: int
    second: int
    itself: int

    def fewest_with(self, value: str, count: int) -> int:
        """Return the minimum over all domains if the count of one of them were another."""
        if len(self.domains) < self.constraint.min_domains:
            return 0
        known = self.domains.get(value)
        if known is None:
            return self.fewest
        others = self.second if known == self.fewest else self.fewest
        return min(others, count)


class SpreadTally:
    """Counts pods in the node's domain of each constraint with DoNotSchedule."""

    def __init__(self, info: PodInfo, cluster: ClusterView) -> None:
        hard = constraints_of(info.pod, DO_NOT_SCHEDULE)
        everywhere = with_all_keys(hard, cluster)
        self._pod = info.pod
        self._spreads = [_counted(info.pod, constraint, everywhere, cluster) for constraint in hard]
        self._selected: dict[Pairs, list[bool]] = {}

    def counts(self, state: NodeInfo) -> Counts:
        return tuple(
            spread.domains.get(state.labels.get(spread.constraint.topology_key, ""), 0) for spread in self._spreads
        )

    def adds(self, pod: Pod, state: NodeInfo) -> Counts:
        if pod.deleting or pod.namespace != self._pod.namespace:
            return (0,) * len(self._spreads)
        matches = self._selected.get(pod.labels)
        if matches is None:
            matches = self._selected[pod.labels] = [_selects(spread.selector, pod.labels) for spread in self._spreads]
        counted = zip(self._spreads, matches, strict=True)
        return tuple([int(selected and spread.allowed_nodes >> state.number & 1) for spread, selected in counted])

    def allows(self, state: NodeInfo, counts: Counts) -> bool:
        for spread, count in zip(self._spreads, counts, strict=True):
            value = state.labels.get(spread.constraint.topology_key)
            if value is None or count + spread.itself - spread.fewest_with(value, count) > spread.constraint.max_skew:
                return False
        return True


def _selects(selector: LabelSelector | None, labels: Pairs) -> bool:
    return selector is not None and selector != EMPTY_SELECTOR and matches_labels(selector, labels)


def _counted(pod: Pod, constraint: SpreadConstraint, everywhere: int, cluster: ClusterView) -> _Spread:
    selector, allowed_nodes = selector_of(constraint, pod), everywhere & taking_part(constraint, pod, cluster)
    domains = count_by_domain(constraint.topology_key, selector, pod, allowed_nodes, cluster)
    least = sorted(domains.values())[:2]
    return _Spread(
        constraint=constraint,
        selector=selector,
        allowed_nodes=allowed_nodes,
        domains=domains,
        fewest=least[0] if least else 0,
        # With a single domain only its own count can be the minimum.
        second=least[1] if len(least) > 1 else _MANY,
        itself=int(selector is not None and matches_labels(selector, pod.labels)),
    )


class PodTopologySpread(Filter):
    """No topology domain may exceed the emptiest one by more than maxSkew."""

    name = "PodTopologySpread"
    messages: ClassVar[Mapping[Reason, str]] = {
        Reason.TOPOLOGY_SPREAD: "didn't match pod topology spread constraints",
        Reason.TOPOLOGY_LABEL_MISSING: "didn't match pod topology spread constraints (missing required label)",
    }
    eviction = Eviction.INCREMENTAL
    unresolvable = frozenset({Reason.TOPOLOGY_LABEL_MISSING})
    queueing_hint = QueueingHint(frozenset({Node, Pod}), spread_eased, _shape)

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        verdicts = spread_verdicts(info.pod, cluster)
        return rule_of_verdicts(verdicts, cluster.index.everything, spread_rejection, _reasons)

    def tally(self, info: PodInfo, cluster: ClusterView) -> SpreadTally:
        return SpreadTally(info, cluster)


def _reasons(verdict: SpreadVerdict, rejected: int) -> Iterable[tuple[Reason, int]]:
    return (Reason.TOPOLOGY_LABEL_MISSING, rejected & ~verdict.keyed), (
        Reason.TOPOLOGY_SPREAD,
        rejected & verdict.keyed,
    )


def _is_counted(pod: Pod, other: Pod, selectors: Iterable[LabelSelector | None]) -> list[bool]:
    if other.namespace != pod.namespace or other.deleting:
        return [False for _ in selectors]
    return [selector is not None and matches_labels(selector, other.labels) for selector in selectors]


def _spread_nodes_changed(pod: Pod, change: ClusterEvent) -> bool:
    """Whether a node that has all topology keys came or left, or one has another value of a label that counts."""
    hard = constraints_of(pod, DO_NOT_SCHEDULE)
    keys = {constraint.topology_key for constraint in hard}
    nodes = [dict(item.labels) for item in (change.old, change.new) if isinstance(item, Node)]
    counted = [all(key in labels for key in keys) for labels in nodes]
    if not any(counted):
        return False
    if len(nodes) == 1 or counted[0] != counted[1]:
        return True
    deciding = keys | (_selecting_keys(pod) if any(each.node_affinity_policy == HONOR for each in hard) else set())
    if any(nodes[0].get(key) != nodes[1].get(key) for key in deciding):
        return True
    taints = {(item.taints, item.unschedulable) for item in (change.old, change.new) if isinstance(item, Node)}
    return len(taints) > 1 and any(constraint.node_taints_policy == HONOR for constraint in hard)


def _selecting_keys(pod: Pod) -> set[str]:
    return {key for key, _ in pod.node_selector}.union(label_keys(pod.node_affinity))
