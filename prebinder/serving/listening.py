"""Binds an HTTP server to its address."""

import logging
from contextlib import AsyncExitStack
from ssl import SSLContext
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

IDLE_SECONDS: Final = 120.0
"""How long a connection may be open without a complete request: longer than clients keep one to use it again, which is
90 seconds in Go (`http.DefaultTransport`). aiohttp waits for an hour.
"""

logger = logging.getLogger(__name__)


def _is_no_malformed_request(record: logging.LogRecord) -> bool:
    """A client that sends no HTTP is answered 400; a traceback for each request would fill the log."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


logger.addFilter(_is_no_malformed_request)


def runner_of(application: web.Application, **options: Any) -> web.AppRunner:
    """Return what runs the application, with the limits that all our servers have."""
    return web.AppRunner(
        application, access_log=None, shutdown_timeout=1.0, keepalive_timeout=IDLE_SECONDS, logger=logger, **options
    )


async def listen(
    stack: AsyncExitStack, runner: web.AppRunner, host: str, port: int, certificate: SSLContext | None = None
) -> int:
    """Serve until the stack is closed; return the port. Host empty: every address; port 0: any free one.

    Raises OSError when the address cannot be had.
    """
    try:
        await runner.setup()
        await web.TCPSite(runner, host or None, port, ssl_context=certificate).start()
    except BaseException:
        await runner.cleanup()
        raise
    stack.push_async_callback(runner.cleanup)
    bound: int = runner.addresses[0][1]
    return bound
