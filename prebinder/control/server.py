"""The control port of the standalone scheduler: single pods, the configuration, and a profile of the process.

Whoever can use it decides where pods go, so it listens on loopback only and asks for a token. 200 an answer, 204
nothing to answer; 400 not as expected, 401 no token, 404 and 405 no such thing, 408 the body did not arrive in time,
409 already at it, 413 too large, 415 another kind of body, 421 asked by another name, 422 a configuration that is
wrong, 500 a bug.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, Self

from aiohttp import web

from prebinder.config.loopback import refuse_reachable
from prebinder.control.cbor_rpc import Method, answer
from prebinder.control.request import guard, read_body
from prebinder.runtime.listening import listen

LARGEST_CALL: Final = 64 * 1024
"""Bytes."""
CBOR: Final = "application/cbor"


@dataclass(frozen=True, slots=True)
class Route:
    """What answers a method at a path."""

    method: str
    path: str
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]]


def rpc_route(methods: Mapping[str, Method]) -> Route:
    """Return `POST /rpc`, which performs the methods by name."""

    async def handler(request: web.Request) -> web.Response:
        body = await read_body(request, LARGEST_CALL, (CBOR,))
        told = await answer(body, methods)
        return web.Response(status=204) if told is None else web.Response(body=told, content_type=CBOR)

    return Route("POST", "/rpc", handler)


class ControlServer:
    """Serves while in `async with`. `port` is the port it listens on."""

    def __init__(self, address: tuple[str, int], token: Callable[[], str], routes: Sequence[Route]) -> None:
        """Take host and port (0: any free one), and what says which token counts now.

        Raises ValueError when others than this machine could connect.
        """
        self._host, self.port = address
        refuse_reachable(*address)
        self._token = token
        self._routes = routes
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start to serve. Raises OSError when the address cannot be had."""
        paths = list(dict.fromkeys(route.path for route in self._routes))
        application = web.Application(middlewares=[guard(self._token, self._names, paths)])
        for route in self._routes:
            application.router.add_route(route.method, route.path, route.handler)
        # Who goes away is not waited for: a profile that nobody reads ends.
        runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=1.0, auto_decompress=False, handler_cancellation=True
        )
        self.port = await listen(self._open, runner, self._host, self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    def _names(self) -> frozenset[str]:
        """Return what a request may call this server."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return frozenset(f"{name}:{self.port}" for name in ("localhost", "127.0.0.1", "[::1]", host))
