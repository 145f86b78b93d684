"""`why --serve` as a process: a feed, the server in front of it, and the line with its address."""

import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final
from urllib.parse import quote

from prebinder.config.settings import parse_address
from prebinder.errors import CommandError
from prebinder.runtime.process import raise_descriptor_limit
from prebinder.runtime.signals import stop_requested
from prebinder.serving.health_server import HealthServer, probe_pages
from prebinder.view.request_guard import LOOPBACK_NAMES
from prebinder.view.server import Feed, ViewServer
from prebinder.view.serving import Serving
from why.explain.targets import Target

_HOST: Final = "127.0.0.1"
_ROUTES: Final = {"Pod": "pod", "PersistentVolumeClaim": "pvc", "PersistentVolume": "pv"}


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
