"""(c) Pairs of a pod and a claim created at once: when they are reserved and bound, with our controller and without.

With our scheduling gate kube-scheduler waits for us; without it kube-scheduler chooses, and mode complete finishes the
binds that it begins.
"""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import quantiles
from time import monotonic
from typing import Final

from bench.control_plane.audit import CONFLICT, EVERYBODY, RequestKind, by, conflicts, counts, entries
from bench.control_plane.documents import NAMESPACE, claim, pod, volume
from bench.control_plane.stage import Stage, in_parallel, stage
from bench.control_plane.timeline import Timeline
from bench.other_work import OtherWork
from bench.progress import say
from bench.rows import Row
from devcluster.control_plane.nodes import DEFAULT_ZONES
from kube.objects.api_resource import CLAIMS, PODS

PAIRS: Final = 500
PREBIND_PAIRS: Final = 2_000
MANY: Final = (2_000, 10_000)

SOONER, PREBIND, PREBIND_LIFTED, COMPLETE, UNGATED = 20.0, 1.0, 4.0, 15.0, 8.0
"""The goals: how many times sooner reservations come than in-tree binds, and how many times more binds a second; the
last one is mode complete without gates."""
LINEAR: Final = 0.8
"""Binds a second with 10,000 pairs are at least this share of those with 500."""

CONFLICTS: Final[Mapping[tuple[str, bool], float]] = {("prebind", True): 0.02, ("complete", False): 0.05}
"""Mode, with a gate or without -> the goal: the maximum number of requests per pair answered with 409."""

RATE, BOUND_P50, BOUND_P99 = "to Bound", "bound p50", "bound p99"
"""Ends of rows' names, after the title of a case."""

MAX_SECONDS: Final = 600.0
"""Seconds after which a run is ended as it is."""
EVENTS_SECONDS: Final = 2.0
"""Events are still being sent then."""


@dataclass(frozen=True, slots=True)
class Case:
    """How pairs are run. No mode means without our controller."""

    pairs: int
    mode: str = ""
    gated: bool = False
    lifted: bool = False
    wait_for_pods: bool = True

    @property
    def title(self) -> str:
        who = f"{self.mode}{', gate' if self.gated else ', no gate'}" if self.mode else "in-tree"
        return f"{self.pairs} pairs, {'lifted' if self.lifted else 'default'} limits, {who}"


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds from the creation of the pod, for those that succeeded."""

    count: int
    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Outcome:
    case: Case
    per_second: float
    """Claims bound, over the time from the first request to the last bind."""
    creating: float
    """Seconds until the last pair was created."""
    reserved: Latency
    bound: Latency
    placed: Latency
    requests: Mapping[RequestKind, int]
    """Requests of components to the API server, by its audit log: from the first pair on until all pods had nodes."""
    beside: float = 0.0
    """Cores that other work kept busy meanwhile."""


async def run_case(case: Case) -> Outcome:
    """Run one case on a control plane of its own."""
    others = OtherWork()
    with tempfile.TemporaryDirectory() as directory:
        outcome = await _run_case(case, Path(directory) / "audit.log")
    return replace(outcome, beside=others.cores())


async def _run_case(case: Case, audit: Path) -> Outcome:
    say(f"{case.title}: starting a control plane")
    async with stage(lifted=case.lifted, pods=case.pairs, audit=audit, audited=EVERYBODY) as ready:
        zones = DEFAULT_ZONES
        await ready.add_volumes([volume(f"volume-{n:05}", zones[n % len(zones)]) for n in range(case.pairs)])
        if case.mode:
            await ready.start_controller(case.mode)
        timeline = Timeline(ready.api)
        say(f"{case.title}: creating and binding")
        async with timeline.following():
            before = len(entries(audit))
            started = monotonic()
            await _create_pairs(ready, timeline, case)
            creating = monotonic() - started
            await timeline.until(lambda seen: len(seen.bound) == case.pairs, MAX_SECONDS)
            if case.wait_for_pods:
                await timeline.until(lambda seen: len(seen.placed) == case.pairs, MAX_SECONDS)
        await asyncio.sleep(EVENTS_SECONDS)
        requests = counts(entries(audit)[before:])
    last = max(timeline.bound.values(), default=started)
    return Outcome(
        case,
        per_second=len(timeline.bound) / (last - started) if timeline.bound else 0.0,
        creating=creating,
        reserved=_latency(timeline, timeline.reserved),
        bound=_latency(timeline, timeline.bound),
        placed=_latency(timeline, timeline.placed),
        requests=requests,
    )


async def _create_pairs(ready: Stage, timeline: Timeline, case: Case) -> None:
    async def create(number: int) -> None:
        name = f"pair-{number:05}"
        await ready.api.create(CLAIMS, claim(name), NAMESPACE)
        timeline.created[name] = monotonic()
        await ready.api.create(PODS, pod(name, [name], gated=case.gated), NAMESPACE)

    await in_parallel(create(number) for number in range(case.pairs))


def _latency(timeline: Timeline, moments: dict[str, float]) -> Latency:
    seconds = sorted(moment - timeline.created[name] for name, moment in moments.items() if name in timeline.created)
    if len(seconds) < 2:
        return Latency(len(seconds), *(seconds * 2 or [float("nan")] * 2))
    cuts = quantiles(seconds, n=100, method="inclusive")
    return Latency(len(seconds), cuts[49], cuts[98])


def cases(pairs: int) -> list[Case]:
    """Return the cases with so many pairs, in-tree first, at default and at lifted limits."""
    result = [Case(pairs, lifted=lifted) for lifted in (False, True)]
    for mode in ("annotate", "prebind", "complete"):
        result += [Case(pairs, mode, gated=True, lifted=lifted) for lifted in (False, True)]
    return [*result, Case(pairs, "prebind"), Case(pairs, "complete")]


def run(quick: bool) -> list[Row]:
    """Run all cases; quick: four with 10 pairs."""
    if quick:
        return measure([Case(10), *(Case(10, mode, gated=True) for mode in ("annotate", "prebind", "complete"))])
    lifted = [Case(PREBIND_PAIRS, lifted=True), Case(PREBIND_PAIRS, "prebind", gated=True, lifted=True)]
    many = [Case(pairs, "complete", gated=True, wait_for_pods=False) for pairs in MANY]
    return measure([*cases(PAIRS), *lifted, *many])


def measure(chosen: Sequence[Case]) -> list[Row]:
    """Run these cases one after the other and compare each with the in-tree one of the same size and limits.

    With repetitions, each case alternates with its reference.
    """
    outcomes: list[Outcome] = []
    rows: list[Row] = []
    for case in chosen:
        outcome = asyncio.run(run_case(case))
        say(f"{case.title}: {outcome.per_second:.1f} pairs/s, bound p50 {outcome.bound.p50:.1f} s")
        outcomes.append(outcome)
        rows += [replace(row, beside=outcome.beside) for row in _rows(outcome)]
    return rows + _comparisons(outcomes)


def _rows(outcome: Outcome) -> list[Row]:
    title = outcome.case.title
    bound, placed = outcome.bound, outcome.placed
    details = f"{bound.count} bound, created in {outcome.creating:.1f} s"
    return [
        Row(f"{title}: {RATE}", outcome.per_second, "pairs/s", details),
        Row(f"{title}: reserved p50", outcome.reserved.p50, "s", f"p99 {outcome.reserved.p99:.2f} s"),
        Row(f"{title}: {BOUND_P50}", bound.p50, "s"),
        Row(f"{title}: {BOUND_P99}", bound.p99, "s"),
        Row(f"{title}: on a node p50", placed.p50, "s", f"p99 {placed.p99:.2f} s, {placed.count} pods"),
        *_requests(outcome),
    ]


def _requests(outcome: Outcome) -> list[Row]:
    """The API server requests of a pair, by component. Counts hardly depend on the machine."""
    case, requests = outcome.case, outcome.requests
    late = {each: count for each, count in requests.items() if each.code == CONFLICT}
    details = ", ".join(f"{each.agent} {_share(each, count, case)}" for each, count in late.items())
    goal = CONFLICTS.get((case.mode, case.gated))
    rows = [Row(f"{case.title}: answered 409", conflicts(requests) / case.pairs, "a pair", details, at_most=goal)]
    for agent in sorted({each.agent for each in requests}):
        written = by(agent, requests, writes=True)
        details = ", ".join(_share(each, count, case) for each, count in by(agent, requests).items())
        rows.append(Row(f"{case.title}: writes, {agent}", sum(written.values()) / case.pairs, "a pair", details))
    return rows


def _share(request: RequestKind, count: int, case: Case) -> str:
    return f"{count / case.pairs:.2f} {request}"


def _comparisons(outcomes: Sequence[Outcome]) -> list[Row]:
    in_tree = {(outcome.case.pairs, outcome.case.lifted): outcome for outcome in outcomes if not outcome.case.mode}
    rows = []
    for outcome in outcomes:
        base = in_tree.get((outcome.case.pairs, outcome.case.lifted))
        if base is not None and outcome.case.mode:
            rows += _compared(outcome, base)
    return rows + _linearity(outcomes)


def _compared(outcome: Outcome, base: Outcome) -> list[Row]:
    case, beside = outcome.case, max(outcome.beside, base.beside)
    sooner, faster = base.bound.p50 / outcome.reserved.p50, outcome.per_second / base.per_second
    gate = SOONER if case.gated and not case.lifted and case.pairs >= PAIRS else None
    details = "in-tree bound p50 / reserved p50", "pairs/s to Bound, to in-tree"
    return [
        Row(f"{case.title}: reserved sooner", sooner, "x", details[0], at_least=gate, beside=beside),
        Row(f"{case.title}: bound faster", faster, "x", details[1], at_least=_goal(case), beside=beside),
    ]


def _goal(case: Case) -> float | None:
    if case.pairs < PAIRS:
        return None
    if case.mode == "complete":
        return None if case.lifted else COMPLETE if case.gated else UNGATED
    if case.mode == "prebind" and case.lifted:
        return PREBIND_LIFTED if case.pairs >= PREBIND_PAIRS else None
    return PREBIND if case.mode == "prebind" else None


def _linearity(outcomes: Sequence[Outcome]) -> list[Row]:
    complete = [
        outcome
        for outcome in outcomes
        if outcome.case.mode == "complete"
        and outcome.case.gated
        and not outcome.case.lifted
        and outcome.case.pairs >= PAIRS
    ]
    ordered = sorted(complete, key=lambda outcome: outcome.case.pairs)
    return [
        Row(
            f"complete, {outcome.case.pairs} pairs to {ordered[0].case.pairs}",
            outcome.per_second / ordered[0].per_second,
            "x",
            "pairs/s",
            at_least=LINEAR,
            beside=max(outcome.beside, ordered[0].beside),
        )
        for outcome in ordered[1:]
    ]
