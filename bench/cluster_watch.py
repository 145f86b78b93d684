"""What a watcher of the API server sees, and when: the measure of what others write."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final, Self

import msgspec

from kube.client.api import KubeApi, Listing
from kube.errors import KubeError
from kube.objects.api_resource import Resource


class _Metadata(msgspec.Struct):
    """Of a bookmark it has no name."""

    resource_version: str = msgspec.field(name="resourceVersion")
    name: str = ""
    namespace: str = ""
    annotations: dict[str, str] = {}


class _ClaimReference(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct):
    claim_ref: _ClaimReference = msgspec.field(name="claimRef", default_factory=_ClaimReference)
    node: str = msgspec.field(name="nodeName", default="")


class _Status(msgspec.Struct):
    phase: str = ""


class SeenObject(msgspec.Struct):
    """The fields of a pod, a claim or a volume that measurements use."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_OBJECT: Final = msgspec.json.Decoder(SeenObject)

Look = Callable[[SeenObject, float], None]
"""Called with each version of an object, and the time by the monotonic clock at which it was seen."""


class ClusterWatch:
    """Watches some kinds of objects; subclasses process them in their `looks`."""

    def __init__(self, api: KubeApi, looks: Mapping[Resource, Look]) -> None:
        self._api = api
        self._looks = looks
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Watch from now on while inside the context."""
        async with asyncio.TaskGroup() as tasks:
            running = []
            for resource, look in self._looks.items():
                listing: Listing[None] = await self._api.list_all(resource, lambda _: None)
                running.append(tasks.create_task(self._watch(resource, listing.resource_version, look)))
            yield
            for task in running:
                task.cancel()

    async def until(self, condition: Callable[[Self], bool], seconds: float) -> bool:
        """Wait until the condition holds; False if it did not within the time."""
        try:
            async with asyncio.timeout(seconds):
                while not condition(self):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def _watch(self, resource: Resource, version: str, look: Look) -> None:
        while True:
            try:
                async with self._api.watch(resource, version, timeout_seconds=3600, silence=120) as events:
                    async for event in events:
                        seen = _OBJECT.decode(event.object)
                        version = seen.metadata.resource_version
                        if seen.metadata.name:
                            look(seen, monotonic())
                            self._changed.set()
            except KubeError:
                await asyncio.sleep(0.05)
