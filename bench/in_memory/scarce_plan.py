"""The puzzles of part d without a control plane: which pods a pass places, and in what time.

All pods are there before the first pass, or they come one after the other and nothing that was promised moves. The
reference for the latter is the simulator with the filters and scores of kube-scheduler: pods one by one, each on the
best node that has volumes for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median
from time import perf_counter
from typing import Final

from bench.control_plane.documents import NAMESPACE, Document, claim, pod, storage_class
from bench.control_plane.scarce_bench import Puzzle
from bench.hostile.inputs import nodes, record_of
from bench.progress import say
from bench.rows import Row
from binder.matching.index import VolumeIndex
from binder.model.decision import Reserve
from binder.model.view import View
from binder.planning.plan import holds_of, plan
from devcluster.control_plane.nodes import DEFAULT_ZONES
from kube.store.store import snapshot_of
from scheduler.framework.registry import build
from scheduler.plugins.registry import REGISTRY, default_data
from scheduler.plugins.reservation import LocalStorage, ReservedVolume, VolumeHealth
from scheduler.plugins.storage_scores import AttachedVolumes, BestFit, ReservedZone, ZoneVolumes
from scheduler.simulator.simulated_cluster import SimulatedCluster
from scheduler.simulator.simulation import Simulation
from scheduler.state.cluster import view_of

SEEDS: Final = range(1, 21)
LARGE_SEEDS: Final = range(1, 4)
_OURS: Final = frozenset(
    plugin.name
    for plugin in (LocalStorage, ReservedVolume, VolumeHealth, AttachedVolumes, BestFit, ReservedZone, ZoneVolumes)
)
"""Plugins that kube-scheduler does not have."""
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


def run(quick: bool) -> list[Row]:
    """Measure 20 puzzles of 100 pods and three of 1,000; quick: two of 20 pods."""
    seeds, large, pods = (SEEDS[:2], (), 20) if quick else (SEEDS, LARGE_SEEDS, 100)
    rows = _together(seeds, pods, at_most=None)
    rows += _together(large, 10 * pods, at_most=5.0) if large else []
    return [*rows, *_in_turn(seeds, pods)]


def _together(seeds: range, pods: int, at_most: float | None) -> list[Row]:
    say(f"{pods} pods at once, {len(seeds)} seeds")
    runs = [_run(seed, pods, pods) for seed in seeds]
    what = f"{len(seeds)} seeds, all pods there before the first pass"
    placed = sorted(placed for placed, _ in runs)
    return [
        Row(f"{pods} pods at once: placed in the worst seed", placed[0], "pods", what, at_least=pods),
        Row(f"{pods} pods at once: longest plan", max(took for _, took in runs), "s", what, at_most=at_most),
    ]


def _in_turn(seeds: range, pods: int) -> list[Row]:
    say(f"{pods} pods one after the other, {len(seeds)} seeds")
    reference = [_run_as_in_tree(seed, pods) for seed in seeds]
    rows = [_placed(f"{pods} pods by the rules of kube-scheduler", reference)]
    for few in (20, 1):
        ours = [_run(seed, pods, few)[0] for seed in seeds]
        ahead = min(placed - theirs for placed, theirs in zip(ours, reference, strict=True))
        rows += [
            _placed(f"{pods} pods, {few} in a pass", ours),
            Row(f"{pods} pods, {few} in a pass: ahead of these rules in the worst seed", ahead, "pods", at_least=0),
        ]
    return rows


def _placed(name: str, placed: Sequence[int]) -> Row:
    detail = f"{min(placed)} to {max(placed)} in {len(placed)} seeds"
    return Row(f"{name}: placed, median", median(placed), "pods", detail)


def _view(puzzle: Puzzle, *, gated: bool) -> View:
    snapshot = snapshot_of(map(record_of, _documents(puzzle, gated=gated)))
    return View(snapshot, VolumeIndex.of(snapshot.volumes.values()))


def _run_as_in_tree(seed: int, pods: int) -> int:
    """Return how many pods the simulator places."""
    view = _view(Puzzle.of(seed, pods), gated=False)
    data = default_data("in-tree")
    data = replace(
        data,
        filters=tuple(name for name in data.filters if name not in _OURS),
        pre_filters=tuple(name for name in data.pre_filters if name not in _OURS),
        scores={name: weight for name, weight in data.scores.items() if name not in _OURS},
    )
    cluster = SimulatedCluster(view_of(view, _NOW))
    outcome = Simulation(cluster, build(data, REGISTRY), concurrent=1, seed=1).run(view.snapshot.pods.values())
    return len(outcome.latencies)


def _run(seed: int, pods: int, few: int) -> tuple[int, float]:
    """Return how many pods were placed, and how many seconds all passes took."""
    puzzle = Puzzle.of(seed, pods)
    view = _view(puzzle, gated=True)
    waiting = [view.snapshot.pods[f"{NAMESPACE}/{name}"] for name in puzzle.pods]
    placed, began = 0, perf_counter()
    for first in range(0, len(waiting), few):
        for decision in plan(view, waiting[first : first + few], _NOW):
            if isinstance(decision, Reserve):
                placed += 1
                view = replace(view, ledger=view.ledger.with_holds(holds_of(decision)))
    return placed, perf_counter() - began


def _documents(puzzle: Puzzle, *, gated: bool) -> Iterator[Document]:
    yield storage_class()
    # 250 pods to a node, and zones in the same order.
    yield from nodes(max(3 * len(DEFAULT_ZONES), len(puzzle.pods) // 30))
    yield from ({**volume, "status": {"phase": "Available"}} for volume in puzzle.volumes)
    for name, sizes in puzzle.pods.items():
        names = [f"{name}-{number}" for number in range(len(sizes))]
        yield from (claim(each, size) for each, size in zip(names, sizes, strict=True))
        yield pod(name, names, gated=gated)
