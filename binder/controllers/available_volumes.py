"""The index of Available volumes, kept up to date with the store."""

import asyncio
from typing import Final

from binder.matching.index import VolumeIndex
from kube.objects.model import Volume
from kube.persistent_map import Map
from kube.store.store import Store

STEP: Final = 100
"""Volumes indexed without a pause: some 5 ms."""


class AvailableVolumes:
    """`index` is that of the present moment while `changed` follows the store's volumes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.index = VolumeIndex()
        self._indexed: Map[str, Volume] = Map()

    async def prepare(self) -> None:
        """Index the volumes in steps, because 100,000 at once would block everything else. Then `catch_up`."""
        volumes, index = self._store.snapshot().volumes, VolumeIndex()
        for number, volume in enumerate(volumes.values(), 1):
            index = index.with_volume(None, volume)
            if number % STEP == 0:
                await asyncio.sleep(0)
        self.index, self._indexed = index, volumes

    def catch_up(self) -> None:
        """Update the index from the state it was built from to the present one."""
        before, now = self._indexed, self._store.snapshot().volumes
        if before is not now:
            for name in {*before, *now}:
                if before.get(name) is not now.get(name):
                    self.changed(before.get(name), now.get(name))
        self._indexed = Map()

    def changed(self, old: Volume | None, new: Volume | None) -> None:
        self.index = self.index.with_volume(old, new)
