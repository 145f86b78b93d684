"""The control port of the standalone scheduler: single pods, the configuration, and a profile of the process.

Its clients decide where pods run, so it listens on loopback only and requires a token. 200 a result, 204 no result; 400
invalid request, 401 no token, 404 and 405 no such path or method, 408 the body did not arrive in time, 409 a profile is
being taken, 413 too large, 415 wrong content type, 421 wrong Host, 422 invalid configuration, 500 a bug.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, Self

from aiohttp import web

from prebinder.config.loopback import reject_reachable
from prebinder.control.cbor_rpc import Method, answer
from prebinder.control.request import control_guard, read_body
from prebinder.serving.listening import listen

MAX_CALL_BYTES: Final = 64 * 1024
"""Bytes."""
CBOR: Final = "application/cbor"


@dataclass(frozen=True, slots=True)
class Route:
    """The handler of a method at a path."""

    method: str
    path: str
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]]


def rpc_route(methods: Mapping[str, Method]) -> Route:
    """Return `POST /rpc`, which performs the methods by name."""

    async def handler(request: web.Request) -> web.Response:
        body = await read_body(request, MAX_CALL_BYTES, (CBOR,))
        response = await answer(body, methods)
        return web.Response(status=204) if response is None else web.Response(body=response, content_type=CBOR)

    return Route("POST", "/rpc", handler)


class ControlServer:
    """Serves while in `async with`. `port` is the port it listens on."""

    def __init__(self, address: tuple[str, int], token: Callable[[], str], routes: Sequence[Route]) -> None:
        """Take host and port (0: any free one), and a function that returns the valid token.

        Raises ValueError if other machines could connect.
        """
        self._host, self.port = address
        reject_reachable(*address)
        self._token = token
        self._routes = routes
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start serving. Raises OSError if the address is not available."""
        paths = list(dict.fromkeys(route.path for route in self._routes))
        application = web.Application(middlewares=[control_guard(self._token, self._names, paths)])
        for route in self._routes:
            application.router.add_route(route.method, route.path, route.handler)
        # Disconnected clients are not waited for: their profile is cancelled.
        address = (self._host, self.port)
        self.port = await listen(self._open, application, address, auto_decompress=False, handler_cancellation=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    def _names(self) -> frozenset[str]:
        """Return the names by which a request may address this server."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return frozenset(f"{name}:{self.port}" for name in ("localhost", "127.0.0.1", "[::1]", host))
