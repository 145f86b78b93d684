"""Scores by what a node has left: spread pods out, pack them together, or keep resources in balance.

Source: least_allocated.go, most_allocated.go and balanced_allocation.go in plugins/noderesources, with their rounding.
"""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Final

from scheduler.cluster import ClusterView
from scheduler.node_state import NodeState, scored_requests
from scheduler.plugin import HIGHEST
from scheduler.profile import Thresholds
from scheduler.volumes import PodInfo

_NATIVE: Final = ("cpu", "memory")
"""Resources that count for every pod. Others count only for pods that request them."""

Amount = tuple[int, int, int]
"""Requested with the pod, allocatable, weight."""


class LeastAllocated:
    """The emptiest node first."""

    name: Final = "LeastAllocated"

    def __init__(self, thresholds: Thresholds) -> None:
        self._weights = tuple(thresholds.resources.items())

    def scores(self, info: PodInfo, _: ClusterView, nodes: Sequence[NodeState]) -> Sequence[int]:
        return _weighted(info, nodes, self._weights, _left)


class BinPack:
    """The fullest node first (MostAllocated)."""

    name: Final = "BinPack"

    def __init__(self, thresholds: Thresholds) -> None:
        self._weights = tuple(thresholds.resources.items())

    def scores(self, info: PodInfo, _: ClusterView, nodes: Sequence[NodeState]) -> Sequence[int]:
        return _weighted(info, nodes, self._weights, _used)


class Balanced:
    """First where the pod leaves the shares of resources most alike, compared with how they are now.

    A pod that requests nothing changes no balance and is not scored (kubernetes#129138).
    """

    name: Final = "Balanced"

    def __init__(self, thresholds: Thresholds) -> None:
        self._resources = tuple(thresholds.resources)

    def scores(self, info: PodInfo, _: ClusterView, nodes: Sequence[NodeState]) -> Sequence[int] | None:
        wanted = dict(info.pod.requests)
        counted = [(name, wanted.get(name, 0)) for name in self._resources if name in _NATIVE or wanted.get(name)]
        if not any(amount for _, amount in counted):
            return None
        return [_balance(state, counted) for state in nodes]


def _weighted(
    info: PodInfo, nodes: Sequence[NodeState], weights: Sequence[tuple[str, int]], score: Callable[[int, int], int]
) -> list[int]:
    cpu, memory = scored_requests(info.pod)
    wanted = dict(info.pod.requests)
    others = [(name, wanted[name], weight) for name, weight in weights if name not in _NATIVE and wanted.get(name)]
    native = dict(weights)
    cpu_weight, memory_weight = native.get("cpu", 0), native.get("memory", 0)
    found = []
    for state in nodes:
        allocatable = state.allocatable
        total = parts = 0
        has = allocatable.get("cpu", 0) if cpu_weight else 0
        if has:
            total += score(state.scored[0] + cpu, has) * cpu_weight
            parts += cpu_weight
        has = allocatable.get("memory", 0) if memory_weight else 0
        if has:
            total += score(state.scored[1] + memory, has) * memory_weight
            parts += memory_weight
        for name, amount, weight in others:
            has = allocatable.get(name, 0)
            if has:
                total += score(has - state.free.get(name, 0) + amount, has) * weight
                parts += weight
        found.append(total // parts if parts else 0)
    return found


def _left(requested: int, allocatable: int) -> int:
    return 0 if requested > allocatable else (allocatable - requested) * HIGHEST // allocatable


def _used(requested: int, allocatable: int) -> int:
    return min(requested, allocatable) * HIGHEST // allocatable


def _balance(state: NodeState, counted: Sequence[tuple[str, int]]) -> int:
    before, after = [], []
    for name, wanted in counted:
        has = state.allocatable.get(name, 0)
        if has:
            requested = has - state.free.get(name, 0)
            before.append(min(1.0, requested / has))
            after.append(min(1.0, (requested + wanted) / has))
    # Go's division truncates towards zero, but this sum is never negative.
    return HIGHEST // 2 + (HIGHEST // 2 + _evenness(after) - _evenness(before)) // 2


def _evenness(shares: Sequence[float]) -> int:
    deviation = 0.0
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        mean = sum(shares) / len(shares)
        deviation = sqrt(sum((share - mean) * (share - mean) for share in shares) / len(shares))
    return int((1 - deviation) * HIGHEST)
