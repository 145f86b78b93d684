"""Binds an HTTP server to its address."""

from contextlib import AsyncExitStack
from ssl import SSLContext

from aiohttp import web


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
