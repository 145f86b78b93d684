"""(n) Pairs a second and latency over the number of pairs: in-tree, prebind and complete at default limits.

The chart of docs/performance.md is drawn from these rows (`bench.chart`).
"""

from collections.abc import Iterable
from typing import Final

from bench.control_plane.pairs_bench import Case, measure
from bench.rows import Row

MODES: Final = ("", "prebind", "complete")
"""The lines of the chart; without a mode our controller does not run."""
SIZES: Final = (50, 100, 200, 500)
MORE: Final = (1_000, 2_000)
"""In mode complete only: at default limits Kubernetes binds 5 pairs a second."""


def case(mode: str, pairs: int) -> Case:
    """Return a point of the chart: gated pods where our controller runs."""
    return Case(pairs, mode, gated=bool(mode))


def cases(sizes: Iterable[int]) -> list[Case]:
    """Return each size with each mode in turn."""
    return [case(mode, pairs) for pairs in sizes for mode in MODES]


def run(quick: bool) -> list[Row]:
    """Run each size in turn with each mode; quick: 5 and 10 pairs."""
    if quick:
        return measure(cases((5, 10)))
    return measure([*cases(SIZES), *(case("complete", pairs) for pairs in MORE)])
