"""Transports between a scheduler in the test's process and the API server, each a `through` of `running_scheduler`."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from kube.client.transport import Request, Response, StreamResponse, Transport
from kube.errors import LeadershipLost, Unavailable

_OF_THE_BIND: Final = ("/persistentvolumes/", "/persistentvolumeclaims/")


def binds(request: Request) -> bool:
    """Whether it writes a volume or a claim, or assigns a pod: not a Lease, an Event or a pod's status."""
    if request.method == "GET":
        return False
    return request.path.endswith("/binding") or any(kind in request.path for kind in _OF_THE_BIND)


class InterceptingTransport:
    """Passes everything on. `paths` are those of the writes of the bind, as they were sent."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._inner: Transport | None = None

    def through(self, inner: Transport) -> "InterceptingTransport":
        self._inner = inner
        return self

    async def send(self, request: Request) -> Response:
        assert self._inner is not None
        if not binds(request):
            return await self._inner.send(request)
        self.paths.append(request.path)
        return await self.write(self._inner, request)

    async def write(self, inner: Transport, request: Request) -> Response:
        return await inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        assert self._inner is not None
        return self._inner.stream(request)


class EventBeforeWrite(InterceptingTransport):
    """Has something happen right before the nth write gets through; it receives the name of what is written."""

    def __init__(self, nth: int, event: Callable[[str], Awaitable[object]]) -> None:
        super().__init__()
        self._nth, self._event = nth, event
        self.about = ""

    async def write(self, inner: Transport, request: Request) -> Response:
        if len(self.paths) == self._nth:
            self.about = request.path.rpartition("/")[2]
            await self._event(self.about)
        return await inner.send(request)


class LostAnswers(InterceptingTransport):
    """Every path is written once without an answer: the write takes place, and the response is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.unheard: list[str] = []

    async def write(self, inner: Transport, request: Request) -> Response:
        answer = await inner.send(request)
        if request.path in self.unheard:
            return answer
        self.unheard.append(request.path)
        raise Unavailable(request.method, request.path, 0, "Timeout", "the answer was lost")


class DiesAfterWrite(InterceptingTransport):
    """The process dies when its nth write has taken place: it hears no answer and writes nothing any more."""

    def __init__(self, nth: int) -> None:
        super().__init__()
        self._nth = nth
        self.dead = asyncio.Event()

    async def send(self, request: Request) -> Response:
        if self.dead.is_set() and request.method != "GET":
            raise LeadershipLost("dead")
        return await super().send(request)

    async def write(self, inner: Transport, request: Request) -> Response:
        answer = await inner.send(request)
        if len(self.paths) == self._nth:
            self.dead.set()
            raise LeadershipLost("dies")
        return answer
