"""Serves `/livez`, `/readyz`, `/healthz` and `/metrics`.

Probes return 200 or 503. `?verbose` lists every check, and a failure always names the check and the reason. Liveness
never depends on the API server: a restart would not bring it back.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self

from aiohttp import web

from prebinder.config.settings import ServingSettings, parse_address
from prebinder.errors import CommandError
from prebinder.serving.listening import listen

Check = Callable[[], str | None]
"""Returns the problem, None if there is none."""


@dataclass(frozen=True, slots=True)
class ProbePage:
    """What is served at a path."""

    path: str
    handler: Callable[[web.Request], Awaitable[web.Response]]


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks behind the probes, by name."""

    live: Mapping[str, Check]
    ready: Mapping[str, Check]


async def serve_pages(
    stack: AsyncExitStack, settings: ServingSettings, checks: Checks, render: Callable[[], Awaitable[bytes]]
) -> None:
    """Serve probes and metrics until the stack is closed. Raises CommandError if an address is not available."""
    health, metrics = parse_address(settings.health_bind_address), parse_address(settings.metrics_bind_address)
    pages = [(health, page) for page in probe_pages(checks.live, checks.ready)]
    try:
        await stack.enter_async_context(HealthServer([*pages, (metrics, metrics_page(render))]))
    except OSError as error:
        raise CommandError(
            f"cannot serve metrics or probes: {error.strerror or error}; choose another address with "
            "--metrics-bind-address or --health-bind-address (0 serves none)"
        ) from error


def probe_pages(live: Mapping[str, Check], ready: Mapping[str, Check]) -> tuple[ProbePage, ...]:
    """Return the pages for the kubelet's probes. `/healthz` is an alias of `/livez`."""
    return (ProbePage("/livez", _probe(live)), ProbePage("/healthz", _probe(live)), ProbePage("/readyz", _probe(ready)))


def metrics_page(render: Callable[[], Awaitable[bytes]]) -> ProbePage:
    """Return the page Prometheus scrapes, in its text format."""

    async def handler(_: web.Request) -> web.Response:
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=await render(), headers=headers)

    return ProbePage("/metrics", handler)


def _probe(checks: Mapping[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(request: web.Request) -> web.Response:
        problems = {name: check() for name, check in checks.items()}
        failed = any(problem is not None for problem in problems.values())
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok\n")
        lines = [f"[+]{name} ok" if problem is None else f"[-]{name}: {problem}" for name, problem in problems.items()]
        return web.Response(text="\n".join([*lines, "failed" if failed else "ok", ""]), status=503 if failed else 200)

    return handler


class HealthServer:
    """Serves pages while in `async with`. Pages for the same address share one port."""

    def __init__(self, pages: Sequence[tuple[tuple[str, int] | None, ProbePage]]) -> None:
        """Take pages with the address (host, port) each is served at; None leaves a page out."""
        self._pages: dict[tuple[str, int], list[ProbePage]] = {}
        for address, page in pages:
            if address is not None:
                self._pages.setdefault(address, []).append(page)
        self._open = AsyncExitStack()
        self.ports: list[int] = []
        """The ports in use, one per address, in the order in which the addresses were first named."""

    async def __aenter__(self) -> Self:
        """Start serving. Raises OSError if an address is not available."""
        try:
            for (host, port), pages in self._pages.items():
                await self._serve(host, port, pages)
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def _serve(self, host: str, port: int, pages: Sequence[ProbePage]) -> None:
        application = web.Application()
        application.add_routes([web.get(page.path, page.handler) for page in pages])
        self.ports.append(await listen(self._open, application, (host, port)))
