"""`why --serve` as a process: a feed, of files, of the cluster with the user's credentials or with those of each
caller; the server in front of it, and the line with its address.
"""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from kube.client.api import KubeApi
from kube.client.connect import KubernetesTransport, find_api_server
from kube.client.credentials import CallerToken, Credentials
from kube.clock import SystemClock
from kube.errors import KubeconfigError
from prebinder.command_line.cluster_access import ClusterAccess, connection
from prebinder.config.settings import LoggingSettings, LogLevel, parse_address
from prebinder.errors import CommandError, UsageError
from prebinder.metrics.unobserved import Unobserved
from prebinder.runtime import logs
from prebinder.runtime.process import raise_descriptor_limit
from prebinder.runtime.signals import stop_requested
from prebinder.serving.health_server import HealthServer, probe_pages
from prebinder.view.request_guard import LOOPBACK_NAMES
from prebinder.view.server import Feed, ViewServer
from prebinder.view.serving import Serving
from why.explain.targets import Target
from why.reading.dump import read_dump
from why.rendering.lines import warn
from why.view.feeds.caller_feed import CallerFeed
from why.view.feeds.cluster_feed import ClusterFeed, Scope
from why.view.feeds.file_feed import FileFeed

_HOST: Final = "127.0.0.1"
_ROUTES: Final = {"Pod": "pod", "PersistentVolumeClaim": "pvc", "PersistentVolume": "pv"}


@dataclass(frozen=True, slots=True)
class Page:
    """What is shown: everything, or one `namespace`; `targets` are what is opened first."""

    targets: tuple[Target, ...]
    namespace: str
    filenames: tuple[str, ...]
    by_caller_token: bool = False


async def show(access: ClusterAccess, page: Page, serving: Serving) -> None:
    """Serve the page until the process is asked to end. Raises CommandError."""
    logs.configure(LoggingSettings(level=LogLevel.WARNING))
    if page.filenames and page.by_caller_token:
        raise UsageError("--caller-token reads a cluster: leave out --filename")
    if page.filenames:
        await _show_files(access, page, serving)
    elif page.by_caller_token:
        await _show_to_callers(access, page, serving)
    else:
        await _show_cluster(access, page, serving)


async def _show_files(access: ClusterAccess, page: Page, serving: Serving) -> None:
    dump = read_dump(page.filenames, sys.stdin.buffer, datetime.now(UTC), access.annotation_prefix)
    for fault in dump.faults:
        warn(f"left out {fault}", "pvc-prebinder why")
    feed = FileFeed(dump.facts, ", ".join(page.filenames), page.namespace)
    await serve(feed, serving, page.targets, page.namespace or "default")


async def _show_cluster(access: ClusterAccess, page: Page, serving: Serving) -> None:
    async with connection(access) as transport:
        scope = _scope(access, page, transport.namespace, transport.cluster)
        feed = ClusterFeed(KubeApi(transport), scope, SystemClock(), Unobserved())
        async with feed.open():
            await serve(feed, serving, page.targets, page.namespace or transport.namespace)


async def _show_to_callers(access: ClusterAccess, page: Page, serving: Serving) -> None:
    clock = SystemClock()
    try:
        server = await find_api_server(access.kubeconfig, access.context, clock)
    except KubeconfigError as error:
        raise CommandError(str(error)) from error

    @asynccontextmanager
    async def connect(token: str) -> AsyncIterator[KubeApi]:
        credentials = Credentials(server, CallerToken(token), "the caller's token", clock)
        async with KubernetesTransport(credentials) as transport:
            yield KubeApi(transport)

    own_namespace = page.namespace or "default"
    feed = CallerFeed(connect, _scope(access, page, own_namespace, server.address), clock, Unobserved())
    await serve(feed, serving, page.targets, own_namespace)


def _scope(access: ClusterAccess, page: Page, own_namespace: str, cluster: str) -> Scope:
    shown = f"{cluster}, namespace {page.namespace}" if page.namespace else cluster
    return Scope(shown, page.namespace, own_namespace, access.annotation_prefix)


async def serve(feed: Feed, serving: Serving, targets: Sequence[Target] = (), namespace: str = "default") -> None:
    """Serve until the first signal. Raises CommandError when a port cannot be had."""
    raise_descriptor_limit()
    async with AsyncExitStack() as stack:
        stop = stack.enter_context(stop_requested())
        server = ViewServer(feed, (_HOST, serving.port), LOOPBACK_NAMES)
        probes = [(parse_address(serving.health_bind_address), page) for page in probe_pages({}, {})]
        try:
            await stack.enter_async_context(server)
            await stack.enter_async_context(HealthServer(probes))
        except OSError as error:
            raise CommandError(
                f"cannot serve the view: {error.strerror or error}; choose another port with --port, or 0 for any"
            ) from error
        sys.stderr.write(f"Open http://{_HOST}:{server.port}/{_route(targets, namespace)} (Ctrl-C ends it)\n")
        await stop.wait()


def _route(targets: Sequence[Target], namespace: str) -> str:
    if not targets:
        return ""
    target = targets[0]
    parts = [_ROUTES.get(target.kind, "pvc"), target.namespace or namespace, target.name]
    if target.kind == "PersistentVolume":
        del parts[1]
    return "#/" + "/".join(quote(part, safe="") for part in parts)
