"""Publishes views to all readers of the page: first a whole view, then what changes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import msgspec

from why.view.model.changes import changes_between
from why.view.model.view import PageView

_WAITING: Final = 100
"""Changes that wait for a reader. A slower reader is disconnected; when it reconnects it gets a whole view."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A reader: the bearer token of the request, and the namespace to which the page is limited; both may be empty."""

    token: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A server-sent event: its name, and its data as JSON in one line."""

    event: str
    data: bytes


class Publisher:
    """Holds the newest view. All readers receive the same bytes."""

    def __init__(self) -> None:
        self.view: PageView | None = None
        self._first = asyncio.Event()
        self._followers: set[asyncio.Queue[Message | None]] = set()

    def publish(self, view: PageView) -> None:
        """Take a newer view and publish its changes."""
        old, self.view = self.view, view
        self._first.set()
        if old is None or not self._followers:
            return
        changes = changes_between(old, view)
        if changes is None:
            return
        message = Message("change", msgspec.json.encode(changes))
        for queue in self._followers:
            _put(queue, message)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[AsyncIterator[Message]]:
        """Give the view as it is, as soon as there is one, and all changes after it."""
        await self._first.wait()
        assert self.view is not None, "the event is set with the first view"
        queue: asyncio.Queue[Message | None] = asyncio.Queue(_WAITING)
        queue.put_nowait(Message("view", msgspec.json.encode(self.view)))
        self._followers.add(queue)
        try:
            yield _messages(queue)
        finally:
            self._followers.discard(queue)


def _put(queue: "asyncio.Queue[Message | None]", message: Message) -> None:
    try:
        queue.put_nowait(message)
    except asyncio.QueueFull:
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)


async def _messages(queue: "asyncio.Queue[Message | None]") -> AsyncIterator[Message]:
    while (message := await queue.get()) is not None:
        yield message
