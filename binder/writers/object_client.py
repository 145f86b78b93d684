"""Volumes, claims and pods as the API server has them now: read one, patch one that is still as we saw it.

Every answer goes into the store, so that no later decision rests on something older than our own last write.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from binder.reservation.contract import Annotations
from binder.reservation.writes import Patch
from kube.client.ports import ReaderAndPatcher
from kube.decoding.decode import decode_claim, decode_pod_record, decode_volume
from kube.errors import Conflict, Invalid, NotFound
from kube.objects.api_resource import CLAIMS, PODS, VOLUMES, Resource
from kube.objects.model import Claim, Pod, Volume
from kube.store.snapshot import Snapshot
from kube.store.store import Store

FASTER: Final = (Conflict, NotFound)
"""Answers that mean somebody was faster: the object was changed or removed. Read again and decide again.

Of a write of an object that is still as it was seen, 422 is a refusal that will come again (see `patch_as_seen`).
"""


TRIES: Final = 3
"""Writes of one object that keeps changing in ways that do not concern us, before it is decided anew what to do."""


class _Meta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    uid: str = ""


class _Head(msgspec.Struct):
    metadata: _Meta


async def patch_as_seen(  # noqa: PLR0913 - the shape of kube.client.api.KubeApi
    api: ReaderAndPatcher,
    resource: Resource,
    name: str,
    body: Patch,
    *,
    resource_version: str | int,
    namespace: str = "",
    uid: str = "",
    subresource: str = "",
) -> msgspec.Raw:
    """Merge-patch an object that is still the one that was seen. Raises one of FASTER when it is not.

    Raises Invalid only if the API server, or a policy, does not accept this change of this very object. A field that
    somebody made immutable in the meantime gives 422 as well, so the object is read again to tell the two apart.
    """
    try:
        return await api.conditional_patch(
            resource,
            name,
            body,
            resource_version=resource_version,
            namespace=namespace,
            uid=uid,
            subresource=subresource,
        )
    except Invalid as refusal:
        seen = msgspec.json.decode(await api.get(resource, name, namespace), type=_Head).metadata
        if seen.resource_version == str(resource_version) and uid in {"", seen.uid}:
            raise
        raise Conflict(refusal.method, refusal.path, 409, "Conflict", refusal.message) from refusal


@dataclass(frozen=True, slots=True)
class LiveVolume:
    """A volume as the API server just sent it: the record, and the JSON for what the record does not keep."""

    record: Volume
    raw: msgspec.Raw


class LiveObjects:
    """Reads and conditional writes of volumes and claims.

    `api` is fenced: it refuses a write without the Lease (kube.leaderelection.leadership.FencedTransport).
    """

    def __init__(self, api: ReaderAndPatcher, store: Store, annotations: Annotations) -> None:
        self._api = api
        self._store = store
        self._annotations = annotations

    def snapshot(self) -> Snapshot:
        """Return what the store knows now, our own writes included."""
        return self._store.snapshot()

    async def volume(self, name: str) -> LiveVolume | None:
        """Read a volume; None when it is gone."""
        as_of = self._store.volumes.version
        try:
            return self._took_volume(await self._api.get(VOLUMES, name), as_of)
        except NotFound:
            return None

    async def claim(self, key: str) -> Claim | None:
        """Read a claim by `namespace/name`; None when it is gone."""
        namespace, _, name = key.partition("/")
        as_of = self._store.claims.version
        try:
            return self._took_claim(await self._api.get(CLAIMS, name, namespace), as_of)
        except NotFound:
            return None

    async def pod(self, key: str) -> Pod | None:
        """Read a pod by `namespace/name`; None when it is gone."""
        namespace, _, name = key.partition("/")
        try:
            record = decode_pod_record(await self._api.get(PODS, name, namespace))
        except NotFound:
            return None
        self._store.pods.remember(record)
        return record

    async def patch_volume(self, volume: Volume, body: Patch, subresource: str = "") -> LiveVolume:
        """Patch a volume that is still exactly this one. Raises as `patch_as_seen`."""
        answer = await patch_as_seen(
            self._api,
            VOLUMES,
            volume.name,
            body,
            resource_version=volume.resource_version,
            uid=volume.uid,
            subresource=subresource,
        )
        return self._took_volume(answer)

    async def patch_claim(self, claim: Claim, body: Patch, subresource: str = "") -> Claim:
        """Patch a claim that is still exactly this one. Raises as `patch_as_seen`."""
        answer = await patch_as_seen(
            self._api,
            CLAIMS,
            claim.name,
            body,
            resource_version=claim.resource_version,
            namespace=claim.namespace,
            uid=claim.uid,
            subresource=subresource,
        )
        return self._took_claim(answer)

    def _took_volume(self, raw: msgspec.Raw, as_of: int = 0) -> LiveVolume:
        record = decode_volume(raw, self._annotations.prefix)
        self._store.volumes.remember(record, as_of)
        return LiveVolume(record, raw)

    def _took_claim(self, raw: msgspec.Raw, as_of: int = 0) -> Claim:
        record = decode_claim(raw, self._annotations.prefix)
        self._store.claims.remember(record, as_of)
        return record
