"""The lists of a large cluster as an API server would send them, page by page, over plain HTTP on loopback.

Objects have what real ones have: managedFields, labels, annotations, node affinity; 2.4 KB a volume, 1.9 KB a claim,
3.6 KB a node on average. Three of five claims are bound; the other volumes are Available.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from aiohttp import web

from bench.http_server import served
from bench.in_memory import local_pools
from kube.objects.api_resource import CLAIMS, NODES, VOLUMES, WATCHED, Resource
from kube.rules.topology import ZONE_LABEL

Document = dict[str, Any]

ZONES: Final = 3
CLASSES: Final = 8
NAMESPACES: Final = 200
VERSION: Final = "9000000"
_CREATED: Final = "2026-03-01T09:30:00Z"


class LargeCluster:
    """Serves so many volumes, as many claims, and nodes; and what is `beside` them. Watches stay silent."""

    def __init__(self, pairs: int, nodes: int, beside: Iterable[Document] = ()) -> None:
        makers: Mapping[Resource, tuple[int, Callable[[int], Document]]] = {
            VOLUMES: (pairs, _volume),
            CLAIMS: (pairs, _claim),
            NODES: (nodes, _node),
        }
        # Encoded in advance: what is measured is the reader.
        self.lists = {
            resource.plural: [msgspec.Raw(msgspec.json.encode(make(number))) for number in range(count)]
            for resource, (count, make) in makers.items()
        }
        plural = {resource.kind: resource.plural for resource in WATCHED}
        for number, document in enumerate(beside):
            metadata = _metadata(uid=50_000_000 + number, manager="csi-provisioner", **document["metadata"])
            raw = msgspec.Raw(msgspec.json.encode({**document, "metadata": metadata}))
            self.lists.setdefault(plural[document["kind"]], []).append(raw)

    def megabytes(self) -> float:
        """Return the size of all lists together."""
        return sum(len(bytes(raw)) for objects in self.lists.values() for raw in objects) / 1e6

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve while inside; yields the URL."""
        application = web.Application()
        for resource in WATCHED:
            application.router.add_get(resource.path(), self._handler(resource))
        async with served(application) as url:
            yield url

    def _handler(self, resource: Resource) -> Callable[[web.Request], Any]:
        objects = self.lists.get(resource.plural, [])

        async def answer(request: web.Request) -> web.StreamResponse:
            if request.query.get("watch"):
                return await _silent_watch(request)
            begin, limit = int(request.query.get("continue") or 0), int(request.query["limit"])
            end = begin + limit
            metadata = {"resourceVersion": VERSION, "continue": str(end) if end < len(objects) else ""}
            page = {
                "kind": f"{resource.kind}List",
                "apiVersion": resource.api_version,
                "metadata": metadata,
                "items": objects[begin:end],
            }
            return web.Response(body=msgspec.json.encode(page), content_type="application/json")

        return answer


def with_pools(nodes: int, claims: int) -> LargeCluster:
    """Return a cluster of so many nodes with a pool each and claims in flight there, and one pod that waits."""
    names = [_node_name(number) for number in range(nodes)]
    beside: list[Document] = [local_pools.driver(), local_pools.provisioning_class()]
    beside += [make(name) for name in names for make in (local_pools.csi_node, local_pools.report)]
    beside += local_pools.in_flight(names, claims)
    beside += local_pools.wanting("waiting", 10, 20)
    return LargeCluster(0, nodes, beside)


async def _silent_watch(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await asyncio.Event().wait()
    return response


def _is_bound(number: int) -> bool:
    return number % 5 < 3


def _zone(number: int) -> str:
    return f"zone-{number % ZONES}"


def _namespace(number: int) -> str:
    return f"team-{number % NAMESPACES}"


def _metadata(name: str, uid: int, manager: str, **more: Any) -> Document:
    fields: Document = {
        f"f:{key}": {".": {}, "f:value": {}} for key in ("spec", "status", "metadata", "labels", "annotations")
    }
    managed = [
        {
            "manager": who,
            "operation": "Update",
            "apiVersion": "v1",
            "time": _CREATED,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        for who in (manager, "kube-controller-manager")
    ]
    return {
        "name": name,
        "uid": f"00000000-0000-4000-8000-{uid:012x}",
        "resourceVersion": str(1_000_000 + uid % 7_000_000),
        "creationTimestamp": _CREATED,
        "managedFields": managed,
        **more,
    }


def _volume(number: int) -> Document:
    affinity = {"key": ZONE_LABEL, "operator": "In", "values": [_zone(number)]}
    name = f"pvc-{number:08x}-4c1d-4c7e-9a55-{number:012x}"
    spec: Document = {
        "capacity": {"storage": f"{1 + number % 50}Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": f"class-{number % CLASSES}",
        "volumeMode": "Filesystem",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [affinity]}]}},
        "csi": {
            "driver": "disks.csi.example.com",
            "volumeHandle": f"vol-{number:017x}",
            "fsType": "ext4",
            "volumeAttributes": {"storage.kubernetes.io/csiProvisionerIdentity": f"1709285400-{number % 3}-disks"},
        },
    }
    if _is_bound(number):
        spec["claimRef"] = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": _namespace(number),
            "name": f"data-app-{number}",
            "uid": f"00000000-0000-4000-8000-{10_000_000 + number:012x}",
            "resourceVersion": "900000",
        }
    annotations = {
        "pv.kubernetes.io/provisioned-by": "disks.csi.example.com",
        "volume.kubernetes.io/provisioner-deletion-secret-name": "",
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
    }
    labels = {ZONE_LABEL: _zone(number), "team": _namespace(number), "app.kubernetes.io/managed-by": "storage"}
    finalizers = ["kubernetes.io/pv-protection"]
    return {
        "metadata": _metadata(
            name, number, "csi-provisioner", labels=labels, annotations=annotations, finalizers=finalizers
        ),
        "spec": spec,
        "status": {"phase": "Bound" if _is_bound(number) else "Available", "lastPhaseTransitionTime": _CREATED},
    }


def _claim(number: int) -> Document:
    bound = _is_bound(number)
    size = f"{1 + number % 50}Gi"
    spec: Document = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": f"class-{number % CLASSES}",
        "volumeMode": "Filesystem",
    }
    annotations = {"volume.kubernetes.io/storage-provisioner": "disks.csi.example.com"}
    status: Document = {"phase": "Pending"}
    if bound:
        spec["volumeName"] = f"pvc-{number:08x}-4c1d-4c7e-9a55-{number:012x}"
        annotations |= {
            "pv.kubernetes.io/bind-completed": "yes",
            "pv.kubernetes.io/bound-by-controller": "yes",
            "volume.kubernetes.io/selected-node": f"node-{number % 5000}.example.internal",
        }
        status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}}
    metadata = _metadata(
        f"data-app-{number}",
        10_000_000 + number,
        "kube-scheduler",
        namespace=_namespace(number),
        labels={"app.kubernetes.io/name": f"app-{number % 1000}", "app.kubernetes.io/instance": f"app-{number}"},
        annotations=annotations,
        finalizers=["kubernetes.io/pvc-protection"],
    )
    return {"metadata": metadata, "spec": spec, "status": status}


def _node_name(number: int) -> str:
    return f"node-{number}.example.internal"


def _node(number: int) -> Document:
    name = _node_name(number)
    resources = {"cpu": "64", "memory": "263842412Ki", "pods": "250", "ephemeral-storage": "103880232Ki"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": f"m{number % 7}.16xlarge",
        ZONE_LABEL: _zone(number),
        "topology.kubernetes.io/region": "region-1",
    }
    conditions = [
        {"type": kind, "status": status, "lastHeartbeatTime": _CREATED, "lastTransitionTime": _CREATED, "reason": "K"}
        for kind, status in (("MemoryPressure", "False"), ("DiskPressure", "False"), ("Ready", "True"))
    ]
    images = [
        {"names": [f"registry.example/app-{index}@sha256:{index:064x}"], "sizeBytes": 50_000_000 + index}
        for index in range(12)
    ]
    return {
        "metadata": _metadata(name, 30_000_000 + number, "kubelet", labels=labels),
        "spec": {"podCIDR": f"10.{number % 256}.0.0/24", "providerID": f"example:///{number}"},
        "status": {"capacity": resources, "allocatable": resources, "conditions": conditions, "images": images},
    }
