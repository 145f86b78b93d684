"""A real HTTP server on loopback whose every answer the test writes, for faults of the connection itself."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from kube.client.connect import KubernetesTransport, connect
from tests.fake_clock import FakeClock

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Server:
    url: str
    requests: list[web.Request] = field(default_factory=list)


@asynccontextmanager
async def serving(handler: Handler, ssl_context: Any = None) -> AsyncIterator[Server]:
    """Serve with the handler; yields the address and the requests that came."""
    server = Server("")

    async def handle(request: web.Request) -> web.StreamResponse:
        server.requests.append(request)
        return await handler(request)

    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl_context)
    await site.start()
    port = runner.addresses[0][1]
    server.url = f"{'https' if ssl_context else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()


async def streamed(request: web.Request, *chunks: bytes) -> web.StreamResponse:
    """Start a chunked answer with these chunks; what happens next is the caller's."""
    response = web.StreamResponse()
    await response.prepare(request)
    for chunk in chunks:
        await response.write(chunk)
    return response


def reset(request: web.Request) -> None:
    """Cut the connection without ending the answer."""
    assert request.transport is not None
    request.transport.abort()


def kubeconfig(
    directory: Path, server: str, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None
) -> str:
    """Write a kubeconfig for one server and return its path."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "it", "user": {"token": "secret"} if user is None else user}],
    }
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return str(path)


@asynccontextmanager
async def connected(
    directory: Path, handler: Handler, clock: FakeClock | None = None, user: dict[str, Any] | None = None
) -> AsyncIterator[tuple[KubernetesTransport, Server]]:
    """A real transport talking to a scripted server."""
    async with serving(handler) as server:
        path = kubeconfig(directory, server.url, user)
        async with await connect(path, clock=clock or FakeClock()) as transport:
            yield transport, server
