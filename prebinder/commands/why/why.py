"""`pvc-prebinder why`: the root cause of a pending pod or claim, its evidence, and the next command.

With --match, which `pvc-prebinder match` stands for, it reports which volume Kubernetes itself would pick.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import click
import cloup
import msgspec
from rich.console import Console

from binder.matching.rejection import Reason
from prebinder.command_line.cluster_access import ClusterAccess, access_flags, cluster_connection
from prebinder.command_line.command import Command, as_typed
from prebinder.command_line.output import Output, output_flags
from prebinder.command_line.parameters import FILE, OneOf
from prebinder.command_line.standard_input import announce_waiting
from prebinder.commands.why.match import MatchFlags, match_flags, print_matches
from prebinder.commands.why.request import WhyRequest, request_flags
from prebinder.commands.why.serve import ServeFlags, serve_flags, serve_page
from prebinder.errors import CommandError, ExitCode, UsageError
from why.explain.answering import answer_live, report_on, with_faults
from why.reading.dump import read_dump
from why.reading.live import LiveReader
from why.rendering.lines import warn
from why.rendering.printer import Printer
from why.report.report import WhyReport

if TYPE_CHECKING:
    from prebinder.command_line.json_path import JsonPathTemplate

DUMPED: Final = "pv,pvc,sc,node,pod,csidriver,csinode,csistoragecapacity,volumeattachment,event,quota,lease"
"""What `why` reads, as kubectl names it."""

EXAMPLES: Final = f"""
Examples:
  pvc-prebinder why pod/web-0 -n shop
  pvc-prebinder why sts/web -n shop                     the pods of a StatefulSet; also deploy/NAME, job/NAME
  pvc-prebinder why data-web-0 -o wide
  pvc-prebinder why -n shop                             everything pending in a namespace
  pvc-prebinder why dump -A > dump.json                 what -f reads; or, with kubectl alone:
  kubectl get {DUMPED} \\
    -A -o json > dump.json
  pvc-prebinder why -A -f dump.json                     also -f DIRECTORY or -f ARCHIVE, such as a must-gather
  pvc-prebinder why -A                                  one line for each cause in the cluster
  pvc-prebinder why pod/web-0 -w                        until it runs
  kubectl -n shop describe $(pvc-prebinder why -o name -n shop)
  pvc-prebinder why -A -o name | xargs -r -L1 kubectl describe    in several namespaces: each line names its own
  pvc-prebinder why --serve                             zones, nodes and volumes in the browser, live
  pvc-prebinder match -f dump.json                      as why --match: which volume Kubernetes would pick
  pvc-prebinder match -f volumes.json -f claim.yaml --node node-7 -o json

Exit codes:
  0 no problem, or normal waiting   1 error   2 usage
  3 a problem was found; with --match: a claim that no volume fits, a pod whose volumes keep it off every node, or an
    object that could not be read
  4 inconclusive: something that matters could not be read
"""

_UNBROKEN: Final = 1 << 16
"""Columns if the output is not a terminal: a program reads it by lines."""

_POLL_SECONDS: Final = 2.0
"""Seconds."""


@cloup.command("why", cls=Command, examples=EXAMPLES)
@request_flags
@cloup.option("-w", "--watch", "watching", is_flag=True, help="repeat until nothing is pending")
@cloup.option(
    "-f",
    "--filename",
    "filenames",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="YAML, JSON or lists instead of a cluster: a file, an archive, or a directory such as a must-gather; "
    "- is standard input; repeatable",
)
@output_flags("text", "wide", "name")
@cloup.option(
    "--color",
    type=OneOf(("auto", "always", "never")),
    default="auto",
    metavar="WHEN",
    help="auto (default), always or never",
)
@match_flags
@serve_flags
@access_flags
def command(  # noqa: PLR0913, PLR0917 - one for each flag, or group of flags
    access: ClusterAccess,
    request: WhyRequest,
    watching: bool,
    filenames: tuple[str, ...],
    output: Output,
    color: str,
    match: MatchFlags | None,
    serve: ServeFlags | None,
) -> int:
    """Finds why a pod or a PersistentVolumeClaim is pending: the root cause, its evidence, and the next command.

    Reads with your own permissions and needs no controller. What you may not read is named; where the answer depends
    on it, the answer is "Inconclusive" and never a guess. Without a name, everything that waits in the namespace is
    explained. With --filename the answer comes from the objects in the input alone. With --serve the answers are a web
    page on this machine, for the whole cluster or one --namespace.

    With --match the rules of Kubernetes answer for the objects in the input: those of the PV controller, for which a
    claim that waits for a pod gets a volume only if one is already reserved for it; with --node those of kube-scheduler
    for that node, where the claims of one pod share no volume. Of volumes that Kubernetes treats as equal, the first by
    name is shown.
    """
    if watching and filenames:
        raise UsageError("--watch needs a cluster: a file does not change")
    announce_waiting(filenames, click.get_current_context().command_path)
    if match is not None:
        follows = watching or serve is not None
        return print_matches(match, request, filenames, output, _complain_of, follows=follows)
    if serve is not None:
        return serve_page(serve, access, request, filenames, output, watching=watching)
    printer_in = _printer_of(request, filenames, output, color)
    if not filenames:
        return asyncio.run(_live(access, request, printer_in, watching=watching))
    now = datetime.now(UTC)
    dump = read_dump(filenames, sys.stdin.buffer, now, access.annotation_prefix)
    _complain(dump.faults)
    chosen = "" if request.everywhere else request.namespace or ("default" if request.targets else "")
    report = with_faults(report_on(dump.facts, request.targets, chosen, request.selector), dump.faults)
    printer_in(namespace=chosen).print(report, dump.facts.now)
    return exit_code(report)


def _printer_of(request: WhyRequest, filenames: Sequence[str], output: Output, color: str) -> Callable[..., Printer]:
    """Return what makes the printer of a namespace."""
    everything = bool(filenames) and request.namespace is None and not request.targets
    return partial(
        Printer,
        output.form,
        console_for(color),
        overview=request.everywhere,
        with_namespaces=request.everywhere or everything,
        chosen=request.selector is not None or request.names_workload,
        explain=as_typed("pvc-prebinder explain", click.get_current_context()),
        headers=output.headers,
        template=None if output.template is None else partial(_rendered, output.template),
    )


def _rendered(template: "JsonPathTemplate", report: WhyReport) -> str:
    return template.render(msgspec.to_builtins(report, str_keys=True))


async def _live(
    access: ClusterAccess, request: WhyRequest, printer_in: Callable[..., Printer], *, watching: bool
) -> int:
    async with cluster_connection(access) as (api, own_namespace):
        namespace = "" if request.everywhere else request.namespace or own_namespace
        printer = printer_in(namespace=namespace)
        while True:
            now = datetime.now(UTC)
            reader = LiveReader(api, namespace, access.annotation_prefix)
            report = await answer_live(reader, request.targets, namespace, now, request.selector)
            report = with_faults(report, reader.faults)
            _complain(reader.faults)
            if namespace and not report.items and not await reader.knows_namespace():
                raise CommandError(f'there is no namespace "{namespace}"; list them: kubectl get namespaces')
            printer.print(report, now, again=watching)
            if not watching or is_over(report):
                return exit_code(report)
            await asyncio.sleep(_POLL_SECONDS)


def _complain(faults: Sequence[str]) -> None:
    for fault in faults:
        _complain_of(f"skipped {fault}")


def _complain_of(line: str) -> None:
    warn(line, click.get_current_context().command_path)


def console_for(color: str) -> Console:
    """Return a console on the standard output; without colours unless it is a terminal or colours are requested."""
    forced = True if color == "always" else None
    if not sys.stdout.isatty():
        return Console(highlight=False, width=_UNBROKEN, force_terminal=forced)
    return Console(highlight=False, force_terminal=forced, color_system=None if color == "never" else "auto")


def exit_code(report: WhyReport) -> int:
    if any(item.problem and item.conclusive for item in report.items):
        return ExitCode.PROBLEM_FOUND
    if not report.complete or any(not item.conclusive for item in report.items):
        return ExitCode.INCONCLUSIVE
    return ExitCode.FINE


def is_over(report: WhyReport) -> bool:
    """Whether nothing is pending any more."""
    return all(item.code in {Reason.BOUND, Reason.SCHEDULED, Reason.AVAILABLE} for item in report.items)
