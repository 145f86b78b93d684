"""(j) Our scheduler beside kube-scheduler: pods a second, time to a node, memory and processor, in one run.

Each placement begins with an empty control plane of its own. All pods are created while the
scheduler is suspended; from the moment it is resumed time runs for each pod until a watcher sees the pod's node. Every
placement is verified by a checker that shares no rule with either scheduler.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from bench.progress import say
from bench.rows import Row
from bench.scheduling.contest import Contender, Outcome, Size
from bench.scheduling.contest import run as place

SIZES: Final = (
    Size(100, 2_000, rounds=3),
    Size(1_000, 5_000, rounds=3),
    Size(100, 500, volumes=True, rounds=3),
    Size(100, 2_000, kwok=True, rounds=3),
)
QUICK: Final = (Size(5, 20), Size(5, 5, volumes=True))
FASTER: Final = 3.9
"""Goal: pods a second, to kube-scheduler's with its default client limits."""
LIFTED_FASTER: Final = 1.2
"""The same to kube-scheduler's without limits."""

DEFAULT, LIFTED = Contender(ours=False, lifted=False), Contender(ours=False, lifted=True)
OURS, OURS_LIFTED = Contender(ours=True, lifted=False), Contender(ours=True, lifted=True)


def run(quick: bool) -> list[Row]:
    """Measure four sizes; quick: 20 pods and 5 with volumes on 5 nodes, once."""
    return measure(QUICK if quick else SIZES)


def measure(sizes: Sequence[Size]) -> list[Row]:
    return [row for size in sizes for row in rows(size, _outcomes(size))]


def contenders(size: Size) -> tuple[Contender, ...]:
    """Return the schedulers to measure. Volumes are bound by the controller manager, whose limits then count for ours
    too.
    """
    return (DEFAULT, OURS, LIFTED, OURS_LIFTED) if size.volumes else (DEFAULT, OURS, LIFTED)


def _outcomes(size: Size) -> dict[Contender, list[Outcome]]:
    """Run all contenders in turn, in reverse order in every other round."""
    outcomes: dict[Contender, list[Outcome]] = {each: [] for each in contenders(size)}
    for number in range(size.rounds):
        for each in contenders(size)[:: -1 if number % 2 else 1]:
            outcome = asyncio.run(place(size, each))
            say(f"  {outcome.per_second:.0f} pods/s, p99 {outcome.p99:.2f} s, {len(outcome.violations)} violations")
            for line in outcome.violations[:10]:
                say(f"  {line}")
            outcomes[each].append(outcome)
    return outcomes


def rows(size: Size, outcomes: Mapping[Contender, list[Outcome]]) -> list[Row]:
    measured = [
        row for each, results in outcomes.items() for row in _measured(f"{size.title}: {each.title}", size, results)
    ]
    ours_lifted = outcomes.get(OURS_LIFTED, outcomes[OURS])
    measured += _compared(size, outcomes[OURS], outcomes[DEFAULT], "default limits", FASTER)
    return measured + _compared(size, ours_lifted, outcomes[LIFTED], "limits lifted", LIFTED_FASTER)


def _measured(title: str, size: Size, outcomes: list[Outcome]) -> list[Row]:
    """Medians and ranges; of the worst round the pods that were not placed and what the checker found."""
    busy, seconds = median(outcome.busy for outcome in outcomes), median(outcome.seconds for outcome in outcomes)
    server = median(outcome.api_server for outcome in outcomes)
    peak = median(outcome.scheduler.peak for outcome in outcomes)
    used = f"{busy:.2f} of a core; API server {server:.1f} s, {server / seconds:.2f} of a core"
    worst = max(outcomes, key=lambda outcome: len(outcome.violations))
    p50 = median(outcome.p50 for outcome in outcomes)
    rows = [
        Row.of_rounds(f"{title}: pods", [outcome.per_second for outcome in outcomes], "pods/s"),
        Row.of_rounds(f"{title}: to a node p99", [outcome.p99 for outcome in outcomes], "s", f"p50 {p50:.2f} s"),
        Row.of_rounds(f"{title}: memory", _memory(outcomes), "MB", f"peak {peak:.0f} MB"),
        Row.of_rounds(f"{title}: processor time", [outcome.scheduler.processor for outcome in outcomes], "s", used),
        Row(f"{title}: not placed", max(size.pods - outcome.placed for outcome in outcomes), "pods", at_most=0),
        Row(f"{title}: violations", len(worst.violations), "", "; ".join(worst.violations[:3]), at_most=0),
    ]
    return [replace(row, beside=_beside(outcomes)) for row in rows]


def _memory(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.scheduler.memory for outcome in outcomes]


def _beside(outcomes: Sequence[Outcome]) -> float:
    return max(outcome.beside for outcome in outcomes)


def _compared(size: Size, ours: list[Outcome], theirs: list[Outcome], against: str, faster: float) -> list[Row]:
    """Return ours to theirs, round by round."""
    title = f"{size.title}: ours to kube-scheduler, {against}"
    rates = _ratios([outcome.per_second for outcome in ours], [outcome.per_second for outcome in theirs])
    latest = _ratios([outcome.p99 for outcome in ours], [outcome.p99 for outcome in theirs])
    rows = [
        replace(Row.of_rounds(f"{title}: pods/s", rates, "x"), at_least=faster),
        replace(Row.of_rounds(f"{title}: p99", latest, "x"), at_most=1.0),
        replace(Row.of_rounds(f"{title}: memory", _ratios(_memory(ours), _memory(theirs)), "x"), at_most=1.0),
    ]
    return [replace(row, beside=max(_beside(ours), _beside(theirs))) for row in rows]


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]
