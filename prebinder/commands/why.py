"""`pvc-prebinder why`: the root cause of a pending pod or claim, its evidence, and the next command.

With --match, which `pvc-prebinder match` stands for, it reports which volume Kubernetes itself would pick.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Final

import click
import cloup
import msgspec
from rich.console import Console

from binder.matching.rejection import Reason
from kube.objects.labels import LabelSelector
from kube.objects.model import Claim, Pod
from prebinder.command_line.cluster_access import ClusterAccess, access_flags, cluster_connection
from prebinder.command_line.cluster_names import name_type, namespaces
from prebinder.command_line.cluster_names import targets as targets_of
from prebinder.command_line.command import Command, as_typed
from prebinder.command_line.output import Output, output_flags, write_document
from prebinder.command_line.parameters import FILE, Completing, OneOf, Reading, whole_number
from prebinder.config.settings import parse_address
from prebinder.errors import CommandError, ExitCode, UsageError
from prebinder.view.serving import DEFAULT_PORT, Serving
from why.explain.answering import answer_live, report_on, with_faults
from why.explain.targets import Target, of_one_kind, parse_selector, parse_target
from why.match.answers import report_matches
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

_BETWEEN_LOOKS: Final = 2.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class WhyRequest:
    """The arguments of the command."""

    targets: tuple[Target, ...]
    namespace: str | None
    everywhere: bool
    selector: LabelSelector | None


def _address(text: str) -> str:
    parse_address(text)
    return text


@cloup.command("why", cls=Command, examples=EXAMPLES)
@cloup.argument(
    "targets", nargs=-1, type=Completing("target", parse_target, targets_of), metavar="[KIND/NAME | NAME]..."
)
@cloup.option(
    "-n",
    "--namespace",
    type=name_type(namespaces),
    metavar="NAME",
    help="default that of the kubeconfig's context",
)
@cloup.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="everything pending in the cluster")
@cloup.option(
    "-l",
    "--selector",
    type=Reading("selector", parse_selector),
    metavar="LABELS",
    help="only pending pods and claims with these labels, such as app=web,tier!=cache",
)
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
@cloup.option_group(
    "Matching, offline",
    cloup.option(
        "--match",
        "matching",
        is_flag=True,
        help="report which volume Kubernetes itself would pick for each claim of the files, and why it rejects each "
        "other; for pods without a node, on which nodes they find their volumes",
    ),
    cloup.option("--node", metavar="NAME", help="with --match: answer as kube-scheduler does for this node"),
)
@cloup.option_group(
    "In the browser",
    cloup.option("--serve", "serving", is_flag=True, help="show zones, nodes, volumes and causes as a page, live"),
    cloup.option(
        "--port",
        type=whole_number(0, 65535),
        default=DEFAULT_PORT,
        metavar="PORT",
        help=f"port on 127.0.0.1, default {DEFAULT_PORT}; 0 takes any free one",
    ),
    cloup.option(
        "--caller-token",
        is_flag=True,
        help="in a pod: read with the bearer token of each request, and with no other credentials",
    ),
    cloup.option(
        "--health-bind-address",
        type=Reading("address", _address),
        default="0",
        metavar="ADDRESS",
        help="probes of the kubelet, HOST:PORT or :PORT, default 0 for none",
    ),
)
@access_flags
def command(  # noqa: PLR0913, PLR0917 - one for each flag
    access: ClusterAccess,
    targets: tuple[Target, ...],
    namespace: str | None,
    everywhere: bool,
    selector: LabelSelector | None,
    watching: bool,
    filenames: tuple[str, ...],
    output: Output,
    color: str,
    matching: bool,
    node: str | None,
    serving: bool,
    port: int,
    caller_token: bool,
    health_bind_address: str,
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
    targets = of_one_kind(targets)
    _check(targets, filenames, everywhere=everywhere, watching=watching, selecting=selector is not None)
    question = WhyRequest(targets, namespace, everywhere, selector)
    if matching or node is not None:
        _check_match(question, filenames, output, matching=matching, otherwise=watching or serving)
        return _match(filenames, node, question, output)
    if serving:
        from prebinder.view.page import Page, show  # noqa: PLC0415 - only the page needs a web server

        _check_page(selector, output, targets, watching=watching)
        page = Page(targets, namespace or "", filenames, by_caller_token=caller_token)
        asyncio.run(show(access, page, Serving(port, health_bind_address)))
        return ExitCode.FINE
    with_namespaces = everywhere or (bool(filenames) and namespace is None and not targets)
    printer_in = partial(
        Printer,
        output.form,
        console_for(color),
        overview=everywhere,
        with_namespaces=with_namespaces,
        chosen=selector is not None or any(target.is_workload for target in targets),
        explain=as_typed("pvc-prebinder explain", click.get_current_context()),
        headers=output.headers,
        template=None if output.template is None else partial(_rendered, output.template),
    )
    if not filenames:
        return asyncio.run(_live(access, question, printer_in, watching=watching))
    now = datetime.now(UTC)
    dump = read_dump(filenames, sys.stdin.buffer, now, access.annotation_prefix)
    _complain(dump.faults)
    chosen = "" if everywhere else namespace or ("default" if targets else "")
    report = with_faults(report_on(dump.facts, targets, chosen, selector), dump.faults)
    printer_in(namespace=chosen).print(report, dump.facts.now)
    return exit_code(report)


def _check(
    targets: Sequence[Target], filenames: Sequence[str], *, everywhere: bool, watching: bool, selecting: bool
) -> None:
    if everywhere and targets:
        raise UsageError("--all-namespaces explains everything pending: omit the names, or use --namespace")
    if selecting and targets:
        raise UsageError("--selector selects among everything pending: omit the names")
    if watching and filenames:
        raise UsageError("--watch needs a cluster: a file does not change")


def _match(filenames: Sequence[str], node: str | None, question: WhyRequest, output: Output) -> int:
    """Print the report of --match. JSON is written as it is made, so that a large one needs no memory."""
    whole = BytesIO()
    to = None if not output.is_document else sys.stdout.buffer if output.form == "json" else whole
    well = report_matches(filenames, node, partial(_is_meant, question), document_to=to, complain=_complain_of)
    if to is whole:
        write_document(msgspec.json.decode(whole.getvalue()), output)
    return ExitCode.FINE if well else ExitCode.PROBLEM_FOUND


def _rendered(template: "JsonPathTemplate", report: WhyReport) -> str:
    return template.render(msgspec.to_builtins(report, str_keys=True))


def _check_page(selector: LabelSelector | None, output: Output, targets: Sequence[Target], *, watching: bool) -> None:
    if any(target.is_workload for target in targets):
        raise UsageError("--serve opens a pod, a claim or a volume: name it as pod/NAME, pvc/NAME or pv/NAME")
    if watching or selector is not None or output.form != "text":
        raise UsageError("--serve shows everything and follows it: leave out --watch, --selector and --output")


def _check_match(
    question: WhyRequest, filenames: Sequence[str], output: Output, *, matching: bool, otherwise: bool
) -> None:
    if not matching:
        raise UsageError("--node needs --match: without it every node is considered")
    if not filenames:
        raise UsageError("--match reads a dump: --filename is required, such as kubectl get ... -o json | ... -f -")
    if otherwise or question.selector is not None or output.form in {"wide", "name"}:
        raise UsageError("--match prints one report, as text or a document: leave out --watch, --serve and --selector")
    if any(target.kind == "PersistentVolume" or target.is_workload for target in question.targets):
        raise UsageError("--match reports claims and pods: name them as pvc/NAME or pod/NAME")


def _is_meant(question: WhyRequest, subject: Claim | Pod) -> bool:
    """Whether an object of a dump is to be reported: all are, unless the command names some, or a namespace."""
    if question.namespace not in {None, subject.namespace}:
        return False
    kind = "Pod" if isinstance(subject, Pod) else "PersistentVolumeClaim"
    named = ((target.kind, target.name) for target in question.targets)
    return not question.targets or any(known in {kind, ""} and name == subject.name for known, name in named)


async def _live(
    access: ClusterAccess, question: WhyRequest, printer_in: Callable[..., Printer], *, watching: bool
) -> int:
    async with cluster_connection(access) as (api, own_namespace):
        namespace = "" if question.everywhere else question.namespace or own_namespace
        printer = printer_in(namespace=namespace)
        while True:
            now = datetime.now(UTC)
            reader = LiveReader(api, namespace, access.annotation_prefix)
            report = await answer_live(reader, question.targets, namespace, now, question.selector)
            report = with_faults(report, reader.faults)
            _complain(reader.faults)
            if namespace and not report.items and not await reader.knows_namespace():
                raise CommandError(f'there is no namespace "{namespace}"; list them: kubectl get namespaces')
            printer.print(report, now, again=watching)
            if not watching or is_over(report):
                return exit_code(report)
            await asyncio.sleep(_BETWEEN_LOOKS)


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
