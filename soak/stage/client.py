"""The client of users and administrators: plain JSON over HTTPS.

It shares no code with the product's transport, so that a mistake there does not hide itself.
"""

import ssl
from collections.abc import Mapping
from typing import Any, Final, Self

import aiohttp

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
    "CustomResourceDefinition": ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions"),
    "NodePool": ("/apis/karpenter.sh/v1", "nodepools"),
    "NodeClaim": ("/apis/karpenter.sh/v1", "nodeclaims"),
    "KWOKNodeClass": ("/apis/karpenter.kwok.sh/v1alpha1", "kwoknodeclasses"),
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
CONCURRENT: Final = 50
"""Connections of a client."""


class Rejected(Exception):
    """The API server rejected a request; `status` is the code."""

    def __init__(self, what: str, status: int, text: str) -> None:
        super().__init__(f"{what}: {status} {text}")
        self.status = status


class Client:
    """Use it as an async context manager. Raises Rejected, aiohttp.ClientError, TimeoutError.

    Kinds are named as in documents; `namespace` is empty for those without.
    """

    def __init__(
        self, server: str, trust: ssl.SSLContext, headers: Mapping[str, str] | None = None, seconds: float = 10
    ) -> None:
        self._server, self._trust = server, trust
        self._headers, self._timeout = headers or {}, aiohttp.ClientTimeout(total=seconds)

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._trust, limit=CONCURRENT)
        self._session = aiohttp.ClientSession(
            self._server, connector=connector, timeout=self._timeout, headers=self._headers
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def create(self, *documents: Document) -> list[Document]:
        """Create one after the other, in this order."""
        return [await self._create(document) for document in documents]

    async def get(self, kind: str, name: str, namespace: str = "") -> Document:
        return await self._request("GET", path(kind, name, namespace))

    async def list(self, kind: str, namespace: str = "") -> list[Document]:
        items: list[Document] = (await self._request("GET", path(kind, "", namespace)))["items"]
        return items

    async def patch(
        self, kind: str, name: str, body: Mapping[str, Any], namespace: str = "", subresource: str = ""
    ) -> Document:
        """Merge-patch, conditional only if the body holds a resourceVersion."""
        return await self._request("PATCH", path(kind, name, namespace, subresource), body)

    async def delete(
        self, kind: str, name: str, namespace: str = "", grace_seconds: int = 0, *, orphan: bool = False
    ) -> None:
        """Delete an object; with `orphan` what it owns stays."""
        body: Document | None = {"gracePeriodSeconds": grace_seconds} if kind == "Pod" else None
        if orphan:
            body = {"propagationPolicy": "Orphan"}
        await self._request("DELETE", path(kind, name, namespace), body)

    async def token(self, namespace: str, account: str) -> str:
        """Return a fresh token of a ServiceAccount, valid for a day."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 24 * 3600},
        }
        answer = await self._request("POST", path("ServiceAccount", account, namespace, "token"), body)
        return str(answer["status"]["token"])

    async def create_in(self, kind: str, document: Document, subresource: str) -> Document:
        """Create it in a subresource of the object of that kind that has its name; without one as an object."""
        metadata = document["metadata"]
        name = metadata["name"] if subresource else ""
        where = path(kind, name, metadata.get("namespace", ""), subresource)
        return await self._request("POST", where, document)

    async def _create(self, document: Document) -> Document:
        return await self.create_in(document["kind"], document, "")

    async def _request(self, method: str, where: str, body: Mapping[str, Any] | None = None) -> Document:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with self._session.request(method, where, json=body, headers={"Content-Type": kind}) as response:
            if response.status >= 400:
                raise Rejected(f"{method} {where}", response.status, await response.text())
            answer: Document = await response.json()
            return answer


def path(kind: str, name: str = "", namespace: str = "", subresource: str = "") -> str:
    base, plural = _KINDS[kind]
    within = f"/namespaces/{namespace}" if namespace else ""
    return "/".join(filter(None, (f"{base}{within}/{plural}", name, subresource)))
