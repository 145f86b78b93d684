"""Volumes, claims and pods as the API server has them now: read one, or patch one that is unchanged since it was read.

Every response is put into the store, so that no later decision rests on something older than our own last write.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from binder.reservation.contract import Annotations
from binder.reservation.writes import Patch
from kube.client.api import Check, KubeApi, nothing
from kube.decoding.decode import decode_claim, decode_pod_record, decode_volume
from kube.errors import Conflict, Invalid, NotFound
from kube.objects.api_resource import CLAIMS, PODS, VOLUMES, Resource
from kube.objects.model import Claim, Pod, Volume
from kube.store.snapshot import Snapshot
from kube.store.store import Store

FASTER: Final = (Conflict, NotFound)
"""Responses that mean another writer was faster: the object was changed or removed. Read and decide again.

For a write of an unchanged object, 422 is a rejection that will be repeated (see `patch_as_seen`).
"""


TRIES: Final = 3
"""Writes of an object that keeps changing in unrelated ways, before a new decision is made."""


class _Meta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    uid: str = ""


class _Head(msgspec.Struct):
    metadata: _Meta


async def patch_as_seen(  # noqa: PLR0913 - the shape of kube.client.api.KubeApi
    api: KubeApi,
    resource: Resource,
    name: str,
    body: Patch,
    *,
    resource_version: str | int,
    namespace: str = "",
    uid: str = "",
    subresource: str = "",
    check: Check = nothing,
) -> msgspec.Raw:
    """Merge-patch an object that is unchanged since it was read, after `check`. Raises one of FASTER otherwise.

    Raises Invalid only if the API server, or a policy, does not accept this change of this very object. A field that
    became immutable in the meantime gives 422 as well, so the object is read again to distinguish the two.
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
            check=check,
        )
    except Invalid as rejection:
        seen = msgspec.json.decode(await api.get(resource, name, namespace), type=_Head).metadata
        if seen.resource_version == str(resource_version) and uid in {"", seen.uid}:
            raise
        raise Conflict(rejection.method, rejection.path, 409, "Conflict", rejection.message) from rejection


@dataclass(frozen=True, slots=True)
class LiveVolume:
    """A volume as just received from the API server: the record, and the JSON for what the record does not keep."""

    record: Volume
    raw: msgspec.Raw


class ObjectClient:
    """Reads and conditional writes of volumes, claims and pods.

    `api` is fenced: it rejects a write without the Lease (kube.leaderelection.leadership).
    """

    def __init__(self, api: KubeApi, store: Store, annotations: Annotations) -> None:
        self._api = api
        self._store = store
        self._annotations = annotations

    def snapshot(self) -> Snapshot:
        """Return the present state of the store, our own writes included."""
        return self._store.snapshot()

    async def volume(self, name: str) -> LiveVolume | None:
        """Read a volume; None if it is gone."""
        as_of = self._store.volumes.version
        raw = await self._read(VOLUMES, name)
        return None if raw is None else self._took_volume(raw, as_of)

    async def claim(self, key: str) -> Claim | None:
        """Read a claim by `namespace/name`; None if it is gone."""
        as_of = self._store.claims.version
        raw = await self._read(CLAIMS, key)
        return None if raw is None else self._took_claim(raw, as_of)

    async def pod(self, key: str) -> Pod | None:
        """Read a pod by `namespace/name`; None if it is gone."""
        raw = await self._read(PODS, key)
        return None if raw is None else self._took_pod(raw)

    async def patch_volume(
        self, volume: Volume, body: Patch, subresource: str = "", check: Check = nothing
    ) -> LiveVolume:
        """Patch a volume that is unchanged, after `check`. Raises as `patch_as_seen`."""
        return self._took_volume(await self._patch(VOLUMES, volume, body, subresource, check))

    async def patch_claim(self, claim: Claim, body: Patch, subresource: str = "", check: Check = nothing) -> Claim:
        """Patch a claim that is unchanged, after `check`. Raises as `patch_as_seen`."""
        return self._took_claim(await self._patch(CLAIMS, claim, body, subresource, check))

    async def patch_pod(self, pod: Pod, body: Patch, check: Check = nothing) -> Pod:
        """Patch a pod that is unchanged, after `check`. Raises as `patch_as_seen`."""
        return self._took_pod(await self._patch(PODS, pod, body, "", check))

    async def _read(self, resource: Resource, key: str) -> msgspec.Raw | None:
        namespace, _, name = key.rpartition("/")
        try:
            return await self._api.get(resource, name, namespace)
        except NotFound:
            return None

    async def _patch(
        self, resource: Resource, seen: Volume | Claim | Pod, body: Patch, subresource: str, check: Check
    ) -> msgspec.Raw:
        return await patch_as_seen(
            self._api,
            resource,
            seen.name,
            body,
            resource_version=seen.resource_version,
            namespace="" if isinstance(seen, Volume) else seen.namespace,
            uid=seen.uid,
            subresource=subresource,
            check=check,
        )

    def _took_volume(self, raw: msgspec.Raw, as_of: int = 0) -> LiveVolume:
        record = decode_volume(raw, self._annotations.prefix)
        self._store.volumes.remember(record, as_of)
        return LiveVolume(record, raw)

    def _took_claim(self, raw: msgspec.Raw, as_of: int = 0) -> Claim:
        record = decode_claim(raw, self._annotations.prefix)
        self._store.claims.remember(record, as_of)
        return record

    def _took_pod(self, raw: msgspec.Raw) -> Pod:
        record = decode_pod_record(raw)
        self._store.pods.remember(record)
        return record
