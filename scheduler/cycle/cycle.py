"""A scheduling cycle: a pod, a view of the cluster and a profile in, a placement or the reasons against it out.

As schedulePod in pkg/scheduler/schedule_one.go, without randomness: among nodes with equal scores the first one wins,
counted from where the search began, so equal input gives an equal result.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final

from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Pod
from scheduler.framework.plugin import Filter, NodeRule, PreFilter, ScheduleResult
from scheduler.framework.profile import ALL_NODES, Profile
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.volumes import PodInfo, pod_info

_MIN_FEASIBLE_NODES: Final = 100
"""In clusters up to this size all nodes are filtered (minFeasibleNodesToFind)."""

_MIN_PERCENTAGE: Final = 5
_DIGITS: Final = bytes.maketrans(b"01", b"\x00\x01")

_CHUNK: Final = 128
"""Nodes that are filtered together before checking whether there are enough."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """All filters of a profile, prepared for a pod.

    `rejection` is why the pod fits no node at all, by `rejected_by`; `allowed_nodes` the only nodes that can fit, as
    bits by number. `rules` are stored with their filters, in the profile's order. `left_out` are the nodes that
    `confined_by` exclude and for which no filter is run (`PreFilter.explains`).
    """

    info: PodInfo
    rejection: Rejection | None
    allowed_nodes: int
    rules: tuple[tuple[Filter, NodeRule], ...]
    rejected_by: PreFilter | None = None
    left_out: int = 0
    confined_by: tuple[PreFilter, ...] = ()

    def why(self, node: NodeInfo) -> Rejection | None:
        """Return why the node is rejected: the first reason in the profile's order, None if it fits."""
        if self.rejection is not None:
            return self.rejection
        if self.left_out >> node.number & 1:
            return self._why_left_out(node)
        return next((rejection for _, rule in self.rules if (rejection := rule.why(node)) is not None), None)

    def _why_left_out(self, node: NodeInfo) -> Rejection:
        names = [plugin.name for plugin in self.confined_by]
        for plugin, rule in self.rules:
            rejection = rule.why(node) if plugin.name in names else None
            if rejection is not None:
                return rejection
        wanted = f"a node that {' and '.join(names)} leaves"
        return Rejection(Reason.REJECTED_BY_PLUGIN, node.name, wanted, "another node")


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """No node fits. `judgement` has the reason for each node."""

    judgement: Judgement
    cluster: ClusterView

    def rejections(self) -> Iterator[Rejection]:
        """Yield the reason of every node, or the single reason for the pod as a whole."""
        if self.judgement.rejection is not None:
            yield self.judgement.rejection
            return
        for node in self.cluster.nodes:
            rejection = self.judgement.why(node)
            if rejection is not None:
                yield rejection


def judge(pod: Pod, cluster: ClusterView, profile: Profile) -> Judgement:
    """Prepare the profile's filters for a pod."""
    info = pod_info(pod, cluster.storage, cluster.now)
    allowed_nodes = named = cluster.index.everything
    confined_by: list[PreFilter] = []
    for pre_filter in profile.pre_filters:
        confined = pre_filter.confine(info, cluster)
        if isinstance(confined, Rejection):
            return Judgement(info, confined, 0, (), pre_filter)
        if confined is None:
            continue
        allowed_nodes &= confined
        if not pre_filter.explains:
            named &= confined
            confined_by.append(pre_filter)
    prepared = ((plugin, plugin.rule(info, cluster)) for plugin in profile.filters)
    rules = tuple((plugin, rule) for plugin, rule in prepared if rule is not None)
    for _, rule in rules:
        if rule.allowed_nodes is not None:
            allowed_nodes &= rule.allowed_nodes
    left_out = cluster.index.everything & ~named
    return Judgement(info, None, allowed_nodes, rules, left_out=left_out, confined_by=tuple(confined_by))


def feasible(judgement: Judgement, cluster: ClusterView, profile: Profile, start: int = 0) -> Sequence[NodeInfo]:
    """Return feasible nodes, searching from node number `start` on, no more of them than the profile wants to score."""
    rules = [rule for _, rule in judgement.rules if rule.allowed_nodes is None]
    wanted = nodes_wanted(len(cluster.nodes), profile.percentage_of_nodes_to_score)
    candidates = _candidates(judgement.allowed_nodes, cluster, start)
    return first_passing(rules, candidates, wanted)


def first_passing(rules: Sequence[NodeRule], candidates: Sequence[NodeInfo], wanted: int) -> Sequence[NodeInfo]:
    """Return the first of the candidates that no rule rejects, no more of them than are wanted."""
    if not rules:
        return candidates[:wanted]
    fitting: list[NodeInfo] = []
    for first in range(0, len(candidates), _CHUNK):
        fitting += passing(rules, candidates[first : first + _CHUNK])
        if len(fitting) >= wanted:
            return fitting[:wanted]
    return fitting


def passing(rules: Iterable[NodeRule], nodes: Sequence[NodeInfo]) -> Sequence[NodeInfo]:
    """Return those of the nodes that no rule rejects."""
    for rule in rules:
        nodes = rule.fitting(nodes) if rule.fitting is not None else _unrejected(rule, nodes)
    return nodes


def nodes_wanted(nodes: int, percentage: int) -> int:
    """Return how many feasible nodes are enough (numFeasibleNodesToFind); 0 percent adapts to the cluster's size."""
    if nodes < _MIN_FEASIBLE_NODES or percentage >= ALL_NODES:
        return nodes
    if not percentage:
        percentage = max(_MIN_PERCENTAGE, 50 - nodes // 125)
    return max(_MIN_FEASIBLE_NODES, nodes * percentage // 100)


def totals(info: PodInfo, cluster: ClusterView, profile: Profile, nodes: Sequence[NodeInfo]) -> Sequence[int]:
    """Return the weighted sum of all scores for each of the nodes."""
    sums = [0] * len(nodes)
    for weighted in profile.scores:
        scores = weighted.plugin.scores(info, cluster, nodes)
        if scores is not None:
            weight = weighted.weight
            sums = [known + weight * score for known, score in zip(sums, scores, strict=True)]
    return sums


def decide(pod: Pod, cluster: ClusterView, profile: Profile, start: int = 0) -> ScheduleResult | Unschedulable:
    """Return where the pod is placed. `start` is the node number at which the search begins; rotate it to spread the
    search.
    """
    judgement = judge(pod, cluster, profile)
    nodes = feasible(judgement, cluster, profile, start)
    if not nodes:
        return Unschedulable(judgement, cluster)
    return placed(judgement, best(judgement, cluster, profile, nodes))


def best(judgement: Judgement, cluster: ClusterView, profile: Profile, nodes: Sequence[NodeInfo]) -> NodeInfo:
    """Return the first of the nodes with the highest total."""
    if len(nodes) == 1:
        return nodes[0]
    sums = totals(judgement.info, cluster, profile, nodes)
    return nodes[sums.index(max(sums))]


def placed(judgement: Judgement, node: NodeInfo) -> ScheduleResult:
    """Return the placement on a node that fits."""
    return ScheduleResult(judgement.info.pod, node.name, judgement.info.choice(node).own)


def mask_of(numbers: int) -> bytes:
    """Return for each node number, up to the highest in the set, 1 if it is in it and 0 if not."""
    return f"{numbers:b}"[::-1].encode().translate(_DIGITS)


def _candidates(allowed_nodes: int, cluster: ClusterView, start: int) -> Sequence[NodeInfo]:
    nodes = cluster.nodes
    candidates: Sequence[NodeInfo] = nodes
    if allowed_nodes != cluster.index.everything:
        candidates = list(compress(nodes, mask_of(allowed_nodes)))
    first = bisect_left(candidates, start, key=lambda state: state.number)
    return [*candidates[first:], *candidates[:first]] if first else candidates


def _unrejected(rule: NodeRule, nodes: Sequence[NodeInfo]) -> Sequence[NodeInfo]:
    return [node for node in nodes if rule.why(node) is None]
