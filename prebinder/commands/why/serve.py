"""`why --serve`: zones, nodes, volumes and causes as a page in the browser."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import cloup

from prebinder.command_line.cluster_access import ClusterAccess
from prebinder.command_line.output import Output
from prebinder.command_line.parameters import Reading, whole_number
from prebinder.commands.why.request import WhyRequest
from prebinder.config.settings import parse_address
from prebinder.errors import ExitCode, UsageError
from prebinder.view.serving import DEFAULT_PORT, Serving


@dataclass(frozen=True, slots=True)
class ServeFlags:
    """Where the page is served, and whether each caller's own token reads the cluster."""

    serving: Serving
    by_caller_token: bool


def _address(text: str) -> str:
    parse_address(text)
    return text


def serve_flags(function: Callable[..., int]) -> Callable[..., int]:
    """Add the flags of --serve; the command receives them as `serve`, None without --serve."""

    @wraps(function)
    def with_serve(serving: bool, port: int, caller_token: bool, health_bind_address: str, **others: Any) -> int:
        flags = ServeFlags(Serving(port, health_bind_address), caller_token)
        return function(serve=flags if serving else None, **others)

    return cloup.option_group(
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
    )(with_serve)


def serve_page(
    flags: ServeFlags,
    access: ClusterAccess,
    request: WhyRequest,
    filenames: Sequence[str],
    output: Output,
    *,
    watching: bool,
) -> int:
    """Serve the page until the process is stopped, and return the exit code. Raises UsageError."""
    from prebinder.view.process import Page, show  # noqa: PLC0415 - only the page needs a web server

    if request.names_workload:
        raise UsageError("--serve opens a pod, a claim or a volume: name it as pod/NAME, pvc/NAME or pv/NAME")
    if watching or request.selector is not None or output.form != "text":
        raise UsageError("--serve shows everything and follows it: leave out --watch, --selector and --output")
    page = Page(request.targets, request.namespace or "", tuple(filenames), by_caller_token=flags.by_caller_token)
    asyncio.run(show(access, page, flags.serving))
    return ExitCode.FINE
