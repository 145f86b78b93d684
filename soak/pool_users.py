"""Executes what users do with pods whose volumes are still to be made, in pools of storage."""

import asyncio
from typing import Final

from soak import terrain
from soak.stage.client import Client, Document, Rejected
from soak.terrain import NAMESPACE, NODES

CLAIM: Final = "PersistentVolumeClaim"
_SELECTED: Final = "volume.kubernetes.io/selected-node"
_TRIES: Final = 20
_BETWEEN_TRIES: Final = 0.25


class PoolUsers:
    """Users of pools; what they share with all others is here too. A method for each kind of operation."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def _create_pool_pod(self, pod: str, detail: str) -> None:
        for document in _documents(pod, detail):
            await self._unless_there(document)

    async def _delete_pool_pod(self, pod: str, _: str) -> None:
        """With its claims, also while their volumes are being made."""
        await self._gone("Pod", terrain.pool_pod_name(int(pod)), NAMESPACE)
        for claim in terrain.pool_claims(int(pod)):
            await self._gone(CLAIM, claim["metadata"]["name"], NAMESPACE)

    async def _recreate_pool_pod(self, pod: str, detail: str) -> None:
        await self._delete_pool_pod(pod, "")
        for document in _documents(pod, detail):
            await self._created(document)

    async def _select_node(self, pod: str, _: str) -> None:
        """Select a node for a claim by hand, as every user of a namespace may."""
        claim = terrain.pool_claims(int(pod))[-1]["metadata"]["name"]
        live = await self._client.get(CLAIM, claim, NAMESPACE)
        if _SELECTED not in (live["metadata"].get("annotations") or {}):
            marks = {_SELECTED: NODES[int(pod) % len(NODES)]}
            version = live["metadata"]["resourceVersion"]
            body: Document = {"metadata": {"annotations": marks, "resourceVersion": version}}
            await self._client.patch(CLAIM, claim, body, NAMESPACE)

    # How

    async def _unless_there(self, document: Document) -> None:
        try:
            await self._client.create(document)
        except Rejected as rejected:
            if rejected.status != 409:
                raise

    async def _gone(self, kind: str, name: str, namespace: str = "") -> None:
        try:
            await self._client.delete(kind, name, namespace)
        except Rejected as rejected:
            if rejected.status != 404:
                raise

    async def _created(self, document: Document) -> None:
        """Create it as soon as the one of its name that is being deleted is gone."""
        for _ in range(_TRIES):
            try:
                await self._client.create(document)
            except Rejected as rejected:
                if rejected.status != 409:
                    raise
                await asyncio.sleep(_BETWEEN_TRIES)
            else:
                return


def _documents(pod: str, detail: str) -> list[Document]:
    return [*terrain.pool_claims(int(pod)), terrain.pool_pod(int(pod), gated=detail == "gated")]
