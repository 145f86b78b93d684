"""Reads the VolumeSnapshots that are the data source of claims to be planned, and their contents.

external-provisioner calls no driver for a claim whose snapshot is not ready to use, and keeps the selected node
meanwhile (getSnapshotSource in its controller.go): the place would be decided long before anything can be made there.
Snapshots are custom resources, which a cluster may lack and we may have no right to read; then nothing is known.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from binder.model.source_snapshot import SourceSnapshot
from kube.client.api import KubeApi
from kube.clock import Clock
from kube.errors import Forbidden, KubeError, NotFound
from kube.objects.api_resource import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from kube.rules.quantity import QuantityError, parse_quantity, whole_units

logger = logging.getLogger(__name__)

FRESH_SECONDS: Final = 5.0
"""How old what is known of a snapshot may be. It is asked for again only when a pod with it is planned."""
MAX_READ: Final = 50
"""Snapshots read for one pass: the others are read for later ones."""
MAX_KEPT: Final = 1000
MANAGED_BY: Final = "snapshot.storage.kubernetes.io/managed-by"
"""Label of a content whose driver has a snapshotter on each node: the node (utils.VolumeSnapshotContentManagedByLabel
in external-snapshotter, --enable-distributed-snapshotting).
"""


class _Meta(msgspec.Struct, rename="camel"):
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Error(msgspec.Struct):
    message: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    ready_to_use: bool | None = None
    restore_size: str | None = None
    bound_volume_snapshot_content_name: str | None = None
    error: _Error | None = None


class _Snapshot(msgspec.Struct):
    metadata: _Meta
    status: _Status | None = None


class _Content(msgspec.Struct):
    metadata: _Meta


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read, None if that cannot be known, and when by the monotonic clock."""

    snapshot: SourceSnapshot | None
    at: float


_NEVER: Final = _Read(SourceSnapshot("it has not been read yet"), float("-inf"))


class Snapshots:
    """What is known of snapshots, for as long as pods are planned that need them."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api, self._clock = api, clock
        self._read: dict[str, _Read] = {}
        self._warned = False

    async def refresh(self, keys: Iterable[str]) -> None:
        """Read those of these snapshots (`namespace/name`) that are not recent. Raises no error of the API server."""
        now = self._clock.monotonic()
        due = [key for key in dict.fromkeys(keys) if now - self._read.get(key, _NEVER).at >= FRESH_SECONDS]
        due.sort(key=lambda key: self._read.get(key, _NEVER).at)
        # Together: all pods of a pass wait for them, those of other users included.
        for key, snapshot in zip(due, await asyncio.gather(*map(self._snapshot, due[:MAX_READ])), strict=False):
            self._read.pop(key, None)
            self._read[key] = _Read(snapshot, now)
        for key in list(self._read)[: max(0, len(self._read) - MAX_KEPT)]:
            del self._read[key]
        for key in due[MAX_READ:]:
            self._read.setdefault(key, _NEVER)

    def known(self) -> Mapping[str, SourceSnapshot]:
        """Return what planning may know, as a copy."""
        return {key: read.snapshot for key, read in self._read.items() if read.snapshot is not None}

    async def _snapshot(self, key: str) -> SourceSnapshot | None:
        namespace, _, name = key.partition("/")
        try:
            raw = await self._api.get(VOLUME_SNAPSHOTS, name, namespace)
            return await self._judged(msgspec.json.decode(raw, type=_Snapshot))
        except NotFound as error:
            # Without the definition of the kind the answer names no object.
            return SourceSnapshot("it does not exist") if f'"{name}"' in error.message else None
        except Forbidden as error:
            if not self._warned:
                logger.warning("VolumeSnapshots cannot be read", extra={"error": str(error)})
            self._warned = True
            return None
        except KubeError as error:
            return SourceSnapshot(f"it cannot be read ({error.reason})")
        except (msgspec.DecodeError, QuantityError):
            return SourceSnapshot("it cannot be understood")

    async def _judged(self, snapshot: _Snapshot) -> SourceSnapshot:
        """Return what the snapshot allows. Raises KubeError, DecodeError, QuantityError."""
        status = snapshot.status or _Status()
        if snapshot.metadata.deletion_timestamp is not None:
            return SourceSnapshot("it is being deleted")
        content = status.bound_volume_snapshot_content_name
        if not status.ready_to_use or not content:
            failed = status.error.message if status.error is not None else None
            return SourceSnapshot(f"it failed: {failed[:200]}" if failed else "it is not ready to use")
        least = whole_units(parse_quantity(status.restore_size)) if status.restore_size else 0
        try:
            raw = await self._api.get(VOLUME_SNAPSHOT_CONTENTS, content)
        except NotFound:
            return SourceSnapshot(f"its content {content} does not exist")
        labels = msgspec.json.decode(raw, type=_Content).metadata.labels or {}
        return SourceSnapshot(least=least, node=labels.get(MANAGED_BY, ""))
