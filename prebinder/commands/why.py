"""`pvc-prebinder why`: the root cause of a pending pod or claim, its evidence, and what to type next."""

import asyncio
import sys
from datetime import UTC, datetime
from typing import Final

import cloup
from rich.console import Console

from prebinder.command_line.command import Command
from prebinder.command_line.parameters import FILE, OneOf, Reading
from prebinder.errors import ExitCode, UsageError
from prebinder.reports.volume_access import ClusterAccess, access_flags, cluster_connection
from prebinder.why.answering import answer_live, report_on
from prebinder.why.reading.file import facts_from
from prebinder.why.reading.live import LiveReader
from prebinder.why.rendering.documents import as_json, as_names, as_yaml
from prebinder.why.rendering.text import print_report
from prebinder.why.report.report import WhyReport
from prebinder.why.targets import Target, parse_target

EXAMPLES: Final = """
Examples:
  pvc-prebinder why pod/web-0 -n shop
  pvc-prebinder why data-web-0 -o wide
  pvc-prebinder why -n shop                             everything that waits in a namespace
  kubectl get pv,pvc,sc,node,pod,csidriver,csinode,event -A -o json | pvc-prebinder why -A -f -
  kubectl delete $(pvc-prebinder why -o name pvc/tmp)

Exit codes:
  0 nothing is wrong, waiting as it should included   1 error   2 usage
  3 a problem was found   4 inconclusive: something that matters could not be read
"""

_PLAIN_WIDTH: Final = 100
"""Columns where the output is not a terminal."""


@cloup.command("why", cls=Command, examples=EXAMPLES)
@cloup.argument("targets", nargs=-1, type=Reading("target", parse_target), metavar="[pod/NAME | pvc/NAME | NAME]...")
@cloup.option("-n", "--namespace", metavar="NAME", help="default that of the kubeconfig's context")
@cloup.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="everything that waits in the cluster")
@cloup.option(
    "-f",
    "--filename",
    "filenames",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="objects as YAML documents, JSON or lists instead of a cluster; - is standard input; repeatable",
)
@cloup.option(
    "-o",
    "--output",
    type=OneOf(("text", "wide", "json", "yaml", "name")),
    default="text",
    metavar="FORM",
    help="text (default), wide, json, yaml or name",
)
@cloup.option(
    "--color",
    type=OneOf(("auto", "always", "never")),
    default="auto",
    metavar="WHEN",
    help="auto (default), always or never",
)
@access_flags
def command(  # noqa: PLR0913, PLR0917 - one for each flag
    access: ClusterAccess,
    targets: tuple[Target, ...],
    namespace: str | None,
    everywhere: bool,
    filenames: tuple[str, ...],
    output: str,
    color: str,
) -> int:
    """Finds why a pod or a PersistentVolumeClaim is pending: one root cause, its evidence, and what to type next.

    Reads with your own permissions and needs no controller. What you may not read is named; where the answer depends
    on it, the answer is "Inconclusive" and never a guess. Without a name, everything that waits in the namespace is
    explained. With --filename the answer comes from the objects in the input alone.
    """
    if everywhere and targets:
        raise UsageError("--all-namespaces explains everything that waits; leave out the names, or name a --namespace")
    now = datetime.now(UTC)
    if filenames:
        facts, faults = facts_from(filenames, sys.stdin.buffer, now, access.annotation_prefix)
        for fault in faults:
            sys.stderr.write(f"pvc-prebinder why: {fault}\n")
        report = report_on(facts, targets, "" if everywhere else namespace or ("default" if targets else ""))
    else:
        report = asyncio.run(_live(access, targets, namespace, everywhere=everywhere, now=now))
    _print(report, output, color, now)
    return _exit_code(report)


async def _live(
    access: ClusterAccess, targets: tuple[Target, ...], namespace: str | None, *, everywhere: bool, now: datetime
) -> WhyReport:
    async with cluster_connection(access) as (api, own_namespace):
        chosen = "" if everywhere else namespace or own_namespace
        reader = LiveReader(api, chosen, access.annotation_prefix)
        report = await answer_live(reader, targets, chosen, now)
    for fault in reader.faults:
        sys.stderr.write(f"pvc-prebinder why: left out {fault}\n")
    return report


def _print(report: WhyReport, output: str, color: str, now: datetime) -> None:
    documents = {"json": as_json, "yaml": as_yaml, "name": as_names}
    if output in documents:
        text = documents[output](report)
        sys.stdout.write(f"{text}\n" if text else "")
        return
    console = console_for(color)
    if not report.items:
        console.print("Nothing waits.")
    print_report(report, console, now, wide=output == "wide")


def console_for(color: str) -> Console:
    """Return a console on the standard output; off a terminal it is plain, unless colours are asked for."""
    console = Console(
        highlight=False, force_terminal=True if color == "always" else None, no_color=True if color == "never" else None
    )
    return (
        console
        if sys.stdout.isatty()
        else Console(highlight=False, width=_PLAIN_WIDTH, force_terminal=True if color == "always" else None)
    )


def _exit_code(report: WhyReport) -> int:
    if any(item.problem and item.conclusive for item in report.items):
        return ExitCode.PROBLEM_FOUND
    if any(not item.conclusive for item in report.items):
        return ExitCode.INCONCLUSIVE
    return ExitCode.FINE
