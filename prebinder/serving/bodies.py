"""Reads the bodies of requests: all of a server within a limit of memory, each within a limit of size and time.

Only what has arrived counts: a client that promises much takes nothing from others. When too much has, the largest
unfinished body is given up, which takes most from the others.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

BODY_SECONDS: Final = 5.0
"""For a body to arrive: kube-scheduler's own limit for a call to an extender, unless configured shorter."""
MAX_UNFINISHED_BYTES: Final = 64 * 1024 * 1024
"""Of all bodies that are on their way to a server."""


@dataclass(slots=True, eq=False)
class _Unfinished:
    timeout: asyncio.Timeout
    content: bytearray = field(default_factory=bytearray)
    given_up: bool = False


class Bodies:
    """The bodies of one server."""

    def __init__(self, seconds: float = BODY_SECONDS, max_unfinished: int = MAX_UNFINISHED_BYTES) -> None:
        self._seconds = seconds
        self._max_unfinished = max_unfinished
        self._unfinished: set[_Unfinished] = set()
        self._bytes = 0

    async def read(self, request: web.Request, max_bytes: int) -> bytes:
        """Return the body. Raises an HTTPException: 400 not well-formed, 408 too slow, 413 too large, 503 given up."""
        if (request.content_length or 0) > max_bytes:
            raise _too_large(max_bytes)
        body = _Unfinished(asyncio.timeout(self._seconds))
        self._unfinished.add(body)
        try:
            async with body.timeout:
                await self._fill(body, request, max_bytes)
        except TimeoutError as error:
            if not body.given_up:
                raise web.HTTPRequestTimeout(text=f"the body did not arrive within {self._seconds:g} s") from error
        except web.RequestPayloadError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        finally:
            self._forget(body)
        if body.given_up:
            raise web.HTTPServiceUnavailable(text="too many requests at once")
        return bytes(body.content)

    async def _fill(self, body: _Unfinished, request: web.Request, max_bytes: int) -> None:
        async for chunk in request.content.iter_any():
            if len(body.content) + len(chunk) > max_bytes:
                raise _too_large(max_bytes)
            body.content += chunk
            self._bytes += len(chunk)
            if self._bytes > self._max_unfinished:
                self._give_up_largest()
            if body.given_up:
                return

    def _give_up_largest(self) -> None:
        waiting = [body for body in self._unfinished if not body.timeout.expired()]
        largest = max(waiting, key=lambda body: len(body.content))
        largest.given_up = True
        largest.timeout.reschedule(asyncio.get_running_loop().time())
        self._forget(largest)

    def _forget(self, body: _Unfinished) -> None:
        if body in self._unfinished:
            self._unfinished.remove(body)
            self._bytes -= len(body.content)


def _too_large(max_bytes: int) -> web.HTTPException:
    return web.HTTPRequestEntityTooLarge(max_bytes, max_bytes + 1, text=f"expected at most {max_bytes} bytes")
