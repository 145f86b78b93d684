"""An API server in memory that is only read: lists, single objects and watches, by what each token may do."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

from kube.client.transport import Request, Response, StreamResponse
from kube.errors import Unavailable
from kube.objects.api_resource import Resource
from why.reading.resources import RESOURCES

Document = dict[str, Any]
May = Callable[[str, str], bool]
"""Whether a token may read a plural in a namespace; an empty one means everywhere."""

KINDS = {resource.kind: resource for resource in RESOURCES.values()}


def everything(_plural: str, _namespace: str) -> bool:
    return True


class WatchedCluster:
    """The server. `down` makes every request fail."""

    def __init__(self, objects: Iterable[Document] = ()) -> None:
        self.down = False
        self.requests: list[tuple[str, str]] = []
        self.streams = 0
        self._objects: defaultdict[str, dict[str, Document]] = defaultdict(dict)
        self._watches: list[tuple[str, str, asyncio.Queue[bytes]]] = []
        self._version = 0
        for document in objects:
            self.put(document)

    def put(self, document: Document) -> None:
        """Create or replace an object."""
        self._version += 1
        stored = deepcopy(document)
        stored["metadata"]["resourceVersion"] = str(self._version)
        key = _key(stored)
        plural = KINDS[stored["kind"]].plural
        happened = "MODIFIED" if key in self._objects[plural] else "ADDED"
        self._objects[plural][key] = stored
        self._tell(plural, happened, stored)

    def remove(self, kind: str, key: str) -> None:
        plural = KINDS[kind].plural
        self._version += 1
        gone = self._objects[plural].pop(key)
        gone["metadata"]["resourceVersion"] = str(self._version)
        self._tell(plural, "DELETED", gone)

    def as_user(self, may: May = everything, token: str = "") -> "Connection":
        return Connection(self, may, token)

    def objects(self, plural: str, namespace: str) -> list[Document]:
        stored = self._objects[plural].values()
        return [each for each in stored if namespace in {"", each["metadata"].get("namespace", "")}]

    @property
    def version(self) -> str:
        return str(self._version)

    def watch(self, plural: str, namespace: str) -> "asyncio.Queue[bytes]":
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._watches.append((plural, namespace, queue))
        return queue

    def _tell(self, plural: str, happened: str, document: Document) -> None:
        for watched, namespace, queue in self._watches:
            if watched == plural and namespace in {"", document["metadata"].get("namespace", "")}:
                queue.put_nowait(json.dumps({"type": happened, "object": document}).encode())


class Connection:
    """Sends requests to the server with the rights of one token."""

    def __init__(self, cluster: WatchedCluster, may: May, token: str) -> None:
        self._cluster = cluster
        self._may = may
        self._token = token

    async def send(self, request: Request) -> Response:
        assert request.method == "GET", "the view writes nothing"
        self._reject_if_down(request)
        resource, namespace, name = _parse(request.path)
        self._cluster.requests.append((self._token, request.path))
        if not self._may(resource.plural, namespace):
            return _status(403, "Forbidden", f"cannot list {resource.plural}")
        objects = self._cluster.objects(resource.plural, namespace)
        if name:
            objects = [each for each in objects if each["metadata"]["name"] == name]
            return Response(200, json.dumps(objects[0]).encode()) if objects else _status(404, "NotFound", name)
        if ("fieldSelector", "status.phase=Pending") in request.query:
            objects = [each for each in objects if each["status"]["phase"] == "Pending"]
        listed = {"metadata": {"resourceVersion": self._cluster.version}, "items": objects}
        return Response(200, json.dumps(listed).encode())

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        self._reject_if_down(request)
        resource, namespace, _ = _parse(request.path)
        assert self._may(resource.plural, namespace)
        queue = self._cluster.watch(resource.plural, namespace)
        self._cluster.streams += 1
        try:
            yield StreamResponse(200, _lines(queue))
        finally:
            self._cluster.streams -= 1

    def _reject_if_down(self, request: Request) -> None:
        if self._cluster.down:
            raise Unavailable(request.method, request.path, 0, "Down", "connection refused")


async def _lines(queue: "asyncio.Queue[bytes]") -> AsyncIterator[bytes]:
    while True:
        yield await queue.get()


def _parse(path: str) -> tuple[Resource, str, str]:
    for resource in KINDS.values():
        root = resource.path().removesuffix(resource.plural)
        if not path.startswith(root):
            continue
        parts = path.removeprefix(root).split("/")
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        if parts[0] == resource.plural:
            return resource, namespace, parts[1] if len(parts) > 1 else ""
    raise AssertionError(path)


def _key(document: Document) -> str:
    metadata = document["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else str(metadata["name"])


def _status(code: int, reason: str, message: str) -> Response:
    return Response(code, json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message}).encode())
