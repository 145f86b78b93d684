"""The API verbs that this program uses: list, watch, get, create, and the conditional patch.

There is no delete and no unconditional write, so no caller can lose anything by mistake; and an API that is created for
a term as leader sends no write after it. Objects are returned as raw JSON; decoding is done elsewhere.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from kube.client.rate_limit import UNLIMITED, RateLimit, Unlimited
from kube.client.transport import JSON, MERGE_PATCH, Request, Response, Transport
from kube.errors import Expired, KubeError, Unavailable, error_from_event, error_from_status
from kube.objects.api_resource import Resource

T = TypeVar("T")

Fence = Callable[[Request], Request]
"""Returns a request as it may be sent now, or raises LeadershipLost for a write."""

METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Accept header for a list that carries nothing but metadata."""


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of a list. `following` is the continue token, empty on the last page."""

    items: list[msgspec.Raw]
    resource_version: str
    following: str


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A complete list and the resource version to watch from."""

    items: list[T]
    resource_version: str


class WatchEvent(msgspec.Struct, frozen=True):
    """A line of a watch. `type` is ADDED, MODIFIED, DELETED or BOOKMARK; ERROR is raised as an error instead."""

    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    following: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_LIST: Final = msgspec.json.Decoder(_List)
_EVENT: Final = msgspec.json.Decoder(WatchEvent)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])

Check = Callable[[], None]


def nothing() -> None: ...


class KubeApi:
    """Typed access to one API server. Every method raises a kube.errors.KubeError, or what `fence` raises.

    `urgent` requests do not wait for others to be answered. `rate` delays and counts requests. `fence` is called with
    each request right before it is sent.
    """

    def __init__(
        self,
        transport: Transport,
        timeout: float = 30.0,
        *,
        urgent: bool = False,
        rate: RateLimit | Unlimited = UNLIMITED,
        fence: Fence = lambda request: request,
    ) -> None:
        self._transport = transport
        self._urgent = urgent
        self._timeout = timeout
        self._rate = rate
        self._fence = fence

    async def list_page(
        self, resource: Resource, *, limit: int, following: str = "", namespace: str = "", accept: str = JSON
    ) -> ListPage:
        """Return one page; `following` is the continue token of the previous page.

        Without `namespace` all namespaces are listed.
        """
        query = {"limit": str(limit), "continue": following, "fieldSelector": resource.field_selector}
        request = Request("GET", resource.path(namespace), _pairs(query), accept=accept, timeout=self._timeout)
        page = _decoded(_LIST, request, (await self._send(request)).body)
        return ListPage(page.items or [], page.metadata.resource_version, page.metadata.following)

    async def list_all(
        self,
        resource: Resource,
        take: Callable[[msgspec.Raw], T | None],
        *,
        namespace: str = "",
        limit: int = 500,
    ) -> Listing[T]:
        """List a kind in pages, converting each object by `take`; objects for which it returns None are omitted.

        Without `namespace` all namespaces are listed. If a continue token expires midway, the list is restarted once; a
        second time raises Expired.
        """
        page_of = partial(self.list_page, resource, limit=limit, namespace=namespace)
        try:
            return await _list_once(page_of, take)
        except Expired:
            return await _list_once(page_of, take)

    @asynccontextmanager
    async def watch(
        self, resource: Resource, resource_version: str, *, timeout_seconds: int, silence: float
    ) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        """Watch a kind from a resource version, bookmarks included.

        The server ends the watch after `timeout_seconds`. If no line arrives for `silence` seconds, Unavailable is
        raised. An ERROR event raises the error it carries, Expired above all.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
            "fieldSelector": resource.field_selector,
        }
        request = Request("GET", resource.path(), _pairs(query), timeout=silence)
        began = await self._rate.turn()
        async with self._transport.stream(request) as response:
            self._rate.answered("WATCH", response.status, began)
            if response.status != 200:
                body = b"\n".join([line async for line in response.lines])
                raise error_from_status("WATCH", request.path, response.status, body, response.headers)
            yield _events(request, response.lines)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> msgspec.Raw:
        """Return one object."""
        return await self._object(Request("GET", resource.path(namespace, name), timeout=self._timeout))

    async def create(
        self, resource: Resource, body: Mapping[str, Any], namespace: str = "", *, name: str = "", subresource: str = ""
    ) -> msgspec.Raw:
        """Create an object and return it as stored. Raises AlreadyExists if the name is taken.

        With `name` and `subresource` it is posted to that subresource, as a Binding or an Eviction is; the response is
        then that of the subresource.
        """
        path = resource.path(namespace, name, subresource)
        return await self._object(Request("POST", path, body=msgspec.json.encode(body), timeout=self._timeout))

    async def conditional_patch(  # noqa: PLR0913 - the preconditions are named, never positional
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        resource_version: str | int,
        namespace: str = "",
        uid: str = "",
        subresource: str = "",
        check: Check = nothing,
    ) -> msgspec.Raw:
        """Merge-patch an object if it is unchanged since it was read, and return it as stored.

        Raises Conflict if it has changed since `resource_version` (or, with `uid`, was recreated). Fields that are not
        named keep their values, unknown ones included. `check` is called after the wait for the request's turn; what it
        raises is raised, and nothing is sent.
        """
        if not resource_version:
            raise ValueError("conditional_patch needs the resource version of the object the decision was made on")
        metadata = {**body.get("metadata", {}), "resourceVersion": str(resource_version)}
        if uid:
            metadata["uid"] = uid
        request = Request(
            "PATCH",
            resource.path(namespace, name, subresource),
            body=msgspec.json.encode({**body, "metadata": metadata}),
            content_type=MERGE_PATCH,
            timeout=self._timeout,
        )
        return await self._object(request, check)

    async def _object(self, request: Request, check: Check = nothing) -> msgspec.Raw:
        body = (await self._send(request, check)).body
        _decoded(_OBJECT, request, body)
        return msgspec.Raw(body)

    async def _send(self, request: Request, check: Check = nothing) -> Response:
        began, status = await self._rate.turn(), 0
        check()
        try:
            # Fenced only after the wait for its turn, next to the network: the term may have ended meanwhile.
            fenced = self._fence(replace(request, urgent=True) if self._urgent else request)
            response = await self._transport.send(fenced)
            status = response.status
        except KubeError as error:
            status = error.status
            raise
        finally:
            self._rate.answered(request.method, status, began)
        if 200 <= status < 300:
            return response
        raise error_from_status(request.method, request.path, response.status, response.body, response.headers)


async def _list_once(
    page_of: Callable[..., Awaitable[ListPage]], take: Callable[[msgspec.Raw], T | None]
) -> Listing[T]:
    taken: list[T] = []
    following = ""
    while True:
        page = await page_of(following=following)
        taken.extend(item for item in map(take, page.items) if item is not None)
        following = page.following
        if not following:
            return Listing(taken, page.resource_version)


async def _events(request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[WatchEvent]:
    async for line in lines:
        if not line.strip():
            continue
        event = _decoded(_EVENT, request, line)
        if event.type == "ERROR":
            raise error_from_event(request.path, event.object)
        yield event


def _decoded(decoder: msgspec.json.Decoder[T], request: Request, body: bytes) -> T:
    """Decode a response, or report what answered instead: truncated lines and a proxy's HTML pages end here."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        quoted = bytes(body[:200]).decode("utf-8", "replace")
        message = f"expected JSON of the Kubernetes API, got {quoted!r} ({error})"
        if not quoted.startswith("{"):
            message += "; is this the address of an API server, or of a proxy in front of it?"
        raise Unavailable(request.method, request.path, 200, "NotTheApi", message) from error


def _pairs(query: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in query.items() if value)
