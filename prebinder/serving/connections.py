"""The connections of one listener: how many there may be, and how long one may wait without a request.

A client that sends its request at once, as the kubelet does, always gets a connection: when all places are taken, the
connection that has waited longest for its client is closed. One that has had a request before is closed only if those
that have not hold less than half of the places.
"""

import asyncio
import logging
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from ssl import SSLContext
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from aiohttp.web_protocol import RequestHandler

HEAD_SECONDS: Final = 10.0
"""For the TLS handshake and the head of the first request together, and for each later head once it has begun."""
IDLE_SECONDS: Final = 120.0
"""How long a connection may be without a request after its last one: longer than clients keep it to use it again, which
is 90 seconds in Go (`http.DefaultTransport`). What a client has not read of a response by then is lost.
"""
MAX_CONNECTIONS: Final = 256
"""For each listener. kube-scheduler, the kubelet and Prometheus need a handful, a browser six for each page."""
SHARE_OF_DESCRIPTORS: Final = 4
"""One listener takes at most this part of the file descriptors. A process has up to three of them: the rest is for the
API server, the drivers and files."""
REPORT_SECONDS: Final = 60.0
"""From one log line about closed connections to the next."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What the clients of a listener may take together."""

    connections: int = MAX_CONNECTIONS
    head_seconds: float = HEAD_SECONDS
    idle_seconds: float = IDLE_SECONDS


def limits_of_process() -> ConnectionLimits:
    """Return the limits of a listener, so that all listeners together leave file descriptors to the rest."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = soft == resource.RLIM_INFINITY
    return ConnectionLimits(
        MAX_CONNECTIONS if unlimited else max(1, min(MAX_CONNECTIONS, soft // SHARE_OF_DESCRIPTORS))
    )


class Connection(asyncio.Protocol):
    """A client, from its acceptance on. Passes everything to aiohttp, and is closed if it waits for too long."""

    def __init__(
        self, handler: RequestHandler, limits: ConnectionLimits, closed: Callable[["Connection"], None]
    ) -> None:
        self.handler = handler
        self.handling = False
        """Whether a request is being answered."""
        self._limits = limits
        self._closed = closed
        self._transport: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._between_requests = False
        self._close_after(limits.head_seconds)

    def open(self, client: socket.socket, certificate: SSLContext | None) -> None:
        """Begin: shake hands if there is a certificate."""
        self._opening = asyncio.create_task(self._open(client, certificate))
        self._opening.add_done_callback(partial(self._opened, client))

    def abort(self) -> None:
        """Close it now, whatever it has sent."""
        if self._transport is not None:
            self._transport.abort()
        elif self._opening is not None:
            self._opening.cancel()

    def request_began(self) -> None:
        """A complete head has arrived."""
        self.handling, self._between_requests = True, False
        self._stop_timer()

    def request_ended(self) -> None:
        """The handler has returned; the response may still be on its way."""
        self.handling, self._between_requests = False, True
        if self._transport is not None:
            self._close_after(self._limits.idle_seconds)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._between_requests:
            self._between_requests = False
            self._close_after(self._limits.head_seconds)
        self.handler.data_received(data)

    def eof_received(self) -> None:
        self.handler.eof_received()

    def pause_writing(self) -> None:
        self.handler.pause_writing()

    def resume_writing(self) -> None:
        self.handler.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._stop_timer()
        self.handler.connection_lost(error)
        self._closed(self)

    async def _open(self, client: socket.socket, certificate: SSLContext | None) -> None:
        timeout = self._limits.head_seconds if certificate is not None else None
        with suppress(OSError):  # no TLS, or not the certificate that is required
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self, client, ssl=certificate, ssl_handshake_timeout=timeout
            )

    def _opened(self, client: socket.socket, _: asyncio.Task[None]) -> None:
        if self._transport is None:
            client.close()
            self._stop_timer()
            self._closed(self)

    def _close_after(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Connections:
    """All connections of one listener."""

    def __init__(self, limits: ConnectionLimits, address: str) -> None:
        self._limits = limits
        self._address = address
        self._open: dict[RequestHandler, Connection] = {}
        # Both wait for their client, the one that has waited longest is first. Whose request has arrived is in neither.
        self._without_request: dict[Connection, None] = {}
        self._with_request: dict[Connection, None] = {}
        self._next_report = 0.0

    def accept(self, client: socket.socket, handler: RequestHandler, certificate: SSLContext | None) -> None:
        """Serve a client, in place of another one if there are too many."""
        if len(self._open) >= self._limits.connections:
            self.report("as many as allowed")
            if not self.close_oldest():
                client.close()
                return
        connection = Connection(handler, self._limits, self._closed)
        self._open[handler] = connection
        self._without_request[connection] = None
        connection.open(client, certificate)

    def close_oldest(self) -> bool:
        """Close the connection that has waited longest for its client; return whether there was one."""
        newcomers, known = self._without_request, self._with_request
        crowded = newcomers and len(newcomers) >= self._limits.connections // 2
        waiting = newcomers if crowded or not known else known
        oldest = next(iter(waiting), None)
        if oldest is None:
            return False
        self._closed(oldest)
        oldest.abort()
        return True

    def report(self, reason: str) -> None:
        """Log that there are too many; once a minute is enough."""
        now = asyncio.get_running_loop().time()
        if now >= self._next_report:
            self._next_report = now + REPORT_SECONDS
            about = {"address": self._address, "count": len(self._open), "reason": reason}
            logger.warning("Too many connections: closing those that wait", extra=about)

    def close(self) -> None:
        """Close all."""
        for connection in list(self._open.values()):
            connection.abort()

    @property
    def middleware(self) -> Middleware:
        """Of the application that is served: notices when requests begin and end."""

        @web.middleware
        async def noticed(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = self._open.get(request.protocol)
            if connection is None:
                return await handler(request)
            connection.request_began()
            self._waits(connection)
            request.content.on_eof(partial(self._request_arrived, connection))
            try:
                return await handler(request)
            finally:
                connection.request_ended()
                self._waits(connection)

        return noticed

    def _request_arrived(self, connection: Connection) -> None:
        # A body that nobody wanted may end after its response.
        if connection.handling:
            self._with_request.pop(connection, None)

    def _waits(self, connection: Connection) -> None:
        self._without_request.pop(connection, None)
        self._with_request.pop(connection, None)
        if connection.handler in self._open:
            self._with_request[connection] = None

    def _closed(self, connection: Connection) -> None:
        self._open.pop(connection.handler, None)
        self._without_request.pop(connection, None)
        self._with_request.pop(connection, None)
