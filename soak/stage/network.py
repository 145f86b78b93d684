"""A network connection between one client and the API server that can be slow, cut, or silent. It does not parse
anything.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Final
from urllib.parse import urlsplit

from devcluster.processes.ports import LOOPBACK, free_ports

_CHUNK: Final = 65536
_LAGS: Final = (0.0, 0.0, 0.7, 1.5, 3.0)
"""Seconds; the largest is still less than the timeout of the leader's requests."""


class Network:
    """Forwards bytes. What a client sent before it closed its connection is not delivered after that."""

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
        """From now on nothing is forwarded, without any notice."""
        self._silent = True

    def lag(self, throw: Random) -> None:
        """From now on responses on some open connections arrive late: watches are not synchronised."""
        self._lags = {writer: throw.choice(_LAGS) for writer in self._open}

    def recover(self) -> None:
        """Forward again, without delay; connections that were silent meanwhile are broken."""
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
            # A client that closed waits for nothing any more; what is still in transit is lost with the connection.
            sending.cancel()
            sink.transport.abort()

    async def _send(self, chunks: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, chunk = await chunks.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if self._silent:
                # Permanently: `recover` breaks the connection.
                await asyncio.Event().wait()
            sink.write(chunk)
            await sink.drain()


@asynccontextmanager
async def network_to(server: str) -> AsyncIterator[Network]:
    """Run between clients of `address` and the server while inside the context."""
    network = Network(server)
    listener = await asyncio.start_server(network.serve, LOOPBACK, network.port)
    try:
        yield network
    finally:
        listener.close()
        network.cut()
