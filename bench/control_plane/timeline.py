"""When each claim got its volume and each pod its node, as somebody sees it who watches the API server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final

import msgspec

from bench.control_plane.documents import NAMESPACE
from binder.reservation.contract import Annotations
from kube.client.api import KubeApi, Listing
from kube.errors import KubeError
from kube.objects.api_resource import CLAIMS, PODS, VOLUMES, Resource

_KEY: Final = f"{NAMESPACE}/"


class _Metadata(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion")
    name: str = ""  # bookmarks have none
    namespace: str = ""
    annotations: dict[str, str] = {}


class _ClaimReference(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct):
    claim_ref: _ClaimReference = msgspec.field(name="claimRef", default_factory=_ClaimReference)
    node: str = msgspec.field(name="nodeName", default="")


class _Status(msgspec.Struct):
    phase: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_OBJECT: Final = msgspec.json.Decoder(_Object)


class Timeline:
    """Moments by the monotonic clock; keys are names of claims and pods in our namespace."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self.created: dict[str, float] = {}
        """Pod -> when it was sent to the API server. The caller notes it."""
        self.reserved: dict[str, float] = {}
        """Claim -> when a volume first said that it is for the claim: our annotation, or anybody's claimRef."""
        self.bound: dict[str, float] = {}
        self.placed: dict[str, float] = {}
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Watch while inside, from now on."""
        looks = ((VOLUMES, self._volume), (CLAIMS, self._claim), (PODS, self._pod))
        async with asyncio.TaskGroup() as tasks:
            running = []
            for resource, look in looks:
                listing: Listing[None] = await self._api.list_all(resource, lambda _: None)
                running.append(tasks.create_task(self._watch(resource, listing.resource_version, look)))
            yield
            for task in running:
                task.cancel()

    async def until(self, condition: Callable[["Timeline"], bool], seconds: float) -> bool:
        """Wait until the condition holds; False if it did not within the time."""
        try:
            async with asyncio.timeout(seconds):
                while not condition(self):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def _watch(self, resource: Resource, version: str, look: Callable[[_Object, float], None]) -> None:
        while True:
            try:
                async with self._api.watch(resource, version, timeout_seconds=3600, silence=120) as events:
                    async for event in events:
                        seen = _OBJECT.decode(event.object)
                        version = seen.metadata.resource_version
                        look(seen, monotonic())
                        self._changed.set()
            except KubeError:
                await asyncio.sleep(0.05)

    def _volume(self, seen: _Object, now: float) -> None:
        said = seen.metadata.annotations.get(Annotations().reserved_for, "").removeprefix(_KEY)
        if claim := seen.spec.claim_ref.name or said:
            self.reserved.setdefault(claim, now)

    def _claim(self, seen: _Object, now: float) -> None:
        if seen.status.phase == "Bound":
            self.bound.setdefault(seen.metadata.name, now)

    def _pod(self, seen: _Object, now: float) -> None:
        if seen.spec.node:
            self.placed.setdefault(seen.metadata.name, now)
