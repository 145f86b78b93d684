"""The client of users and administrators: plain JSON over HTTPS, sharing nothing with the product's transport."""

import ssl
from typing import Any, Final, Self

import aiohttp

Document = dict[str, Any]

_KINDS: Final = {
    "PersistentVolume": ("/api/v1", "persistentvolumes"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "Pod": ("/api/v1", "pods"),
    "Node": ("/api/v1", "nodes"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "StorageClass": ("/apis/storage.k8s.io/v1", "storageclasses"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
}
_CONCURRENT: Final = 30
_TIMEOUT: Final = aiohttp.ClientTimeout(total=10)


class Refused(Exception):
    """The API server rejected a request; `status` is the code."""

    def __init__(self, what: str, status: int, text: str) -> None:
        super().__init__(f"{what}: {status} {text}")
        self.status = status


class Client:
    """Use it as an async context manager. Raises Refused, aiohttp.ClientError, TimeoutError."""

    def __init__(self, server: str, trust: ssl.SSLContext, token: str = "") -> None:
        self._server, self._trust = server, trust
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._trust, limit=_CONCURRENT)
        self._session = aiohttp.ClientSession(
            self._server, connector=connector, timeout=_TIMEOUT, headers=self._headers
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def create(self, document: Document) -> Document:
        metadata = document["metadata"]
        return await self._request("POST", path(document["kind"], "", metadata.get("namespace", "")), document)

    async def get(self, kind: str, name: str, namespace: str = "") -> Document:
        return await self._request("GET", path(kind, name, namespace))

    async def list(self, kind: str, namespace: str = "") -> list[Document]:
        items: list[Document] = (await self._request("GET", path(kind, "", namespace)))["items"]
        return items

    async def patch(self, kind: str, name: str, body: Document, namespace: str = "", subresource: str = "") -> Document:
        """Merge-patch, conditional only if the body holds a resourceVersion."""
        return await self._request("PATCH", path(kind, name, namespace, subresource), body)

    async def delete(self, kind: str, name: str, namespace: str = "") -> None:
        body = {"gracePeriodSeconds": 0} if kind == "Pod" else None
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

    async def _request(self, method: str, where: str, body: Document | None = None) -> Document:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with self._session.request(method, where, json=body, headers={"Content-Type": kind}) as response:
            if response.status >= 400:
                raise Refused(f"{method} {where}", response.status, await response.text())
            answer: Document = await response.json()
            return answer


def path(kind: str, name: str = "", namespace: str = "", subresource: str = "") -> str:
    base, plural = _KINDS[kind]
    within = f"/namespaces/{namespace}" if namespace else ""
    return "/".join(filter(None, (f"{base}{within}/{plural}", name, subresource)))
