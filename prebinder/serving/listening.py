"""Binds an HTTP server to its address."""

import asyncio
import errno
import logging
import socket
from contextlib import AsyncExitStack
from ssl import SSLContext
from typing import Any, Final, NoReturn

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from kube.background import in_background
from prebinder.serving.connections import ConnectionLimits, Connections, limits_of_process

BACKLOG: Final = 128
"""Connections that the kernel keeps until they are accepted."""
RETRY_SECONDS: Final = 0.1
"""From a failure to accept, as when no file descriptor is left, to the next try."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

logger = logging.getLogger(__name__)


def _is_our_error(record: logging.LogRecord) -> bool:
    """Without this, each client that sends no HTTP or goes away would fill the log with a traceback."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError | ConnectionError))


logger.addFilter(_is_our_error)


async def listen(
    stack: AsyncExitStack,
    application: web.Application,
    address: tuple[str, int],
    certificate: SSLContext | None = None,
    limits: ConnectionLimits | None = None,
    **options: Any,
) -> int:
    """Serve until the stack is closed; return the port. Host empty: every address; port 0: any free one.

    `options` are those of `web.AppRunner`. Raises OSError when the address cannot be had.
    """
    async with AsyncExitStack() as opened:
        sockets = await _bound(*address)
        for each in sockets:
            opened.callback(each.close)
        port: int = sockets[0].getsockname()[1]
        connections = Connections(limits or limits_of_process(), f"{address[0]}:{port}")
        opened.callback(connections.close)
        application.middlewares.insert(0, connections.middleware)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0, logger=logger, **options)
        opened.push_async_callback(runner.cleanup)
        await runner.setup()
        for each in sockets:
            each.listen(BACKLOG)
            await opened.enter_async_context(in_background(_accept(each, runner, connections, certificate)))
        stack.push_async_exit(opened.pop_all())
        return port


async def _bound(host: str, port: int) -> list[socket.socket]:
    """Return sockets for all addresses of a host."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host or None, port, start_serving=False)
    sockets = [bound.dup() for bound in server.sockets]
    server.close()
    for each in sockets:
        each.setblocking(False)
    return sockets


async def _accept(
    listening: socket.socket, runner: web.AppRunner, connections: Connections, certificate: SSLContext | None
) -> NoReturn:
    """Accept one connection in each turn of the event loop, so that a flood delays nothing else.

    asyncio's own server accepts without a limit, and logs a traceback for each one that it has no descriptor for.
    """
    loop = asyncio.get_running_loop()
    assert runner.server is not None
    while True:
        try:
            client, _ = await loop.sock_accept(listening)
        except OSError as error:
            if error.errno in _EXHAUSTED:
                connections.report(str(error))
                connections.close_oldest()
            await asyncio.sleep(RETRY_SECONDS)
        else:
            connections.accept(client, runner.server(), certificate)
            await asyncio.sleep(0)
