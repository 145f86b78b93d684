"""A view that is served, and what a browser or another client would send to it."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from prebinder.view.request_guard import LOOPBACK_NAMES
from prebinder.view.server import Feed, ViewServer


@dataclass(frozen=True)
class Answer:
    """A complete answer."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def document(self) -> Any:
        return json.loads(self.text)


class Browser:
    """Sends requests to the served view."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self.session = session
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    async def get(self, path: str = "/", *, method: str = "GET", **headers: str) -> Answer:
        """Headers are written with underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(method, self.url + path, headers=named, allow_redirects=False) as response:
            return Answer(response.status, response.headers, await response.text())

    @asynccontextmanager
    async def stream(self, **headers: str) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        async with self.session.get(f"{self.url}/api/v1alpha1/stream", headers=headers) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            yield events(response.content)


async def events(content: aiohttp.StreamReader) -> AsyncIterator[tuple[str, Any]]:
    """Yield each event's name and data."""
    rest = b""
    async for chunk in content.iter_any():
        rest += chunk
        while b"\n\n" in rest:
            block, rest = rest.split(b"\n\n", 1)
            if block.startswith(b"event: "):
                name, _, data = block.removeprefix(b"event: ").partition(b"\ndata: ")
                yield name.decode(), json.loads(data)


@asynccontextmanager
async def served(feed: Feed) -> AsyncIterator[Browser]:
    async with (
        ViewServer(feed, ("127.0.0.1", 0), LOOPBACK_NAMES) as server,
        aiohttp.ClientSession() as session,
    ):
        yield Browser(session, server.port)
