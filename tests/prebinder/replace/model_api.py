"""An API server in memory behind the transport seam: lists, conditional patches, deletions and evictions.

Wrong deletions are noted as problems.
"""

import json
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from random import Random

from binder.reservation.contract import Annotations
from kube.client.transport import Request, Response, StreamResponse
from kube.rules.merge_patch import merge_patched
from tests.fakes.objects import HOSTNAME, Object

OURS = Annotations()
_LISTS = {
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "persistentvolumes": "PersistentVolume",
    "pods": "Pod",
    "nodes": "Node",
    "statefulsets": "StatefulSet",
    "namespaces": "Namespace",
    "storageclasses": "StorageClass",
    "leases": "Lease",
}


class Killed(BaseException):
    """The command is dead: what it sent was done, and nothing follows."""


class ModelApi:
    """The API server, and what a test builds in it. `problems` are what must never happen."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.objects: dict[tuple[str, str], Object] = {}
        self.owner_of_data: dict[str, str] = {}
        self.problems: list[str] = []
        self.deleted: list[str] = []
        self.forbids_eviction = False
        self.deletes_of_volumes_with_a_node = False
        """Whether a user has given up a volume that is not lost."""
        self._version = 100
        self._uids = 0

    # Objects

    def put(self, plural: str, document: Object) -> Object:
        """Create or replace an object."""
        meta = document["metadata"]
        self._version += 1
        meta["resourceVersion"] = str(self._version)
        if "uid" not in meta:
            self._uids += 1
            meta["uid"] = f"uid-{self._uids}"
        document.setdefault("kind", _LISTS[plural])
        self.objects[plural, key_of(meta)] = document
        return document

    def get(self, plural: str, key: str) -> Object | None:
        return self.objects.get((plural, key))

    def all(self, plural: str) -> list[Object]:
        return [self.objects[each] for each in sorted(each for each in self.objects if each[0] == plural)]

    def remove(self, plural: str, key: str) -> None:
        self._version += 1
        self.objects.pop((plural, key), None)

    def change(self, plural: str, document: Object) -> None:
        self.put(plural, document)

    # What a test builds

    def add_node(self, name: str) -> None:
        self.put(
            "nodes",
            {
                "metadata": {"name": name, "labels": {HOSTNAME: name}},
                "spec": {},
                "status": {
                    "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )

    def add_disk(self, name: str, node: str, size: str) -> None:
        term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
        spec: Object = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "disk.csi.example", "volumeHandle": f"handle-{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }
        self.put("persistentvolumes", {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}})

    def add_set(self, name: str, replicas: int, templates: Iterable[tuple[str, str]], policy: str) -> None:
        claims = [{"metadata": {"name": template}, "spec": _claim_spec(size)} for template, size in templates]
        spec = {
            "replicas": replicas,
            "podManagementPolicy": policy,
            "volumeClaimTemplates": claims,
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main"}]}},
        }
        self.put("statefulsets", {"metadata": {"name": name, "namespace": "shop"}, "spec": spec})

    # The transport

    async def send(self, request: Request) -> Response:
        plural, namespace, name, subresource = _parse(request.path)
        if request.method == "GET" and not name:
            items = [each for each in self.all(plural) if namespace in ("", each["metadata"].get("namespace", ""))]
            return _answer(200, {"kind": "List", "metadata": {"resourceVersion": str(self._version)}, "items": items})
        document = self.get(plural, f"{namespace}/{name}" if namespace else name)
        if document is None:
            return _failure(404, "NotFound")
        if request.method == "GET":
            return _answer(200, document)
        body: Object = json.loads(request.body or b"{}")
        if request.method == "DELETE":
            return self._delete(document, body)
        if subresource == "eviction":
            return self._evict(document, body)
        assert request.method == "PATCH", request
        return self._patch(plural, document, body)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError

    def _patch(self, plural: str, document: Object, body: Object) -> Response:
        meta, wanted = document["metadata"], body["metadata"]
        if wanted["resourceVersion"] != meta["resourceVersion"] or wanted.get("uid", meta["uid"]) != meta["uid"]:
            return _failure(409, "Conflict")
        self.put(plural, merge_patched(document, body))
        return _answer(200, self.objects[plural, key_of(meta)])

    def _delete(self, claim: Object, options: Object) -> Response:
        if not _are_met(claim, options["preconditions"]):
            return _failure(409, "Conflict")
        claim["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
        self.deleted.append(key_of(claim["metadata"]))
        volume = self.get("persistentvolumes", claim["spec"].get("volumeName", ""))
        node = node_of(volume) if volume is not None else ""
        health = ((volume or {}).get("metadata", {}).get("annotations") or {}).get(OURS.health)
        if self.get("nodes", node) is not None and health != "DataLoss" and not self.deletes_of_volumes_with_a_node:
            self.problems.append(f"claim {key_of(claim['metadata'])} deleted although node {node} exists")
        self.put("persistentvolumeclaims", claim)
        return _answer(200, claim)

    def _evict(self, pod: Object, eviction: Object) -> Response:
        if self.forbids_eviction:
            return _failure(429, "TooManyRequests")
        options = eviction["deleteOptions"]
        if not _are_met(pod, options["preconditions"]):
            return _failure(409, "Conflict")
        if "dryRun" not in options:
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
            self.put("pods", pod)
        return _answer(201, {"kind": "Status", "status": "Success"})


def _claim_spec(size: str) -> Object:
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": size}},
    }


def _are_met(document: Object, preconditions: Object) -> bool:
    meta = document["metadata"]
    return all(meta[key] == value for key, value in preconditions.items())


def _parse(path: str) -> tuple[str, str, str, str]:
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource, *_ = [*parts, "", ""]
    return plural, namespace, name, subresource


def _answer(status: int, document: Object) -> Response:
    return Response(status, json.dumps(document).encode())


def _failure(status: int, reason: str) -> Response:
    return _answer(status, {"kind": "Status", "code": status, "reason": reason, "message": reason})


def key_of(meta: Object) -> str:
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def node_of(volume: Object) -> str:
    term = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]
    return str(term["matchExpressions"][0]["values"][0])
