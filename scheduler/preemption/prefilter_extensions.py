"""Filters that look beyond a node, asked about one node while pods leave it and come back: only numbers change.

What AddPod and RemovePod do in plugins/interpodaffinity/filtering.go, podtopologyspread/filtering.go and
volumerestrictions/volume_restrictions.go. The answers are those of the filters themselves.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from kube.objects.constraints import DO_NOT_SCHEDULE, NO_CONSTRAINTS, PodTerm, SpreadConstraint
from kube.objects.model import READ_WRITE_ONCE_POD, LabelSelector, Pairs, Pod
from kube.pod_topology.placed_pods import groups_meant, means
from kube.pod_topology.pod_groups import Group, group_of
from kube.pod_topology.topology_spread import (
    NOTHING_ASKED,
    constraints_of,
    count_by_domain,
    selector_of,
    taking_part,
    with_all_keys,
)
from kube.rules.selectors import matches_labels
from scheduler.plugins.pod_affinity import InterPodAffinity
from scheduler.plugins.topology_spread import PodTopologySpread
from scheduler.plugins.volume_filters import VolumeRestrictions
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeState
from scheduler.volumes.volumes import PodInfo

Counts = tuple[int, ...]
"""What a filter counts where a node is, in an order of its own."""


class Tally(Protocol):
    """One filter, for one pod that is to be placed."""

    def counts(self, state: NodeState, /) -> Counts:
        """Return what is counted where the node is, as the cluster is."""

    def adds(self, pod: Pod, state: NodeState, /) -> Counts:
        """Return what a pod counts for when it is on the node."""

    def allows(self, state: NodeState, counts: Counts, /) -> bool:
        """Whether the node is allowed when so much is counted."""


class ClaimTally:
    """Counts other pods that use a claim which only one pod may use."""

    def __init__(self, info: PodInfo, cluster: ClusterView) -> None:
        claims = (*(claim for claim, _ in info.claims.bound), *info.claims.delayed)
        self._pod = info.pod.key
        self._exclusive = frozenset(claim.key for claim in claims if READ_WRITE_ONCE_POD in claim.access_modes)
        users = [user for key in self._exclusive for user in cluster.claim_users.get(key, ())]
        self._users = sum(user != self._pod for user in users)

    def counts(self, _: NodeState) -> Counts:
        return (self._users,)

    def adds(self, pod: Pod, _: NodeState) -> Counts:
        return (len(self._exclusive.intersection(pod.claim_keys)) if pod.key != self._pod else 0,)

    def allows(self, _: NodeState, counts: Counts) -> bool:
        return counts[0] == 0


@dataclass(frozen=True, slots=True)
class _Spread:
    """A spread constraint, counted. `fewest` and `second` are the two least counts of any domains."""

    constraint: SpreadConstraint
    selector: LabelSelector | None
    among: int
    domains: Mapping[str, int]
    fewest: int
    second: int
    itself: int

    def fewest_with(self, value: str, count: int) -> int:
        """Return the least count of all domains when that of one of them is another."""
        if len(self.domains) < self.constraint.min_domains:
            return 0
        known = self.domains.get(value)
        if known is None:
            return self.fewest
        others = self.second if known == self.fewest else self.fewest
        return min(others, count)


class SpreadTally:
    """Counts pods in the node's domain of each constraint that says DoNotSchedule."""

    def __init__(self, info: PodInfo, cluster: ClusterView) -> None:
        hard = constraints_of(info.pod, DO_NOT_SCHEDULE)
        everywhere = with_all_keys(hard, cluster)
        self._pod = info.pod
        self._spreads = [_counted(info.pod, one, everywhere, cluster) for one in hard]
        self._selected: dict[Pairs, list[bool]] = {}

    def counts(self, state: NodeState) -> Counts:
        return tuple(
            spread.domains.get(state.labels.get(spread.constraint.topology_key, ""), 0) for spread in self._spreads
        )

    def adds(self, pod: Pod, state: NodeState) -> Counts:
        if pod.deleting or pod.namespace != self._pod.namespace:
            return (0,) * len(self._spreads)
        found = self._selected.get(pod.labels)
        if found is None:
            found = self._selected[pod.labels] = [_selects(spread.selector, pod.labels) for spread in self._spreads]
        counted = zip(self._spreads, found, strict=True)
        return tuple([int(selected and spread.among >> state.number & 1) for spread, selected in counted])

    def allows(self, state: NodeState, counts: Counts) -> bool:
        for spread, count in zip(self._spreads, counts, strict=True):
            value = state.labels.get(spread.constraint.topology_key)
            if value is None or count + spread.itself - spread.fewest_with(value, count) > spread.constraint.max_skew:
                return False
        return True


def _selects(selector: LabelSelector | None, labels: Pairs) -> bool:
    return selector is not None and selector != NOTHING_ASKED and matches_labels(selector, labels)


def _counted(pod: Pod, constraint: SpreadConstraint, everywhere: int, cluster: ClusterView) -> _Spread:
    selector, among = selector_of(constraint, pod), everywhere & taking_part(constraint, pod, cluster)
    domains = count_by_domain(constraint.topology_key, selector, pod, among, cluster)
    least = sorted(domains.values())[:2]
    return _Spread(
        constraint=constraint,
        selector=selector,
        among=among,
        domains=domains,
        fewest=least[0] if least else 0,
        # With one domain alone nothing but its own count can be the least.
        second=least[1] if len(least) > 1 else _MANY,
        itself=int(selector is not None and matches_labels(selector, pod.labels)),
    )


_MANY: Final = 2**62


class NeighbourTally:
    """Counts pods that may not be where the node is, and for each term of affinity those that have to be there.

    And for each of these terms such pods anywhere, because the first pod of a series needs none.
    """

    def __init__(self, info: PodInfo, cluster: ClusterView) -> None:
        said = info.pod.constraints or NO_CONSTRAINTS
        self._namespace = info.pod.namespace
        self._itself = group_of(info.pod)
        self._known: dict[Group, tuple[tuple[str, ...], bool]] = {}
        self._namespaces: Mapping[str, Pairs] = cluster.namespaces
        self._near, self._apart = said.affinity, said.anti_affinity
        self._is_first = bool(self._near) and self._all_mean(self._itself)
        self._refusing: dict[str, Counter[str]] = {}
        for term in self._apart:
            for _, places in groups_meant(term, self._namespace, cluster):
                _count(self._refusing.setdefault(term.topology_key, Counter()), term, places, cluster)
        for group, places in cluster.pod_groups.outspoken_about(self._itself):
            for term in self._unwelcoming(group):
                _count(self._refusing.setdefault(term.topology_key, Counter()), term, places, cluster)
        self._needed: list[Counter[str]] = [Counter() for _ in self._near]
        for group, places in groups_meant(self._near[0], self._namespace, cluster) if self._near else ():
            if self._all_mean(group):
                for term, counts in zip(self._near, self._needed, strict=True):
                    _count(counts, term, places, cluster)
        self._everywhere = tuple(counts.total() for counts in self._needed)

    def counts(self, state: NodeState) -> Counts:
        labels = state.labels
        refusing = sum(counts[labels[key]] for key, counts in self._refusing.items() if key in labels)
        near = (
            counts[labels[term.topology_key]] if term.topology_key in labels else 0
            for term, counts in zip(self._near, self._needed, strict=True)
        )
        return (refusing, *near, *self._everywhere)

    def adds(self, pod: Pod, state: NodeState) -> Counts:
        group, labels = group_of(pod), state.labels
        found = self._known.get(group)
        if found is None:
            found = self._known[group] = self._refusing_keys(group), bool(self._near) and self._all_mean(group)
        refusing, needed = found
        near = tuple([int(needed and term.topology_key in labels) for term in self._near])
        return (sum([key in labels for key in refusing]), *near, *near)

    def allows(self, state: NodeState, counts: Counts) -> bool:
        terms = len(self._near)
        near, everywhere = counts[1 : 1 + terms], counts[1 + terms :]
        if counts[0]:
            return False
        if all(near):
            return True
        return self._is_first and not any(everywhere) and all(term.topology_key in state.labels for term in self._near)

    def _refusing_keys(self, group: Group) -> tuple[str, ...]:
        """Return the topology keys of the terms, of either side, by which such a pod and this one keep apart."""
        apart = [term for term in self._apart if means(term, self._namespace, group, self._namespaces)]
        return tuple(term.topology_key for term in (*apart, *self._unwelcoming(group)))

    def _all_mean(self, group: Group) -> bool:
        return all(means(term, self._namespace, group, self._namespaces) for term in self._near)

    def _unwelcoming(self, group: Group) -> list[PodTerm]:
        """Return the terms by which pods that are alike keep the pod away."""
        said = group.constraints or NO_CONSTRAINTS
        return [term for term in said.anti_affinity if means(term, group.namespace, self._itself, self._namespaces)]


def _count(counts: Counter[str], term: PodTerm, places: Mapping[int, int], cluster: ClusterView) -> None:
    key, nodes = term.topology_key, cluster.nodes
    for number, count in places.items():
        value = nodes[number].labels.get(key)
        if value is not None:
            counts[value] += count


Prepare = Callable[[PodInfo, ClusterView], Tally]

TALLIES: Final[Mapping[str, Prepare]] = {
    VolumeRestrictions.name: ClaimTally,
    PodTopologySpread.name: SpreadTally,
    InterPodAffinity.name: NeighbourTally,
}
"""By the filter's name."""
