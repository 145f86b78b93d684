"""A simulation's result as JSON says it, and as a table for people."""

from collections.abc import Iterator

from msgspec import Struct
from rich.text import Text

from prebinder.match_report import console_for, plain_table
from scheduler.simulation_summary import Summary, Use


class WhatIf(Struct, frozen=True, rename="camel"):
    """What was changed after the run, how many pods lost their node by it, and what became of them."""

    drained: tuple[str, ...]
    zones_down: tuple[str, ...]
    displaced: int
    result: Summary


class Report(Struct, frozen=True, rename="camel"):
    """The whole answer."""

    seed: int
    concurrent: int
    result: Summary
    what_if: WhatIf | None = None
    api_version: str = "pvc-prebinder/v1alpha1"
    kind: str = "SimulationReport"


def print_report(report: Report) -> None:
    """Print the figures, with those of the change beside them if there is one."""
    console = console_for()
    columns = [report.result]
    headers = ["", "RESULT"]
    if report.what_if is not None:
        changed = [f"{name} drained" for name in report.what_if.drained]
        changed += [f"{name} gone" for name in report.what_if.zones_down]
        headers.append(f"WITH {', '.join(changed)}")
        columns.append(report.what_if.result)
    figures = plain_table(*headers)
    for rows in zip(*(_rows(summary, columns) for summary in columns), strict=True):
        figures.add_row(rows[0][0], *(Text(value) for _, value in rows))
    console.print(figures)
    console.print(Text("Times are simulated: see pvc-prebinder simulate --help", style="dim"))


def _rows(summary: Summary, all_of_them: list[Summary]) -> Iterator[tuple[str, str]]:
    """Yield name and figure. Reasons and zones that only one of the columns has stand in all of them."""
    yield "nodes", str(summary.nodes)
    yield "pods", str(summary.pods)
    yield "placed", str(summary.placed)
    yield "failed", str(summary.failed)
    for reason in sorted({reason for one in all_of_them for reason in one.failures}):
        yield f"  {reason}", str(summary.failures.get(reason, 0))
    yield "pods/s", f"{summary.pods_per_second:,.1f}"
    latency = summary.latency_milliseconds
    yield "latency p50, p90, p99", f"{latency.p50:,.1f}, {latency.p90:,.1f}, {latency.p99:,.1f} ms"
    yield "revised, in conflict", f"{summary.revisions}, {summary.conflicts} of {summary.decisions} decisions"
    for resource, use in summary.utilisation.items():
        yield f"{resource} in use", _use(use)
    for zone in sorted({zone for one in all_of_them for zone in one.pods_by_zone}):
        yield f"pods in {zone}", str(summary.pods_by_zone.get(zone, "-"))
    yield "zone skew", str(summary.zone_skew)
    yield "volumes bound", str(summary.volumes_bound)


def _use(use: Use) -> str:
    return f"{use.mean:.1%} (nodes {use.least:.1%} to {use.most:.1%})"
