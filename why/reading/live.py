"""Facts from an API server, with the user's own permissions: lists in pages, and only of what a check needs."""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Final

from msgspec import Raw

from kube.client.api import KubeApi
from kube.errors import Forbidden, NotFound
from kube.objects.api_resource import NAMESPACES, PODS, Resource
from why.facts.facts import FORBIDDEN, NOT_SERVED, Facts, Source
from why.reading.gathering import Gathering
from why.reading.resources import OF_THE_NAMESPACE, RESOURCES

_WAITING_PODS: Final = PODS.selected("waiting", "status.phase=Pending")
_PAGE: Final = 500


class LiveReader:
    """Reads sources once each. `namespace` is empty for all namespaces."""

    def __init__(self, api: KubeApi, namespace: str, prefix: str) -> None:
        self._api = api
        self._namespace = namespace
        self._gathering = Gathering(prefix, only_waiting=not namespace)
        self._read: set[Source] = set()
        self._skipped: dict[Source, str] = {}

    def facts(self, now: datetime) -> Facts:
        """Return what was read so far."""
        namespace = self._namespace
        return self._gathering.facts(now, self._read, self._skipped, everywhere=not namespace, namespace=namespace)

    @property
    def skipped(self) -> frozenset[Source]:
        """The sources that could not be read."""
        return frozenset(self._skipped)

    @property
    def faults(self) -> list[str]:
        return self._gathering.faults

    async def read_waiting(self) -> None:
        """Read what is pending: of one namespace concurrently, of a whole cluster sequentially, to keep only that."""
        if self._namespace:
            await self.read({Source.CLAIMS, Source.PODS, Source.EVENTS})
            return
        for source in (Source.PODS, Source.CLAIMS, Source.EVENTS):
            await self.read({source})

    async def read(self, sources: Iterable[Source]) -> None:
        """Read these sources concurrently; those that may not be read, or that the server does not serve, are
        skipped.
        """
        wanted = [source for source in sources if source not in self._read and source not in self._skipped]
        if Source.ALL_PODS in wanted and not self._namespace:
            # First: which volumes are worth keeping depends on the claims of pods.
            wanted.remove(Source.ALL_PODS)
            await self._read_one(Source.ALL_PODS)
        await asyncio.gather(*(self._read_one(source) for source in wanted))

    async def get(self, source: Source, name: str, namespace: str = "") -> bool:
        """Read one object; return whether it exists. Raises KubeError, Forbidden too."""
        resource = RESOURCES[source]
        try:
            raw = await self._api.get(resource, name, namespace)
        except NotFound:
            return False
        self._gathering.take(raw, resource.api_version, resource.kind, source)
        return True

    async def knows_namespace(self) -> bool:
        """Whether the namespace exists, as far as the user may know."""
        try:
            await self._api.get(NAMESPACES, self._namespace)
        except NotFound:
            return False
        except Forbidden:
            return True
        return True

    async def _read_one(self, source: Source) -> None:
        resource = RESOURCES[source]
        if source is Source.DRIVER_PODS and Source.ALL_PODS in self._read:
            self._read.add(source)
            return
        if source is Source.PODS and not self._namespace:
            resource = _WAITING_PODS
        namespace = self._namespace if source in OF_THE_NAMESPACE else ""
        only_drivers = source is Source.DRIVER_PODS
        take = self._gathering.take_driver_pod if only_drivers else partial(self._take, resource, source)
        try:
            await self._api.list_all(resource, take, namespace=namespace, limit=_PAGE)
            if source is Source.CLAIMS and not namespace and self._gathering.lacks_originals:
                await self._api.list_all(resource, take, limit=_PAGE)
        except Forbidden:
            self._skipped[source] = FORBIDDEN
        except NotFound:
            self._skipped[source] = NOT_SERVED
        else:
            self._read.add(source)
            if source is Source.ALL_PODS and not self._namespace:
                # What is attached to nodes depends on the claims of all pods: now these count too.
                again = [known for known in (Source.CLAIMS, Source.VOLUMES) if known in self._read]
                for known in again:
                    await self._read_one(known)

    def _take(self, resource: Resource, source: Source, raw: Raw) -> None:
        self._gathering.take(raw, resource.api_version, resource.kind, source)
