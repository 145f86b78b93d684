"""`why --match`, for which `pvc-prebinder match` stands: which volume Kubernetes itself would pick, from files."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from io import BytesIO
from typing import Any

import cloup
import msgspec

from prebinder.command_line.output import Output, write_document
from prebinder.commands.why.request import WhyRequest
from prebinder.errors import ExitCode, UsageError
from why.match.answers import report_matches


@dataclass(frozen=True, slots=True)
class MatchFlags:
    """`--match`, and the `--node` that it answers for."""

    matching: bool
    node: str | None


def match_flags(function: Callable[..., int]) -> Callable[..., int]:
    """Add the flags of --match; the command receives them as `match`, None without any of them."""

    @wraps(function)
    def with_match(matching: bool, node: str | None, **others: Any) -> int:
        return function(match=MatchFlags(matching, node) if matching or node is not None else None, **others)

    return cloup.option_group(
        "Matching, offline",
        cloup.option(
            "--match",
            "matching",
            is_flag=True,
            help="report which volume Kubernetes itself would pick for each claim of the files, and why it rejects "
            "each other; for pods without a node, on which nodes they find their volumes",
        ),
        cloup.option("--node", metavar="NAME", help="with --match: answer as kube-scheduler does for this node"),
    )(with_match)


def print_matches(
    flags: MatchFlags,
    request: WhyRequest,
    filenames: Sequence[str],
    output: Output,
    complain: Callable[[str], None],
    *,
    follows: bool,
) -> int:
    """Print the report and return the exit code. JSON is written as it is made, so that a large one needs no memory.

    `follows`: --watch or --serve is given as well. Raises UsageError.
    """
    _check(flags, request, filenames, output, follows=follows)
    whole = BytesIO()
    to = None if not output.is_document else sys.stdout.buffer if output.form == "json" else whole
    well = report_matches(filenames, flags.node, request.covers, document_to=to, complain=complain)
    if to is whole:
        write_document(msgspec.json.decode(whole.getvalue()), output)
    return ExitCode.FINE if well else ExitCode.PROBLEM_FOUND


def _check(flags: MatchFlags, request: WhyRequest, filenames: Sequence[str], output: Output, *, follows: bool) -> None:
    if not flags.matching:
        raise UsageError("--node needs --match: without it every node is considered")
    if not filenames:
        raise UsageError("--match reads a dump: --filename is required, such as kubectl get ... -o json | ... -f -")
    if follows or request.selector is not None or output.form in {"wide", "name"}:
        raise UsageError("--match prints one report, as text or a document: leave out --watch, --serve and --selector")
    if request.names_workload or any(target.kind == "PersistentVolume" for target in request.targets):
        raise UsageError("--match reports claims and pods: name them as pvc/NAME or pod/NAME")
