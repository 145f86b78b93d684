"""Scores by what a node has left: spread pods, pack them, or keep resources in balance.

Source: least_allocated.go, most_allocated.go and balanced_allocation.go in plugins/noderesources, with their rounding.
"""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import sqrt
from typing import Final

from kube.objects.model import Pod
from scheduler.framework.plugin import MAX_NODE_SCORE, ScoreAlone
from scheduler.framework.profile import Thresholds
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo, scored_requests
from scheduler.state.node_memory import NodeMemory
from scheduler.volumes.volumes import PodInfo

_NATIVE: Final = ("cpu", "memory")
"""Resources that count for every pod. Others count only for pods that request them."""

Wanted = tuple[str, int, int]
"""A resource, the amount that the pod requests, and its weight."""


class _Allocated(ScoreAlone):
    """By the weighted mean, over the resources that count, of what is requested of a node with the pod on it."""

    args = Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        self._weights = tuple(thresholds.resources.items())
        self._memory: NodeMemory[int] = NodeMemory()

    def cache_key(self, info: PodInfo) -> Hashable:
        return _wanted(info.pod, self._weights)

    def scores(self, info: PodInfo, _: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int]:
        wanted = _wanted(info.pod, self._weights)
        return self._memory.answers(wanted, nodes, lambda state: _weighted(state, wanted, self._score))

    @staticmethod
    @abstractmethod
    def _score(requested: int, allocatable: int) -> int:
        """Return MIN_NODE_SCORE to MAX_NODE_SCORE for one resource."""


class LeastAllocated(_Allocated):
    """Prefers the emptiest node."""

    name = "LeastAllocated"

    @staticmethod
    def _score(requested: int, allocatable: int) -> int:
        return 0 if requested > allocatable else (allocatable - requested) * MAX_NODE_SCORE // allocatable


class BinPack(_Allocated):
    """Prefers the fullest node (MostAllocated)."""

    name = "BinPack"

    @staticmethod
    def _score(requested: int, allocatable: int) -> int:
        return min(requested, allocatable) * MAX_NODE_SCORE // allocatable


class Balanced(ScoreAlone):
    """Prefers the node on which the pod improves the balance of resource shares most.

    A pod that requests nothing changes no balance and is not scored (kubernetes#129138).
    """

    name = "Balanced"
    args = Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        self._resources = tuple(thresholds.resources)
        self._memory: NodeMemory[int] = NodeMemory()

    def cache_key(self, info: PodInfo) -> Hashable:
        return self._counted(info.pod)

    def scores(self, info: PodInfo, _: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        counted = self._counted(info.pod)
        if not any(amount for _, amount in counted):
            return None
        return self._memory.answers(counted, nodes, lambda state: _balance(state, counted))

    def _counted(self, pod: Pod) -> tuple[tuple[str, int], ...]:
        requests = dict(pod.requests)
        return tuple((name, requests.get(name, 0)) for name in self._resources if _counts(name, requests))


def _counts(name: str, requests: Mapping[str, int]) -> bool:
    return name in _NATIVE or bool(requests.get(name))


def _wanted(pod: Pod, weights: Sequence[tuple[str, int]]) -> tuple[Wanted, ...]:
    """Return what the pod requests of the resources that count, and their weights."""
    requests = dict(pod.requests)
    requests.update(zip(_NATIVE, scored_requests(pod), strict=True))
    return tuple((name, requests.get(name, 0), weight) for name, weight in weights if _counts(name, requests))


def _weighted(state: NodeInfo, wanted: Sequence[Wanted], score: Callable[[int, int], int]) -> int:
    """Return the weighted mean over the resources that the node has."""
    total = weights = 0
    allocatable, (cpu, memory) = state.allocatable, state.scored
    for name, amount, weight in wanted:
        has = allocatable.get(name, 0)
        if has:
            requested = cpu if name == "cpu" else memory if name == "memory" else has - state.free.get(name, 0)
            total += score(requested + amount, has) * weight
            weights += weight
    return total // weights if weights else 0


def _balance(state: NodeInfo, counted: Sequence[tuple[str, int]]) -> int:
    before, after = [], []
    allocatable, free = state.allocatable, state.free
    for name, wanted in counted:
        has = allocatable.get(name, 0)
        if has:
            left = free.get(name, 0)
            requested = has - left
            before.append(requested / has if left > 0 else 1.0)
            after.append((requested + wanted) / has if left > wanted else 1.0)
    # Go's division truncates towards zero, but this sum is never negative.
    return MAX_NODE_SCORE // 2 + (MAX_NODE_SCORE // 2 + _evenness(after) - _evenness(before)) // 2


def _evenness(shares: Sequence[float]) -> int:
    if len(shares) == 2:
        return int((1 - abs(shares[0] - shares[1]) / 2) * MAX_NODE_SCORE)
    deviation = 0.0
    if len(shares) > 2:
        mean = sum(shares) / len(shares)
        deviation = sqrt(sum((share - mean) * (share - mean) for share in shares) / len(shares))
    return int((1 - deviation) * MAX_NODE_SCORE)
