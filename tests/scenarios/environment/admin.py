"""An administrator's client: everything a story does to the cluster or sees in it."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable

import aiohttp

from devcluster.cluster import DevCluster
from soak.stage.client import CONCURRENT, Client, Document, Rejected, path

__all__ = ["Admin", "Document", "Rejected"]


class Admin(Client):
    """Use it as an async context manager."""

    def __init__(self, cluster: DevCluster, acting_as: str = "") -> None:
        """`acting_as` is a user name whose rights, and no others, the requests are to have."""
        headers = {"Impersonate-User": acting_as} if acting_as else {}
        super().__init__(cluster.server, cluster.trust, headers, seconds=60)

    async def create_at_once(self, documents: Iterable[Document]) -> None:
        """Create many, as fast as the connections allow. The time limit of a request counts from its turn on."""
        turns = asyncio.Semaphore(CONCURRENT)

        async def in_turn(document: Document) -> None:
            async with turns:
                await self._create(document)

        async with asyncio.TaskGroup() as tasks:
            for document in documents:
                tasks.create_task(in_turn(document))

    async def find(self, kind: str, name: str, namespace: str = "") -> Document | None:
        """Return the object, or None if there is none."""
        try:
            return await self.get(kind, name, namespace)
        except Rejected as rejected:
            if rejected.status == 404:
                return None
            raise

    async def changes(self, kind: str) -> AsyncIterator[Document]:
        """Yield every version of every object of the kind, from now on; the first ones are what is there now.

        The API server drops readers that are too slow for it: reading goes on where it ended.
        """
        unlimited, version = aiohttp.ClientTimeout(total=None), ""
        while True:
            params = {"watch": "true", "resourceVersion": version} if version else {"watch": "true"}
            async with self._session.get(path(kind), params=params, timeout=unlimited) as answer:
                # Objects are longer than the lines aiohttp would read by itself.
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for event in map(json.loads, lines):
                        assert event["type"] != "ERROR", event
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] in {"ADDED", "MODIFIED"}:
                            yield event["object"]

    async def delete_all(self, kind: str, namespace: str) -> None:
        body = {"gracePeriodSeconds": 0} if kind == "Pod" else None
        await self._request("DELETE", path(kind, namespace=namespace), body)
