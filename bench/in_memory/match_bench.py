"""Match one claim among many volumes: our index beside the FindMatchingVolume of Kubernetes, in one run.

Both sides match the same 64 claims on the same volumes, and the results are compared before anything is timed.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Final

from bench.go_command import run_go
from bench.in_memory.match_volumes import LAYOUTS, QUERIES, QUESTIONS, query, volumes
from bench.rows import Row
from binder.matching.index import VolumeIndex
from kube.objects.model import Volume

UPSTREAM: Final = Path(__file__).with_name("upstream")

_ROUNDS: Final = 20
_TIMING: Final = re.compile(r"^BenchmarkFindMatchingVolume/(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op", re.MULTILINE)
_ANSWERS: Final = re.compile(r"^answers (\S+) (\S+)$", re.MULTILINE)


def run(quick: bool) -> list[Row]:
    """Measure among 1,000 and 10,000 volumes, and 100,000 unless `quick`. ClusterError when there is no Go."""
    counts = (1_000, 10_000) if quick else (1_000, 10_000, 100_000)
    timings, answers = upstream(counts)
    rows: list[Row] = []
    for count in counts:
        for layout in LAYOUTS:
            made = volumes(count, layout)
            rows += _index_rows(count, layout, made)
            index = VolumeIndex.of(made)
            for question in QUESTIONS:
                name = f"{layout}/{question}/{count}"
                rows += _compared(name, index, timings[name], answers[name])
    return [*rows, *_flatness(rows, counts)]


def upstream(counts: Sequence[int]) -> tuple[dict[str, float], dict[str, list[str]]]:
    """Run the Go benchmark; return nanoseconds and the volumes found, by `layout/asked/count`."""
    arguments = ["test", "-vet=off", "-count=1", "-run=Answers", "-bench=.", "-benchtime=20x", "-timeout=30m", "."]
    output = run_go(arguments, UPSTREAM, {"VOLUMES": ",".join(map(str, counts))})
    timings = {name: float(nanoseconds) for name, nanoseconds in _TIMING.findall(output)}
    return timings, {name: answer.split(",") for name, answer in _ANSWERS.findall(output)}


def _compared(name: str, index: VolumeIndex, theirs: float, answers: list[str]) -> Iterator[Row]:
    layout, question, count = name.split("/")
    queries = [query(number, int(count), layout, question) for number in range(QUERIES)]
    results = [index.smallest(claim, labels) for claim, labels in queries]
    if [volume.name if volume else "-" for volume in results] != answers:
        raise AssertionError(f"{name}: ours and FindMatchingVolume do not agree")
    ours = median(_timed(partial(index.smallest, *query)) for _ in range(_ROUNDS) for query in queries)
    yield Row(f"match {name}: ours", ours / 1e6, "ms", f"median, {QUERIES} claims {_ROUNDS} times")
    yield Row(f"match {name}: FindMatchingVolume", theirs / 1e6, "ms", "mean of 20 claims")
    yield Row(f"match {name}: ratio", theirs / ours, "x", f"{QUERIES} answers equal")


def _index_rows(count: int, layout: str, made: list[Volume]) -> Iterator[Row]:
    index = VolumeIndex()

    def build() -> None:
        nonlocal index
        index = VolumeIndex.of(made)

    yield Row(f"index {layout}/{count}: build", _timed(build) / 1e6, "ms")
    changed = [volume for volume in made if volume.claim is None][:: max(1, count // 1000)]

    def change() -> None:
        later = index
        for volume in changed:
            later = later.with_volume(volume, None).with_volume(None, volume)

    each = _timed(change) / len(changed) / 1e6
    yield Row(f"index {layout}/{count}: take a volume out and put it back", each, "ms", "the index held stays as it is")


def _flatness(rows: Sequence[Row], counts: Sequence[int]) -> Iterator[Row]:
    values = {row.name: row.value for row in rows}
    fewest, most = counts[0], counts[-1]
    for layout in LAYOUTS:
        for question in QUESTIONS:
            growth = (
                values[f"match {layout}/{question}/{most}: ours"] / values[f"match {layout}/{question}/{fewest}: ours"]
            )
            yield Row(f"match {layout}/{question}: {most} against {fewest} volumes", growth, "x", "1 is flat")


def _timed(action: Callable[[], object]) -> float:
    start = perf_counter_ns()
    action()
    return perf_counter_ns() - start


if __name__ == "__main__":
    for row in run(quick="--quick" in sys.argv):
        print(f"{row.name:<60} {row.value:12.4f} {row.unit:<3} {row.detail}")
