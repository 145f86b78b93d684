"""What volumes say of their health, as somebody sees it who watches the API server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final, NamedTuple

import msgspec

from binder.reservation.contract import Annotations
from csi.health.verdict import HealthState
from kube.client.api import KubeApi, Listing
from kube.errors import KubeError
from kube.objects.api_resource import VOLUMES


class _Metadata(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion")
    name: str = ""  # bookmarks have none
    annotations: dict[str, str] = {}


class _Volume(msgspec.Struct):
    metadata: _Metadata


_VOLUME: Final = msgspec.json.Decoder(_Volume)


class Seen(NamedTuple):
    """One version of a volume, and when it was seen by the monotonic clock. Volumes that say nothing are well."""

    at: float
    name: str
    unhealthy: bool
    quarantined: bool


class HealthWatch:
    """`versions` are all that were seen since the beginning; `now` is the last one of each volume that changed."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self.versions: list[Seen] = []
        self.now: dict[str, Seen] = {}
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Watch while inside, from now on."""
        listing: Listing[None] = await self._api.list_all(VOLUMES, lambda _: None)
        watching = asyncio.create_task(self._watch(listing.resource_version))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def until(self, condition: Callable[["HealthWatch"], bool], seconds: float) -> bool:
        """Wait until the condition holds; False if it did not within the time."""
        try:
            async with asyncio.timeout(seconds):
                while not condition(self):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def unhealthy(self) -> int:
        return sum(seen.unhealthy for seen in self.now.values())

    def quarantined(self) -> int:
        return sum(seen.quarantined for seen in self.now.values())

    async def _watch(self, version: str) -> None:
        while True:
            try:
                async with self._api.watch(VOLUMES, version, timeout_seconds=3600, silence=120) as events:
                    async for event in events:
                        metadata = _VOLUME.decode(event.object).metadata
                        version = metadata.resource_version
                        if metadata.name:
                            self._look(metadata)
            except KubeError:
                await asyncio.sleep(0.05)

    def _look(self, metadata: _Metadata) -> None:
        said = metadata.annotations.get(Annotations().health, HealthState.HEALTHY)
        inside = Annotations().quarantine in metadata.annotations
        seen = Seen(monotonic(), metadata.name, said != HealthState.HEALTHY, inside)
        self.versions.append(seen)
        self.now[seen.name] = seen
        self._changed.set()
