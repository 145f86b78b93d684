"""Serves an aiohttp application on this machine for as long as a measurement takes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from devcluster.processes.ports import LOOPBACK, free_ports


@asynccontextmanager
async def served(application: web.Application) -> AsyncIterator[str]:
    """Serve while inside; yields the URL."""
    # A watch without a client must end: nothing else holds its task, which would be collected as it waits.
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    port = free_ports(1)[0]
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
        yield f"http://{LOOPBACK}:{port}"
    finally:
        await runner.cleanup()
