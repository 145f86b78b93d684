"""Serves the page, the view as JSON and as a stream of changes, and the answer of `why` about an object.

200 an answer; 304 a file that the browser has; 400 not as expected, 401 no token or one that the API server does not
know, 403 not permitted or another origin, 404 no such thing, 405 not a read, 421 wrong Host, 500 a bug, 502 no answer
from the API server, 503 too many pages are open.
"""

import asyncio
import io
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from datetime import datetime
from typing import Final, Protocol, Self

import msgspec
from aiohttp import web
from rich.console import Console

from kube.errors import Forbidden, KubeconfigError, KubeError, Unauthorized
from prebinder.serving.guard import RequestRejected
from prebinder.serving.listening import listen
from prebinder.view.request_guard import HEADERS, page_guard
from why.errors import WhyError
from why.explain.targets import Target
from why.rendering.text import print_report
from why.report.report import WhyReport
from why.view.feeds.caller_feed import NoTokenError, TooManyPagesError
from why.view.feeds.publisher import Caller, Message
from why.view.page_files import PageFile, page_files

API: Final = "/api/v1alpha1"
BEARER: Final[Mapping[str, str]] = {"WWW-Authenticate": "Bearer"}
_TEXT_WIDTH: Final = 72
"""Columns of the text, so that it fits beside the map; a terminal of this width shows the same lines."""
_KEEPALIVE_SECONDS: Final = 15.0
"""Between two lines of a stream, so that proxies do not close an idle stream."""
_SEND_SECONDS: Final = 30.0
"""For a reader to take what is sent to it. Until then it holds a page, with its watches."""
_KINDS: Final = {"pvc": "PersistentVolumeClaim", "pod": "Pod", "pv": "PersistentVolume"}


class Feed(Protocol):
    """Where views and answers come from."""

    def following(self, caller: Caller) -> AbstractAsyncContextManager[AsyncIterator[Message]]:
        """Give the whole view first, then its changes. Raises KubeError or WhyError."""

    async def explain(self, target: Target, caller: Caller) -> tuple[WhyReport, datetime]:
        """Return the answer of `why`, and its time. Raises KubeError, and WhyError without such an object."""


class Explanation(msgspec.Struct, frozen=True):
    """The answer of `why` about an object: the text of the command, and the report that it was made of."""

    text: str
    report: WhyReport


class ViewServer:
    """Serves while in `async with`. `port` is the port it listens on."""

    def __init__(self, feed: Feed, address: tuple[str, int], names: Collection[str]) -> None:
        """Take host and port (0: any free one), and the names that a Host header may have."""
        self._feed = feed
        self._host, self.port = address
        self._names = names
        self._files = page_files()
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start serving. Raises OSError if the address is not available."""
        application = web.Application(middlewares=[page_guard(self._names)])
        application.add_routes(
            [
                web.get("/", self._page),
                web.get("/assets/{name}", self._asset),
                web.get(f"{API}/view", self._view),
                web.get(f"{API}/stream", self._stream, allow_head=False),
                web.get(f"{API}/why", self._why),
            ]
        )
        # Who goes away is not waited for: a stream ends with its reader.
        self.port = await listen(self._open, application, (self._host, self.port), handler_cancellation=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def _page(self, request: web.Request) -> web.Response:
        return _file(request, self._files["index.html"])

    async def _asset(self, request: web.Request) -> web.Response:
        file = self._files.get(request.match_info["name"])
        if file is None:
            raise web.HTTPNotFound
        return _file(request, file)

    async def _view(self, request: web.Request) -> web.Response:
        with _rejections():
            async with self._feed.following(_caller(request)) as messages:
                first = await anext(messages)
        return web.Response(body=first.data, content_type="application/json", headers=HEADERS)

    async def _why(self, request: web.Request) -> web.Response:
        target = _target(request)
        with _rejections():
            report, now = await self._feed.explain(target, _caller(request))
        explanation = Explanation(text_of(report, now), report)
        return web.Response(body=msgspec.json.encode(explanation), content_type="application/json", headers=HEADERS)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        with _rejections():
            async with self._feed.following(_caller(request)) as messages:
                response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
                await response.prepare(request)
                try:
                    await _send(response, messages)
                except TimeoutError:
                    if request.transport is not None:
                        request.transport.abort()
        return response


async def _send(response: web.StreamResponse, messages: AsyncIterator[Message]) -> None:
    """Write messages until there are no more or the reader is gone; a comment when nothing happens.

    Raises TimeoutError if the reader does not take them.
    """
    following = asyncio.ensure_future(anext(messages))
    try:
        while True:
            await asyncio.wait({following}, timeout=_KEEPALIVE_SECONDS)
            if not following.done():
                await _write(response, b": nothing new\n\n")
                continue
            message = following.result()
            await _write(response, b"event: %b\ndata: %b\n\n" % (message.event.encode(), message.data))
            following = asyncio.ensure_future(anext(messages))
    except (StopAsyncIteration, ConnectionError):
        return
    finally:
        following.cancel()
        await asyncio.wait({following})


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(_SEND_SECONDS):
        await response.write(data)


@contextmanager
def _rejections() -> Iterator[None]:
    """Return the meaning of a rejection by the API server, for the page."""
    try:
        yield
    except NoTokenError as error:
        raise RequestRejected(401, str(error), BEARER) from error
    except TooManyPagesError as error:
        raise RequestRejected(503, str(error), {"Retry-After": "30"}) from error
    except Unauthorized as error:
        raise RequestRejected(401, f"the API server does not accept the token: {error.message}", BEARER) from error
    except Forbidden as error:
        raise RequestRejected(403, str(error)) from error
    except (KubeError, KubeconfigError) as error:
        raise RequestRejected(502, str(error)) from error
    except WhyError as error:
        # What a command reports about a missing right is reported about an object, too.
        raise RequestRejected(403 if isinstance(error.__cause__, Forbidden) else 404, str(error)) from error


def text_of(report: WhyReport, now: datetime) -> str:
    """Return the text that `pvc-prebinder why` prints."""
    output = io.StringIO()
    print_report(report, Console(file=output, width=_TEXT_WIDTH, highlight=False, color_system=None), now)
    return output.getvalue()


def _file(request: web.Request, file: PageFile) -> web.Response:
    headers = {**HEADERS, "Cache-Control": "no-cache", "ETag": file.tag}
    if request.headers.get("If-None-Match") == file.tag:
        return web.Response(status=304, headers=headers)
    return web.Response(body=file.content, content_type=file.content_type, charset="utf-8", headers=headers)


def _caller(request: web.Request) -> Caller:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return Caller(bearer, request.query.get("namespace", ""))


def _target(request: web.Request) -> Target:
    kind, name = request.query.get("kind", ""), request.query.get("name", "")
    namespace = request.query.get("namespace", "")
    if kind not in _KINDS or not name or (not namespace and kind != "pv"):
        raise RequestRejected(400, "expected kind=pvc or pod with namespace and name, or kind=pv with name")
    return Target(_KINDS[kind], name, namespace)
