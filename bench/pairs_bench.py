"""(c) Pairs of a pod and a claim created at once: when they are reserved and bound, with our controller and without.

With our scheduling gate kube-scheduler waits for us; without it kube-scheduler chooses, and mode complete finishes the
binds that it begins.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from bench.pairs import Case, Outcome, run_case
from bench.progress import say
from bench.rows import Row

PAIRS: Final = 500
PREBIND_PAIRS: Final = 2_000
MANY: Final = (2_000, 10_000)

SOONER, PREBIND, PREBIND_LIFTED, COMPLETE = 20.0, 1.2, 4.0, 15.0
"""The goals: how many times sooner reservations come than in-tree binds, and how many times more binds a second."""
LINEAR: Final = 0.8
"""Binds a second with 10,000 pairs are at least this share of those with 500."""


def cases(pairs: int) -> list[Case]:
    """Return the cases with so many pairs, in-tree first, at default and at lifted limits."""
    found = [Case(pairs, lifted=lifted) for lifted in (False, True)]
    for mode in ("annotate", "prebind", "complete"):
        found += [Case(pairs, mode, gated=True, lifted=lifted) for lifted in (False, True)]
    return [*found, Case(pairs, "prebind"), Case(pairs, "complete")]


def run(quick: bool) -> list[Row]:
    """Run all cases; quick: four with 10 pairs."""
    if quick:
        return measure([Case(10), *(Case(10, mode, gated=True) for mode in ("annotate", "prebind", "complete"))])
    lifted = [Case(PREBIND_PAIRS, lifted=True), Case(PREBIND_PAIRS, "prebind", gated=True, lifted=True)]
    many = [Case(pairs, "complete", gated=True, wait_for_pods=False) for pairs in MANY]
    return measure([*cases(PAIRS), *lifted, *many])


def measure(chosen: Sequence[Case]) -> list[Row]:
    """Run these cases one after the other and compare each with the in-tree one of the same size and limits."""
    outcomes: list[Outcome] = []
    rows: list[Row] = []
    for case in chosen:
        outcome = asyncio.run(run_case(case))
        say(f"{case.title}: {outcome.per_second:.1f} pairs/s, bound p50 {outcome.bound.p50:.1f} s")
        outcomes.append(outcome)
        rows += _rows(outcome)
    return rows + _comparisons(outcomes)


def _rows(outcome: Outcome) -> list[Row]:
    title = outcome.case.title
    bound, placed = outcome.bound, outcome.placed
    told = f"{bound.count} bound, created in {outcome.creating:.1f} s, {outcome.conflicts} of our writes were too late"
    return [
        Row(f"{title}: to Bound", outcome.per_second, "pairs/s", told),
        Row(f"{title}: reserved p50", outcome.reserved.p50, "s", f"p99 {outcome.reserved.p99:.2f} s"),
        Row(f"{title}: bound p50", bound.p50, "s", f"p99 {bound.p99:.2f} s"),
        Row(f"{title}: on a node p50", placed.p50, "s", f"p99 {placed.p99:.2f} s, {placed.count} pods"),
    ]


def _comparisons(outcomes: Sequence[Outcome]) -> list[Row]:
    in_tree = {(one.case.pairs, one.case.lifted): one for one in outcomes if not one.case.mode}
    rows = []
    for one in outcomes:
        base = in_tree.get((one.case.pairs, one.case.lifted))
        if base is None or not one.case.mode:
            continue
        sooner, faster = base.bound.p50 / one.reserved.p50, one.per_second / base.per_second
        gate = SOONER if one.case.gated and not one.case.lifted else None
        told = "in-tree bound p50 / reserved p50"
        rows.append(Row(f"{one.case.title}: reserved sooner", sooner, "x", told, at_least=gate))
        told = "pairs/s to Bound, to in-tree"
        rows.append(Row(f"{one.case.title}: bound faster", faster, "x", told, at_least=_goal(one.case)))
    return rows + _linearity(outcomes)


def _goal(case: Case) -> float | None:
    if case.mode == "complete":
        return None if case.lifted else COMPLETE
    if case.mode == "prebind" and case.lifted:
        return PREBIND_LIFTED if case.pairs >= PREBIND_PAIRS else None
    return PREBIND if case.mode == "prebind" else None


def _linearity(outcomes: Sequence[Outcome]) -> list[Row]:
    found = [one for one in outcomes if one.case.mode == "complete" and one.case.gated and not one.case.lifted]
    ordered = sorted(found, key=lambda one: one.case.pairs)
    return [
        Row(
            f"complete, {one.case.pairs} pairs to {ordered[0].case.pairs}",
            one.per_second / ordered[0].per_second,
            "x",
            "pairs/s",
            at_least=LINEAR,
        )
        for one in ordered[1:]
    ]
