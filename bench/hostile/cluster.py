"""An API server of lists and watches only, over plain HTTP on loopback: a cluster exists, then hostile objects appear.

It keeps the Lease, accepts Events and every other write, and records when each arrived. Nothing reacts: there is no PV
controller and no scheduler. Where a real API server would only add its own delays this shows ours.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, Final

import msgspec
from aiohttp import web

from bench.http_server import served
from kube.objects.api_resource import LEASES, WATCHED, Resource

Document = dict[str, Any]

_FIRST_VERSION: Final = 1_000


class HostileCluster:
    """Lists what `standing` yields, and shows `arriving` to the watches after `let_loose`."""

    def __init__(self, standing: Iterable[Document], arriving: Iterable[Document]) -> None:
        self._versions = iter(range(_FIRST_VERSION, 10**9))
        self._lists = _by_kind(self._complete(document) for document in standing)
        self._arriving = _by_kind(self._complete(document) for document in arriving)
        self._loose = asyncio.Event()
        self._lease: Document | None = None
        self.leased = asyncio.Event()
        """Set when a controller has become leader."""
        self.renewals: list[float] = []
        self.reported: set[str] = set()
        """Names of the pods for which an Event was sent."""

    @property
    def longest_without_renewal(self) -> float:
        """Return the seconds between the two renewals furthest apart."""
        return max(
            (later - earlier for earlier, later in zip(self.renewals, self.renewals[1:], strict=False)), default=0
        )

    def let_loose(self) -> None:
        """Let the hostile objects appear."""
        self._loose.set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve while inside; yields the URL."""
        application = web.Application(client_max_size=2**30)
        for resource in WATCHED:
            application.router.add_get(resource.path(), self._listed(resource))
        application.router.add_route("*", f"/apis/{LEASES.api_version}/namespaces/{{rest:.*}}", self._leased)
        application.router.add_route("*", "/{rest:.*}", self._written)
        async with served(application) as url:
            yield url

    def _complete(self, document: Document) -> Document:
        version = next(self._versions)
        metadata = {"resourceVersion": str(version), "uid": f"00000000-0000-4000-8000-{version:012x}"}
        metadata["creationTimestamp"] = "2026-03-01T09:30:00Z"
        return {**document, "metadata": metadata | document["metadata"]}

    def _listed(self, resource: Resource) -> Any:
        listed = [msgspec.Raw(msgspec.json.encode(document)) for document in self._lists.get(resource.kind, [])]

        async def answer(request: web.Request) -> web.StreamResponse:
            if request.query.get("watch"):
                return await self._watched(request, resource)
            begin, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or 500)
            end = begin + limit
            metadata = {"resourceVersion": "900000000", "continue": str(end) if end < len(listed) else ""}
            page = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
            return _json({**page, "items": listed[begin:end]})

        return answer

    async def _watched(self, request: web.Request, resource: Resource) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await self._loose.wait()
        for document in self._arriving.get(resource.kind, []):
            await response.write(msgspec.json.encode({"type": "ADDED", "object": document}) + b"\n")
        await asyncio.Event().wait()
        return response

    async def _leased(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return _json(self._lease) if self._lease is not None else _json(_NOT_FOUND, status=404)
        given: Document = msgspec.json.decode(await request.read())
        lease = self._lease or {"metadata": {}, "spec": {}}
        merged = {**lease["metadata"], **given.get("metadata", {}), "resourceVersion": str(next(self._versions))}
        self._lease = {"metadata": merged, "spec": {**lease["spec"], **given.get("spec", {})}}
        self.renewals.append(monotonic())
        self.leased.set()
        return _json(self._lease)

    async def _written(self, request: web.Request) -> web.StreamResponse:
        """Take an Event; answer any other write as a conflict that does not end, so that nothing is ever bound."""
        if request.method == "POST" and request.path.endswith("/events"):
            event: Document = msgspec.json.decode(await request.read())
            if event["regarding"]["kind"] == "Pod":
                self.reported.add(event["regarding"]["name"])
            return _json({"metadata": {"name": event["metadata"]["name"], "resourceVersion": "1"}}, status=201)
        return _json(_NOT_FOUND, status=404)


_NOT_FOUND: Final = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}


def _by_kind(documents: Iterator[Document]) -> dict[str, list[Document]]:
    by_kind: dict[str, list[Document]] = {}
    for document in documents:
        by_kind.setdefault(document["kind"], []).append(document)
    return by_kind


def _json(content: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(content), status=status, content_type="application/json")
