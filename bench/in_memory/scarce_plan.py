"""The puzzles of part d without a control plane: which pods a pass places, and in what time.

All pods are there before the first pass, or they come one after the other and nothing that was promised moves.
"""

from collections.abc import Iterator
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

SEEDS: Final = range(1, 21)
LARGE_SEEDS: Final = range(1, 4)
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


def run(quick: bool) -> list[Row]:
    """Measure 20 puzzles of 100 pods and three of 1,000; quick: two of 20 pods."""
    seeds, large, pods = (SEEDS[:2], (), 20) if quick else (SEEDS, LARGE_SEEDS, 100)
    rows = _together(seeds, pods, at_most=None)
    rows += _together(large, 10 * pods, at_most=5.0) if large else []
    return [*rows, *(row for few in (20, 1) for row in _in_turn(seeds, pods, few))]


def _together(seeds: range, pods: int, at_most: float | None) -> list[Row]:
    say(f"{pods} pods at once, {len(seeds)} seeds")
    runs = [_run(seed, pods, pods) for seed in seeds]
    what = f"{len(seeds)} seeds, all pods there before the first pass"
    placed = sorted(placed for placed, _ in runs)
    return [
        Row(f"{pods} pods at once: placed in the worst seed", placed[0], "pods", what, at_least=pods),
        Row(f"{pods} pods at once: longest plan", max(took for _, took in runs), "s", what, at_most=at_most),
    ]


def _in_turn(seeds: range, pods: int, few: int) -> list[Row]:
    say(f"{pods} pods, {few} in a pass, {len(seeds)} seeds")
    placed = sorted(_run(seed, pods, few)[0] for seed in seeds)
    detail = f"{placed[0]} to {placed[-1]} in {len(seeds)} seeds"
    return [Row(f"{pods} pods, {few} in a pass: placed, median", median(placed), "pods", detail)]


def _run(seed: int, pods: int, few: int) -> tuple[int, float]:
    """Return how many pods were placed, and how many seconds all passes took."""
    puzzle = Puzzle.of(seed, pods)
    snapshot = snapshot_of(map(record_of, _documents(puzzle)))
    view = View(snapshot, VolumeIndex.of(snapshot.volumes.values()))
    waiting = [snapshot.pods[f"{NAMESPACE}/{name}"] for name in puzzle.pods]
    placed, began = 0, perf_counter()
    for first in range(0, len(waiting), few):
        for decision in plan(view, waiting[first : first + few], _NOW):
            if isinstance(decision, Reserve):
                placed += 1
                view = replace(view, ledger=view.ledger.with_holds(holds_of(decision, _NOW)))
    return placed, perf_counter() - began


def _documents(puzzle: Puzzle) -> Iterator[Document]:
    yield storage_class()
    # 250 pods to a node, and zones in the same order.
    yield from nodes(max(3 * len(DEFAULT_ZONES), len(puzzle.pods) // 30))
    yield from ({**volume, "status": {"phase": "Available"}} for volume in puzzle.volumes)
    for name, sizes in puzzle.pods.items():
        names = [f"{name}-{number}" for number in range(len(sizes))]
        yield from (claim(each, size) for each, size in zip(names, sizes, strict=True))
        yield pod(name, names, gated=True)
