"""A gateway between one client and the API server that breaks writes: it is here that an answer is lost after the write
took effect.

It ends TLS with the API server's own certificate, and passes everything else on as it is, watches included.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final

import aiohttp
from aiohttp import web
from yarl import URL

from devcluster.processes.ports import LOOPBACK, free_ports

LOSE, FAIL, DELAY, REJECT, VANISH = (
    "lose-answers",
    "fail-after-write",
    "answer-late",
    "reject-writes",
    "vanish-after-write",
)
"""What is done to writes: the connection breaks, or 500 is answered, after the write took effect; the answer is late;
500 is answered and nothing is written; after one write that took effect no request is answered.
"""
MOODS: Final = (LOSE, FAIL, DELAY, REJECT, VANISH)
_READS: Final = frozenset({"GET", "HEAD"})
_HOP_BY_HOP: Final = frozenset({"host", "connection", "keep-alive", "transfer-encoding", "content-length"})
_AFFECTED: Final = 0.6
"""The share of writes."""
_OF_THE_CLIENT: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
_UNLIMITED: Final = aiohttp.ClientTimeout(total=None, sock_connect=5)
_ERROR: Final = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500}


class Gateway:
    """Forwards requests. Use `gateway_to`."""

    def __init__(self, server: str, session: aiohttp.ClientSession) -> None:
        self._server, self._session = server, session
        self.port = free_ports(1)[0]
        self.broken = 0
        """The writes that were broken so far."""
        self._mood, self._draw, self._seconds = "", Random(0), 0.0
        self._away = False
        self._open: set[asyncio.BaseTransport] = set()

    @property
    def address(self) -> str:
        return f"https://{LOOPBACK}:{self.port}"

    def begin(self, mood: str, seed: str, seconds: float = 0.0) -> None:
        """Do this to some writes from now on; `seconds` is how late an answer is."""
        self._mood, self._draw, self._seconds = mood, Random(seed), seconds

    def recover(self) -> None:
        """Pass everything on again."""
        self._mood, self._away = "", False

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        transport = request.transport
        if transport is not None:
            self._open.add(transport)
        if self._away:
            return self._cut(request)
        mood = self._mood
        affected = request.method not in _READS and bool(mood) and self._draw.random() < _AFFECTED
        self.broken += affected
        if affected and mood == REJECT:
            return web.json_response(_ERROR, status=500)
        body = await request.read()
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP_BY_HOP}
        try:
            url = URL(self._server + request.raw_path, encoded=True)
            async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
                if affected:
                    return await self._broken(mood, request, answer)
                return await self._passed(request, answer)
        except (aiohttp.ClientError, OSError, TimeoutError):
            return self._cut(request)

    async def _broken(self, mood: str, request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        await answer.read()
        if mood == FAIL:
            return web.json_response(_ERROR, status=500)
        if mood == DELAY:
            await asyncio.sleep(self._seconds)
            return await self._passed(request, answer)
        if mood == VANISH and answer.status < 300:
            self._away = True
            for transport in list(self._open):
                _abort(transport)
        return self._cut(request)

    async def _passed(self, request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        headers = {key: value for key, value in answer.headers.items() if key.lower() not in _HOP_BY_HOP}
        response = web.StreamResponse(status=answer.status, headers=headers)
        with suppress(ConnectionError):
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
        return response

    def _cut(self, request: web.BaseRequest) -> web.StreamResponse:
        """Break the connection; the response that is returned is not sent."""
        if request.transport is not None:
            self._open.discard(request.transport)
            _abort(request.transport)
        return web.Response(status=500)


def _abort(transport: asyncio.BaseTransport) -> None:
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()


@asynccontextmanager
async def gateway_to(server: str, trust: ssl.SSLContext | bool, certificate: Path, key: Path) -> AsyncIterator[Gateway]:
    """Run between clients of `address` and the server while inside the context.

    Clients trust the certificate. `trust` in the server must not identify the caller: who writes is known by the token
    that is passed on.
    """
    identity = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    identity.load_cert_chain(certificate, key)
    connector = aiohttp.TCPConnector(ssl=trust, limit=0)
    async with aiohttp.ClientSession(
        connector=connector, timeout=_UNLIMITED, auto_decompress=False, skip_auto_headers=_OF_THE_CLIENT
    ) as session:
        gateway = Gateway(server, session)
        serving = web.Server(gateway.serve, handler_cancellation=True)
        listener = await asyncio.get_running_loop().create_server(serving, LOOPBACK, gateway.port, ssl=identity)
        try:
            yield gateway
        finally:
            listener.close()
            await serving.shutdown(0.1)
