"""The few requests the devcluster itself makes: readiness, nodes and tokens. The product has its own transport."""

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from typing import Any, Self

import aiohttp

from devcluster.errors import ClusterError

_CONCURRENCY = 32
_TIMEOUT = aiohttp.ClientTimeout(total=30)


class Api:
    """A short-lived client; use it as a context manager."""

    def __init__(self, server: str, trust: ssl.SSLContext) -> None:
        self._server = server
        self._trust = trust

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._trust, limit=_CONCURRENCY)
        self._session = aiohttp.ClientSession(self._server, connector=connector, timeout=_TIMEOUT)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, path: str) -> dict[str, Any]:
        return await self._request("GET", path, None)

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self._request("POST", path, body)

    async def create_all(self, path: str, bodies: Iterable[Mapping[str, Any]]) -> None:
        """Create many objects, several at once; the first rejection ends it."""
        async with asyncio.TaskGroup() as tasks:
            for body in bodies:
                tasks.create_task(self.create(path, body))

    async def _request(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        async with self._session.request(method, path, json=body) as response:
            if response.status >= 400:
                raise ClusterError(f"{method} {path}: {response.status} {await response.text()}")
            answer: dict[str, Any] = await response.json()
            return answer
