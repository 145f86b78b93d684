"""A simulation's result as JSON, and as a table for people."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct
from rich.text import Text

from scheduler.simulator.nodes_needed import NodesNeeded
from scheduler.simulator.summary import Summary, Use
from why.rendering.tables import PlainTable, console_for, plain

_MAX_NAMED: Final = 10
"""Pods named in a table; JSON has all."""


class WhatIf(Struct, frozen=True, rename="camel"):
    """What was changed after the run, how many pods lost their node or data by it, and the result.

    `without_data` are those whose claims had failed volumes: they start over with empty ones.
    """

    changes: tuple[str, ...]
    displaced: int
    without_data: tuple[str, ...]
    result: Summary


class Needed(Struct, frozen=True, rename="camel"):
    """Nodes that would let more pods be placed: how many like which node, and which pods no such node helps."""

    nodes: int
    like: dict[str, int]
    pods: int
    placed: int
    failed: int
    failures: dict[str, int]


class Report(Struct, frozen=True, rename="camel"):
    """The whole result. `limits` are what it cannot answer because objects are missing in the dump."""

    seed: int
    concurrent: int
    now: datetime
    limits: tuple[str, ...]
    result: Summary
    what_if: WhatIf | None = None
    nodes_needed: Needed | None = None
    api_version: str = "pvc-prebinder/v1alpha1"
    kind: str = "SimulationReport"


def needed_of(needed: NodesNeeded, pods: int) -> Needed:
    """Return the part of the report about the nodes needed for that many pods."""
    failures = Counter(needed.failed.values())
    return Needed(
        nodes=sum(needed.added.values()),
        like=dict(sorted(needed.added.items())),
        pods=pods,
        placed=needed.placed,
        failed=pods - needed.placed,
        failures={str(reason): count for reason, count in sorted(failures.items())},
    )


def print_report(report: Report) -> None:
    """Print the figures, with those of the change beside them if there is one."""
    console = console_for()
    columns = [report.result]
    headers = ["", "RESULT"]
    if report.what_if is not None:
        headers.append(f"WITH {', '.join(report.what_if.changes)}")
        columns.append(report.what_if.result)
    figures = PlainTable(*headers)
    for rows in zip(*(_rows(summary, columns) for summary in columns), strict=True):
        figures.add_texts(rows[0][0], *(Text(value) for _, value in rows))
    console.print(figures)
    if report.what_if is not None and report.what_if.without_data:
        console.print(plain(_without_data(report.what_if.without_data)))
    if report.nodes_needed is not None:
        console.print(plain(_needed(report.nodes_needed)))
    for limit in report.limits:
        console.print(plain(f"Limitation: {limit}"))
    console.print(plain("Times are simulated: see pvc-prebinder simulate --help", style="dim"))


def _without_data(pods: Sequence[str]) -> str:
    more = f" and {len(pods) - _MAX_NAMED} more" if len(pods) > _MAX_NAMED else ""
    return f"Pods without their data: {', '.join(pods[:_MAX_NAMED])}{more}"


def _needed(needed: Needed) -> str:
    if not needed.pods:
        return "Nodes needed: none, every pod is placed"
    like = ", ".join(f"{count} like {name}" for name, count in needed.like.items()) or "0"
    helped = f"Nodes needed: {like}, for {needed.placed} of {needed.pods} pods that are not placed"
    if not needed.failed:
        return helped
    failures = ", ".join(f"{reason} {count}" for reason, count in needed.failures.items())
    return f"{helped}; the others fit on no new node: {failures}"


def _rows(summary: Summary, all_of_them: list[Summary]) -> Iterator[tuple[str, str]]:
    """Yield name and figure. Reasons and zones that occur in only one of the columns are shown in all of them."""
    yield "nodes", str(summary.nodes)
    yield "pods", str(summary.pods)
    yield "placed", str(summary.placed)
    yield "failed", str(summary.failed)
    for reason in sorted({reason for summary in all_of_them for reason in summary.failures}):
        yield f"  {reason}", str(summary.failures.get(reason, 0))
    yield "pods/s", f"{summary.pods_per_second:,.1f}"
    latency = summary.latency_milliseconds
    yield "latency p50, p90, p99", f"{latency.p50:,.1f}, {latency.p90:,.1f}, {latency.p99:,.1f} ms"
    yield "revised, in conflict", f"{summary.revisions}, {summary.conflicts} of {summary.decisions} decisions"
    for resource, use in summary.utilisation.items():
        yield f"{resource} in use", _use(use)
    for zone in sorted({zone for summary in all_of_them for zone in summary.pods_by_zone}):
        yield f"pods in {zone}", str(summary.pods_by_zone.get(zone, "-"))
    yield "zone skew", str(summary.zone_skew)
    yield "volumes bound", str(summary.volumes_bound)


def _use(use: Use) -> str:
    return f"{use.mean:.1%} (nodes {use.least:.1%} to {use.most:.1%})"
