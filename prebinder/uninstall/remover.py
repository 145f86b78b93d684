"""Goes through the pods, claims and volumes of a cluster and removes what is ours, one conditional write each.

Pods first: from then on they wait for no controller. Then claims and after them volumes, as in every release: a crash
in between leaves what a release leaves, and the command is simply run again.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Raw

from binder.reservation.contract import Annotations
from binder.writers.object_client import FASTER, patch_as_seen
from kube.client.api import KubeApi
from kube.decoding.decode import MalformedObject, decode_claim, decode_pod_record, decode_volume, tolerant
from kube.errors import Invalid, NotFound
from kube.objects.api_resource import CLAIMS, PODS, VOLUMES, Resource
from kube.objects.model import Claim, Pod, Volume
from prebinder.uninstall.traces import (
    Part,
    Removal,
    claim_removal,
    left_to_people,
    names_claim,
    pod_removal,
    volume_removal,
)

R = TypeVar("R", Pod, Claim, Volume)

_TRIES: Final = 5


class Reporter(Protocol):
    """Reports to the user, line by line."""

    def removed(self, what: str, name: str) -> None:
        """This was removed from that object; in a dry run: would be."""

    def left(self, name: str, why: str) -> None:
        """This object still has something of ours."""


@dataclass(frozen=True, slots=True)
class _Kind(Generic[R]):
    """How one kind is processed."""

    resource: Resource
    decode: Callable[[Raw], R]
    removal: Callable[[R], Awaitable[Removal | None]]


@dataclass(slots=True)
class Remover:
    """Run it once. Raises KubeError if the API server fails or a right is missing."""

    api: KubeApi
    annotations: Annotations
    parts: Collection[Part]
    reporter: Reporter
    left: int = field(default=0, init=False)
    """Objects that still have something of ours."""

    async def run(self) -> None:
        """Remove everything of these parts."""
        volumes = partial(decode_volume, own_prefix=self.annotations.prefix)
        await self._go_through(_Kind(PODS, decode_pod_record, self._of_pod))
        await self._go_through(_Kind(CLAIMS, partial(decode_claim, own_prefix=self.annotations.prefix), self._of_claim))
        await self._go_through(_Kind(VOLUMES, volumes, self._of_volume))

    async def _of_pod(self, pod: Pod) -> Removal | None:
        return pod_removal(pod, self.annotations, self.parts)

    async def _of_claim(self, claim: Claim) -> Removal | None:
        return claim_removal(claim, self.annotations, self.parts)

    async def _of_volume(self, volume: Volume) -> Removal | None:
        claim = await self._claim_of(volume) if names_claim(volume, self.annotations) else None
        return volume_removal(volume, claim, self.annotations, self.parts)

    async def _claim_of(self, volume: Volume) -> Claim | None:
        if volume.claim is None:
            return None
        try:
            raw = await self.api.get(CLAIMS, volume.claim.name, volume.claim.namespace)
        except NotFound:
            return None
        return decode_claim(raw, self.annotations.prefix)

    async def _go_through(self, kind: _Kind[R]) -> None:
        def leave(error: MalformedObject) -> None:
            self._leave(kind.resource.kind, str(error))

        for record in (await self.api.list_all(kind.resource, tolerant(kind.decode, leave))).items:
            name = f"{kind.resource.kind} {record.name if isinstance(record, Volume) else record.key}"
            if isinstance(record, Volume) and (why := left_to_people(record, self.annotations, self.parts)):
                self._leave(name, why)
            await self._take_off(kind, name, record)

    async def _take_off(self, kind: _Kind[R], name: str, record: R) -> None:
        """Write until the object has nothing of ours; give up if it keeps changing, or the write is rejected."""
        for _ in range(_TRIES):
            removal = await kind.removal(record)
            if removal is None:
                return
            try:
                await self._write(kind.resource, record, removal)
            except FASTER:
                changed = await self._read(kind, record)
                if changed is None:
                    return
                record = changed
            except Invalid as error:
                self._leave(name, error.message)
                return
            else:
                self.reporter.removed(removal.what, name)
                return
        self._leave(name, "kept changing; run the command again")

    async def _read(self, kind: _Kind[R], record: R) -> R | None:
        try:
            return kind.decode(await self.api.get(kind.resource, record.name, _namespace(record)))
        except NotFound:
            return None

    async def _write(self, resource: Resource, record: Pod | Claim | Volume, removal: Removal) -> None:
        await patch_as_seen(
            self.api,
            resource,
            record.name,
            removal.body,
            resource_version=record.resource_version,
            namespace=_namespace(record),
            uid=record.uid,
        )

    def _leave(self, name: str, why: str) -> None:
        self.left += 1
        self.reporter.left(name, why)


def _namespace(record: Pod | Claim | Volume) -> str:
    return "" if isinstance(record, Volume) else record.namespace
