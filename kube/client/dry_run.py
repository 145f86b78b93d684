"""A transport that writes nothing: each write is logged at debug level, and answered as by the API server.

It needs read access only. Writes that were not sent are remembered per object and merged into later reads of it, so
that a sequence of writes runs to its end. The server always wins: once the object changes there, the remembered writes
are forgotten, and the caller decides again.
"""

import logging
import re
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kube.client.transport import Request, Response, StreamResponse, Transport
from kube.rules.merge_patch import merge_patched

Object = dict[str, Any]

_PATH: Final = re.compile(
    r"(?P<object>/(?:api/v1|apis/[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/]+)/(?P<name>[^/]+))"
    r"(?:/(?P<subresource>[^/]+))?"
)
_PRECONDITIONS: Final = frozenset({"resourceVersion", "uid"})

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """An object with the writes that were not sent, and the server's version that they were based on."""

    resource_version: str
    body: bytes


class DryRun:
    """Forwards reads and answers writes itself. A merge patch takes one read of the object."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._left_out: dict[str, _LeftOut] = {}

    async def send(self, request: Request) -> Response:
        """Send a read; answer a write: 409 if the object has changed since the caller read it."""
        if request.method == "GET":
            return self._shown(request.path, await self._inner.send(request))
        body: Object = msgspec.json.decode(request.body or b"{}")
        path = _PATH.fullmatch(request.path)
        if path is None or request.method != "PATCH" or path["plural"] == "events":
            # Events are only created, and nothing here reads them.
            answer = _created(request, body)
        else:
            answer = await self._patched(path, request, body)
        if answer.status < 300:
            logger.debug("Would write", extra=_described(path, request, body))
        return answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        """Forward: only reads are streamed."""
        return self._inner.stream(request)

    async def _patched(self, path: re.Match[str], request: Request, body: Object) -> Response:
        read = Request("GET", path["object"], timeout=request.timeout)
        seen = self._shown(path["object"], await self._inner.send(read))
        if seen.status != 200:
            return seen
        document: Object = msgspec.json.decode(seen.body)
        metadata, expected = document["metadata"], body.get("metadata", {})
        if any(expected.get(name, metadata.get(name)) != metadata.get(name) for name in _PRECONDITIONS):
            status = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "the object has been modified"}
            return Response(409, msgspec.json.encode(status))
        status_only = path["subresource"] == "status"
        change = {part: value for part, value in body.items() if (part == "status") == status_only}
        patched = msgspec.json.encode(merge_patched(document, change))
        self._left_out[path["object"]] = _LeftOut(metadata.get("resourceVersion", ""), patched)
        return Response(200, patched)

    def _shown(self, path: str, response: Response) -> Response:
        """Return the response to a read with the writes that were not sent, if the object has not changed since."""
        left_out = self._left_out.get(path)
        if left_out is None:
            return response
        document: Object = msgspec.json.decode(response.body) if response.status == 200 else {}
        if document.get("metadata", {}).get("resourceVersion") == left_out.resource_version:
            return Response(response.status, left_out.body, response.headers)
        del self._left_out[path]
        return response


def _created(request: Request, body: Object) -> Response:
    """Return the posted object as the API server would have stored it."""
    named = {"name": request.path.rpartition("/")[2], "resourceVersion": "1"}
    return Response(201, msgspec.json.encode({**body, "metadata": named | body.get("metadata", {})}))


def _described(path: re.Match[str] | None, request: Request, body: Object) -> dict[str, str]:
    metadata = {name: value for name, value in body.get("metadata", {}).items() if name not in _PRECONDITIONS}
    rest = {key: value for key, value in body.items() if key != "metadata"}
    change = msgspec.json.encode({"metadata": metadata, **rest} if metadata else rest).decode()
    key = "" if path is None else "/".join(filter(None, (path["namespace"], path["name"])))
    match path and path["plural"]:
        case "persistentvolumes":
            return {"pv": key, "change": change}
        case "persistentvolumeclaims":
            return {"pvc": key, "change": change}
        case "pods":
            return {"pod": key, "change": change}
    return {"method": request.method, "path": request.path, "change": change}
