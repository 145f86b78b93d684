"""An API server in memory, behind the transport seam. It keeps the rules our writes rely on:

one resourceVersion for all, 409 for a stale version or another uid, merge patches, a status that only its subresource
changes, 422 for a volumeName that is set already. A watch is a store that receives each change at once, or later.
"""

import asyncio
import copy
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from kube.client.transport import Request, Response, StreamResponse
from kube.decoding.decode import DECODERS
from kube.errors import Unavailable
from kube.objects.api_resource import NODE_POOLS
from kube.objects.model import Record, record_key
from kube.rules.merge_patch import merge_patched
from kube.store.store import Store

KINDS = {
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "persistentvolumes": "PersistentVolume",
    "storageclasses": "StorageClass",
    "pods": "Pod",
    "nodes": "Node",
    "csinodes": "CSINode",
    "csidrivers": "CSIDriver",
    "csistoragecapacities": "CSIStorageCapacity",
    "statefulsets": "StatefulSet",
    "namespaces": "Namespace",
    "resourcequotas": "ResourceQuota",
}
Object = dict[str, Any]
Hook = Callable[[Request], None]


class Killed(BaseException):
    """The process is dead: nothing it does afterwards reaches the server."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write that succeeded."""

    plural: str
    name: str
    subresource: str
    body: Object


class FakeKubeApi:
    """The server. `writes` is the log of all successful writes through a connection.

    `lose_responses`: numbers of writes, counted from the first one, that succeed while their response is lost.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.writes: list[Write] = []
        self.reject_next: list[tuple[str, Response | Unavailable]] = []
        self.before_write: Hook | None = None
        self.lose_responses: set[int] = set()
        self.lagging = False
        self.node_pools: list[Object] | None = None
        """Karpenter's; None if the server does not know the kind."""
        self.snapshots: dict[tuple[str, str], Object] | None = None
        """external-snapshotter's objects by plural and key; None if the server does not know the kinds."""
        self._version = 100
        self._stores: list[Store] = []
        self._late: list[tuple[str, Object | None, Object | None]] = []

    # What tests and other components do: no connection, no log.

    def put(self, document: Object) -> Object:
        """Create or replace an object as another client would."""
        plural = next(name for name, kind in KINDS.items() if kind == document["kind"])
        metadata = document["metadata"]
        key = (plural, _key(metadata))
        self._version += 1
        metadata["resourceVersion"] = str(self._version)
        metadata.setdefault("uid", f"uid-{plural}-{_key(metadata)}")
        old = self.objects.get(key)
        self.objects[key] = document
        self._tell(plural, old, document)
        return document

    def change(self, plural: str, key: str, change: Callable[[Object], None]) -> None:
        document = copy.deepcopy(self.objects[plural, key])
        change(document)
        self.put(document)

    def remove(self, plural: str, key: str) -> None:
        document = self.objects.pop((plural, key))
        self._version += 1
        deleted = {**document, "metadata": {**document["metadata"], "resourceVersion": str(self._version)}}
        self._tell(plural, deleted, None)

    def get(self, plural: str, key: str) -> Object:
        return self.objects[plural, key]

    def all(self, plural: str) -> Iterator[Object]:
        return (document for (kind, _), document in sorted(self.objects.items()) if kind == plural)

    def feed(self, store: Store) -> None:
        """List everything into the store and keep it up to date."""
        for plural, collection in _collections(store).items():
            collection.replace([_record(plural, document) for document in self.all(plural)], str(self._version))
        self._stores.append(store)

    def catch_up(self) -> None:
        """Deliver what a lagging watch held back."""
        late, self._late = self._late, []
        for plural, old, new in late:
            self._deliver(plural, old, new)

    def forget(self, store: Store) -> None:
        self._stores.remove(store)

    # What a connection does.

    def answer(self, request: Request) -> Response:
        if request.path == NODE_POOLS.path():
            return self._list_node_pools()
        plural, key, subresource = _parse(request.path)
        if plural.startswith("volumesnapshot"):
            return self._snapshot(plural, key)
        document = self.objects.get((plural, key))
        if document is None:
            return _failure(404, "NotFound")
        if request.method == "GET":
            return _ok(document)
        body: Object = json.loads(request.body or b"{}")
        if request.method == "POST":
            assert subresource in {"binding", "eviction"}, request
            return self._assign(key, document, body) if subresource == "binding" else self._evict(key, body)
        assert request.method == "PATCH", request
        assert request.content_type == "application/merge-patch+json", request
        problem = _conflict(document, body) or _immutable(document, body)
        if problem is not None:
            return problem
        patched = copy.deepcopy(document)
        for part in {"status"} if subresource == "status" else set(body) - {"status"}:
            patched[part] = merge_patched(patched.get(part), body.get(part, {}))
        if not patched["metadata"].get("annotations", True):
            del patched["metadata"]["annotations"]
        if patched != document:
            self.put(patched)
        self.writes.append(Write(plural, key, subresource, body))
        return _ok(self.objects[plural, key])

    def _snapshot(self, plural: str, key: str) -> Response:
        """The API server names the object that is missing, unless it does not know the kind."""
        if self.snapshots is None:
            return _failure(404, "NotFound", "the server could not find the requested resource")
        document = self.snapshots.get((plural, key))
        name = key.rpartition("/")[2]
        return _failure(404, "NotFound", f'{plural} "{name}" not found') if document is None else _ok(document)

    def _list_node_pools(self) -> Response:
        if self.node_pools is None:
            return _failure(404, "NotFound")
        return _ok({"metadata": {"resourceVersion": str(self._version)}, "items": self.node_pools})

    def _assign(self, key: str, pod: Object, binding: Object) -> Response:
        """A Binding: once, and only for the pod with this uid (assignPod in pkg/registry/core/pod/storage)."""
        metadata = pod["metadata"]
        meant = binding["metadata"]["uid"] == metadata["uid"]
        if not meant or "deletionTimestamp" in metadata or pod["spec"].get("nodeName"):
            return _failure(409, "Conflict")
        assert binding["target"]["kind"] == "Node", binding
        node = {"nodeName": binding["target"]["name"]}
        self.change("pods", key, lambda document: document["spec"].update(node))
        self.writes.append(Write("pods", key, "binding", binding))
        return Response(201, json.dumps({"kind": "Status", "status": "Success", "code": 201}).encode())

    def _evict(self, key: str, eviction: Object) -> Response:
        """An Eviction that no budget forbids: the pod is being deleted."""
        ends = {"deletionTimestamp": "2026-01-01T12:00:00Z"}
        self.change("pods", key, lambda document: document["metadata"].update(ends))
        self.writes.append(Write("pods", key, "eviction", eviction))
        return Response(201, json.dumps({"kind": "Status", "status": "Success", "code": 201}).encode())

    def _tell(self, plural: str, old: Object | None, new: Object | None) -> None:
        if self.lagging:
            self._late.append((plural, *copy.deepcopy((old, new))))
        else:
            self._deliver(plural, old, new)

    def _deliver(self, plural: str, old: Object | None, new: Object | None) -> None:
        for store in self._stores:
            collection = _collections(store)[plural]
            if new is not None:
                collection.upsert(_record(plural, new))
            elif old is not None:
                deleted = _record(plural, old)
                collection.delete(record_key(deleted), deleted.resource_version)


class Connection:
    """The connection of one process. It dies after `dies_after` writes, right after the last one has succeeded.

    `on_write` is called with each write when it is sent, `on_read` with each other request.
    """

    def __init__(self, server: FakeKubeApi, dies_after: int | None = None) -> None:
        self._server = server
        self._left = dies_after
        self.requests = 0
        self.on_write: Hook = lambda _: None
        self.on_read: Hook = lambda _: None
        self.most_at_once = 0
        self._at_once = 0

    async def send(self, request: Request) -> Response:
        (self.on_read if request.method == "GET" else self.on_write)(request)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(0)
        self._at_once -= 1
        if self._left == 0:
            raise Killed
        self.requests += 1
        write = request.method != "GET"
        if write and self._server.before_write is not None:
            self._server.before_write(request)
        for index, (part, rejection) in enumerate(self._server.reject_next):
            if part in f"{request.method} {request.path}":
                del self._server.reject_next[index]
                if isinstance(rejection, Unavailable):
                    raise rejection
                return rejection
        response = self._server.answer(request)
        if write and len(self._server.writes) in self._server.lose_responses:
            self._server.lose_responses.remove(len(self._server.writes))
            raise Unavailable(request.method, request.path, 0, "Timeout", "no response")
        if write and self._left is not None and response.status in {200, 201}:
            self._left -= 1
            if self._left == 0:
                raise Killed
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError


def failure(status: int, reason: str) -> Response:
    """A rejection for `reject_next`."""
    return _failure(status, reason)


def _ok(document: Object) -> Response:
    return Response(200, json.dumps(document).encode())


def _failure(status: int, reason: str, message: str = "") -> Response:
    body = {"kind": "Status", "code": status, "reason": reason, "message": message or reason}
    return Response(status, json.dumps(body).encode())


def _conflict(document: Object, body: Object) -> Response | None:
    now, wanted = document["metadata"], body.get("metadata", {})
    assert wanted.get("resourceVersion"), "a write without resourceVersion"
    stale = wanted["resourceVersion"] != now["resourceVersion"]
    other = wanted.get("uid", now["uid"]) != now["uid"]
    return _failure(409, "Conflict") if stale or other else None


def _immutable(document: Object, body: Object) -> Response | None:
    if document["kind"] != "PersistentVolumeClaim" or "volumeName" not in body.get("spec", {}):
        return None
    held = document["spec"].get("volumeName")
    return _failure(422, "Invalid") if held and held != body["spec"]["volumeName"] else None


def _parse(path: str) -> tuple[str, str, str]:
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[0] == "namespaces":
        _, namespace, plural, name, *rest = parts
        return plural, f"{namespace}/{name}", "".join(rest)
    plural, name, *rest = parts
    return plural, name, "".join(rest)


def _key(metadata: Object) -> str:
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _record(plural: str, document: Object) -> Record:
    return DECODERS[KINDS[plural]](json.dumps(document).encode())


def _collections(store: Store) -> dict[str, Any]:
    return {
        "persistentvolumeclaims": store.claims,
        "persistentvolumes": store.volumes,
        "storageclasses": store.classes,
        "pods": store.pods,
        "nodes": store.nodes,
        "csinodes": store.csi_nodes,
        "csidrivers": store.csi_drivers,
        "csistoragecapacities": store.capacities,
        "statefulsets": store.stateful_sets,
        "namespaces": store.namespaces,
        "resourcequotas": store.quotas,
    }
