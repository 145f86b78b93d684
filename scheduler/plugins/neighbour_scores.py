"""Scores by other pods: preferred (anti-)affinity in both directions, and soft topology spread.

Source: plugins/interpodaffinity/scoring.go and plugins/podtopologyspread/scoring.go.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import floor, log
from typing import Final

from kube.objects.constraints import NO_CONSTRAINTS, SCHEDULE_ANYWAY, PodTerm, SpreadConstraint
from kube.objects.model import Pod
from kube.pod_topology.placed_pods import groups_meant, means
from kube.pod_topology.pod_groups import Places, PodGroup, group_of
from kube.pod_topology.topology_spread import constraints_of, count_by_domain, selector_of, taking_part, with_all_keys
from kube.rules.topology import HOSTNAME_LABEL
from scheduler.framework.plugin import MAX_NODE_SCORE, Score
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.volumes import PodInfo

_HARD_AFFINITY_WEIGHT: Final = 1
"""The weight of a placed pod's required affinity to a pod that it selects (InterPodAffinityArgs)."""

Domain = tuple[str, str]
"""Topology key and value."""


class PreferredPodAffinity(Score):
    """Prefers the domains whose pods are preferred by this pod, or prefer it."""

    name = "PreferredPodAffinity"

    def scores(self, info: PodInfo, cluster: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        worth: Counter[Domain] = Counter()
        for term, weight, places in _terms(info.pod, cluster):
            for number, count in places.items():
                value = cluster.nodes[number].labels.get(term.topology_key)
                if value is not None:
                    worth[term.topology_key, value] += weight * count
        if not worth:
            return None
        keys = {key for key, _ in worth}
        sums = [sum(worth[key, state.labels[key]] for key in keys if key in state.labels) for state in nodes]
        least, most = min(sums, default=0), max(sums, default=0)
        return [int(MAX_NODE_SCORE * ((total - least) / (most - least))) if most > least else 0 for total in sums]


def _terms(pod: Pod, cluster: ClusterView) -> Iterator[tuple[PodTerm, int, Places]]:
    """Yield each term between the pod and placed pods, the weight of each of those, and their places."""
    constraints = pod.constraints or NO_CONSTRAINTS
    wishes = [(preference.term, preference.weight) for preference in constraints.preferred_affinity]
    wishes += [(preference.term, -preference.weight) for preference in constraints.preferred_anti_affinity]
    for term, weight in wishes:
        for _, places in groups_meant(term, pod.namespace, cluster):
            yield term, weight, places
    itself = group_of(pod)
    for group, places in cluster.pod_groups.outspoken_about(itself):
        for term, weight in _weighted_terms(group):
            if means(term, group.namespace, itself, cluster.namespaces):
                yield term, weight, places


def _weighted_terms(group: PodGroup) -> Iterator[tuple[PodTerm, int]]:
    constraints = group.constraints or NO_CONSTRAINTS
    for term in constraints.affinity:
        yield term, _HARD_AFFINITY_WEIGHT
    for preference in constraints.preferred_affinity:
        yield preference.term, preference.weight
    for preference in constraints.preferred_anti_affinity:
        yield preference.term, -preference.weight


class SoftTopologySpread(Score):
    """Prefers the domains with the fewest pods, by the constraints with ScheduleAnyway.

    The defaults that kube-scheduler adds for pods of a Service or ReplicaSet are omitted: for pods without constraints
    all nodes would have to be compared, and none of that can be cached.
    """

    name = "SoftTopologySpread"

    def scores(self, info: PodInfo, cluster: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        soft = constraints_of(info.pod, SCHEDULE_ANYWAY)
        if not soft:
            return None
        everywhere = with_all_keys(soft, cluster)
        counted = [state for state in nodes if everywhere >> state.number & 1]
        sums = {state.number: 0.0 for state in counted}
        for constraint in soft:
            _add(sums, constraint, info.pod, counted, everywhere, cluster)
        # Go rounds halves away from zero; there are no negative sums.
        rounded = {number: floor(total + 0.5) for number, total in sums.items()}
        least, most = min(rounded.values(), default=0), max(rounded.values(), default=0)
        return [_inverted(rounded.get(state.number), least, most) for state in nodes]


def _add(
    sums: dict[int, float],
    constraint: SpreadConstraint,
    pod: Pod,
    counted: Sequence[NodeInfo],
    everywhere: int,
    cluster: ClusterView,
) -> None:
    """Add for each node how many pods its domain has, weighted by how many domains there are."""
    key, selector = constraint.topology_key, selector_of(constraint, pod)
    # Upstream counts a host's own pods without applying the inclusion policies.
    allowed_nodes = everywhere if key == HOSTNAME_LABEL else everywhere & taking_part(constraint, pod, cluster)
    counts = count_by_domain(key, selector, pod, allowed_nodes, cluster)
    domains = len(counted) if key == HOSTNAME_LABEL else len({state.labels[key] for state in counted})
    weight = log(domains + 2)
    for state in counted:
        sums[state.number] += counts.get(state.labels[key], 0) * weight + (constraint.max_skew - 1)


def _inverted(count: int | None, least: int, most: int) -> int:
    if count is None:
        return 0
    return MAX_NODE_SCORE * (most + least - count) // most if most else MAX_NODE_SCORE
