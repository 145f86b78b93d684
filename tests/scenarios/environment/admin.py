"""An administrator's hands and eyes: everything a story does to the cluster or sees in it, in plain JSON.

It shares no code with the product's transport, so that a mistake there does not hide itself.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final, Self

import aiohttp

from devcluster.cluster import DevCluster

Document = dict[str, Any]

_KINDS: Final = {
    "PersistentVolume": ("/api/v1", "persistentvolumes"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "Pod": ("/api/v1", "pods"),
    "Node": ("/api/v1", "nodes"),
    "Namespace": ("/api/v1", "namespaces"),
    "StorageClass": ("/apis/storage.k8s.io/v1", "storageclasses"),
    "CSINode": ("/apis/storage.k8s.io/v1", "csinodes"),
    "CSIDriver": ("/apis/storage.k8s.io/v1", "csidrivers"),
    "CSIStorageCapacity": ("/apis/storage.k8s.io/v1", "csistoragecapacities"),
    "VolumeAttachment": ("/apis/storage.k8s.io/v1", "volumeattachments"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
    "Event": ("/apis/events.k8s.io/v1", "events"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles"),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses"),
    "DeviceClass": ("/apis/resource.k8s.io/v1", "deviceclasses"),
    "ResourceClaim": ("/apis/resource.k8s.io/v1", "resourceclaims"),
    "ResourceSlice": ("/apis/resource.k8s.io/v1", "resourceslices"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
}
_CONCURRENT: Final = 50


class Refused(Exception):
    """The API server said no."""

    def __init__(self, what: str, status: int, message: str) -> None:
        super().__init__(f"{what}: {status} {message}")
        self.status = status


class Admin:
    """Use it as an async context manager. Kinds are named as in documents; `namespace` is empty for those without."""

    def __init__(self, cluster: DevCluster, acting_as: str = "") -> None:
        """`acting_as` is a user name whose rights, and no others, the requests are to have."""
        self._server, self._trust = cluster.server, trust_of(cluster)
        self._headers = {"Impersonate-User": acting_as} if acting_as else {}

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._trust, limit=_CONCURRENT)
        self._session = aiohttp.ClientSession(
            self._server, connector=connector, timeout=aiohttp.ClientTimeout(total=60), headers=self._headers
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def create(self, *documents: Document) -> list[Document]:
        """Create one after the other, in this order."""
        return [await self._request("POST", path_of_new(document), document) for document in documents]

    async def create_at_once(self, documents: Iterable[Document]) -> None:
        """Create many, as fast as the connection allows."""
        async with asyncio.TaskGroup() as tasks:
            for document in documents:
                tasks.create_task(self._request("POST", path_of_new(document), document))

    async def get(self, kind: str, name: str, namespace: str = "") -> Document:
        return await self._request("GET", path_of(kind, name, namespace))

    async def find(self, kind: str, name: str, namespace: str = "") -> Document | None:
        """Return the object, or None if there is none."""
        try:
            return await self.get(kind, name, namespace)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    async def list(self, kind: str, namespace: str = "") -> list[Document]:
        answer = await self._request("GET", path_of(kind, "", namespace))
        items: list[Document] = answer["items"]
        return items

    async def changes(self, kind: str) -> AsyncIterator[Document]:
        """Yield every version of every object of the kind, from now on; the first ones are what is there now.

        The API server drops readers that are too slow for it: reading goes on where it ended.
        """
        unlimited, version = aiohttp.ClientTimeout(total=None), ""
        while True:
            params = {"watch": "true", "resourceVersion": version} if version else {"watch": "true"}
            async with self._session.get(path_of(kind), params=params, timeout=unlimited) as answer:
                # Objects are longer than the lines aiohttp would read by itself.
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for event in map(json.loads, lines):
                        assert event["type"] != "ERROR", event
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] in {"ADDED", "MODIFIED"}:
                            yield event["object"]

    async def patch(
        self, kind: str, name: str, body: Mapping[str, Any], namespace: str = "", subresource: str = ""
    ) -> Document:
        """Merge-patch, unconditionally: a person's kubectl edit."""
        path = path_of(kind, name, namespace) + (f"/{subresource}" if subresource else "")
        return await self._request("PATCH", path, body)

    async def delete(self, kind: str, name: str, namespace: str = "", grace_seconds: int = 0) -> None:
        body = {"gracePeriodSeconds": grace_seconds} if kind == "Pod" else None
        await self._request("DELETE", path_of(kind, name, namespace), body)

    async def delete_all(self, kind: str, namespace: str) -> None:
        body = {"gracePeriodSeconds": 0} if kind == "Pod" else None
        await self._request("DELETE", path_of(kind, "", namespace), body)

    async def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Document:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with self._session.request(method, path, json=body, headers={"Content-Type": kind}) as response:
            if response.status >= 400:
                raise Refused(f"{method} {path}", response.status, await response.text())
            answer: Document = await response.json()
            return answer


def path_of(kind: str, name: str = "", namespace: str = "") -> str:
    base, plural = _KINDS[kind]
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{base}{within}/{plural}" + (f"/{name}" if name else "")


def path_of_new(document: Mapping[str, Any]) -> str:
    return path_of(document["kind"], namespace=document["metadata"].get("namespace", ""))


def trust_of(cluster: DevCluster) -> ssl.SSLContext:
    """Return the TLS settings of the cluster's administrator."""
    certificates = cluster.directory / "certificates"
    context = ssl.create_default_context(cafile=certificates / "ca.crt")
    context.load_cert_chain(certificates / "admin.crt", certificates / "admin.key")
    return context
