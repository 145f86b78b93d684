"""A stretch of network between one client and the API server that can be slow, cut, or silent. It reads nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Final
from urllib.parse import urlsplit

from devcluster.processes.ports import LOOPBACK, free_ports

_CHUNK: Final = 65536
_LAGS: Final = (0.0, 0.0, 0.7, 1.5, 3.0)
"""Seconds; the last is still less than a request of the leader's may take."""


class Network:
    """Passes bytes on. What a client sent before it closed its connection is not delivered after that."""

    def __init__(self, server: str) -> None:
        address = urlsplit(server)
        self._host, self._port = address.hostname or LOOPBACK, address.port or 443
        self.port = free_ports(1)[0]
        self.delay = 0.0
        """Seconds by which every byte comes later."""
        self._silent = False
        self._lags: dict[asyncio.StreamWriter, float] = {}
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        return f"https://{LOOPBACK}:{self.port}"

    def cut(self) -> None:
        """Break all connections."""
        for writer in list(self._open):
            writer.transport.abort()

    def fall_silent(self) -> None:
        """From now on nothing passes, and nobody is told."""
        self._silent = True

    def lag(self, throw: Random) -> None:
        """From now on what is answered on some open connections comes late: watches do not keep pace."""
        self._lags = {writer: throw.choice(_LAGS) for writer in self._open}

    def recover(self) -> None:
        """Pass on again, without delay; what was silent meanwhile is broken."""
        self.delay, self._lags = 0.0, {}
        if self._silent:
            self._silent = False
            self.cut()

    async def serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        """Carry one connection."""
        self._open.add(answers)
        try:
            upstream, requests = await asyncio.open_connection(self._host, self._port)
        except OSError:
            answers.transport.abort()
            self._open.discard(answers)
            return
        self._open.add(requests)
        await asyncio.gather(self._carry(client, requests), self._carry(upstream, answers), return_exceptions=True)
        for writer in (answers, requests):
            writer.transport.abort()
            self._open.discard(writer)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sending = asyncio.create_task(self._send(chunks, sink))
        loop = asyncio.get_running_loop()
        try:
            while chunk := await source.read(_CHUNK):
                chunks.put_nowait((loop.time() + self.delay + self._lags.get(sink, 0.0), chunk))
        finally:
            # Whoever closed does not wait for anything any more; what is still on its way is lost with the connection.
            sending.cancel()
            sink.transport.abort()

    async def _send(self, chunks: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, chunk = await chunks.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if self._silent:
                # For good: `recover` breaks the connection.
                await asyncio.Event().wait()
            sink.write(chunk)
            await sink.drain()


@asynccontextmanager
async def network_to(server: str) -> AsyncIterator[Network]:
    """Stand between clients of `address` and the server while inside."""
    network = Network(server)
    listener = await asyncio.start_server(network.serve, LOOPBACK, network.port)
    try:
        yield network
    finally:
        listener.close()
        network.cut()
