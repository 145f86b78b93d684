"""The reports of complete sweeps, read off the Leases of those that probe drivers."""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import Final

import msgspec

from binder.health.published_sweeps import PublishedSweep, published_sweeps
from binder.reservation.contract import Annotations
from kube.client.api import KubeApi
from kube.clock import Clock
from kube.decoding.wire import Mapping, Text, Wire
from kube.errors import Forbidden, KubeError
from kube.objects.api_resource import LEASES
from kube.objects.model import Volume
from why.rendering.lines import warn

SWEEP_POLL_SECONDS: Final = 10.0
"""Seconds after which Leases are read again: to watch them would bring every renewal of every Lease."""

_ELSEWHERE: Final = LEASES.selected("", "metadata.namespace!=kube-node-lease")
"""A cluster has a Lease for each node, and those of processes that probe drivers are not there."""


class _Metadata(Wire):
    name: Text = None
    namespace: Text = None
    annotations: Mapping = None


class _Lease(Wire):
    metadata: _Metadata


_LEASE: Final = msgspec.json.Decoder(_Lease)


class LatestSweeps:
    """The sweep reports of other processes, read again when the last reading is outdated.

    `drivers` are those that are probed by this process, for which no report is needed.
    """

    def __init__(self, api: KubeApi, drivers: Collection[str], annotations: Annotations, clock: Clock) -> None:
        self._api, self._probed_drivers, self._annotations, self._clock = api, drivers, annotations, clock
        self._due: float | None = None
        self._denied = False
        self._sweeps: Sequence[PublishedSweep] = ()

    async def about(self, volumes: Iterable[Volume]) -> Sequence[PublishedSweep]:
        """Return what concerns these volumes. Raises KubeError at first; later the old reports stay, and grow old."""
        if self._denied or not any(volume.driver and volume.driver not in self._probed_drivers for volume in volumes):
            return self._sweeps
        first = self._due is None
        if self._due is None or self._clock.monotonic() >= self._due:
            self._due = self._clock.monotonic() + SWEEP_POLL_SECONDS
            try:
                self._sweeps = await self._read()
            except KubeError:
                if first:
                    raise
        return self._sweeps

    async def _read(self) -> Sequence[PublishedSweep]:
        try:
            return await read_sweeps(self._api, self._annotations)
        except Forbidden:
            self._denied = True
            warn(
                "you are not permitted to list leases in all namespaces; a volume that is healthy by the last sweep of "
                "its driver is shown as Unknown"
            )
            return ()


async def read_sweeps(api: KubeApi, annotations: Annotations) -> Sequence[PublishedSweep]:
    """Return the reports on all Leases, those of nodes aside. Raises KubeError, Forbidden without the right to list."""
    listing = await api.list_all(_ELSEWHERE, _taking(annotations))
    return list(chain.from_iterable(listing.items))


def _taking(annotations: Annotations) -> Callable[[msgspec.Raw], list[PublishedSweep] | None]:
    def take(raw: msgspec.Raw) -> list[PublishedSweep] | None:
        try:
            metadata = _LEASE.decode(raw).metadata
        except msgspec.MsgspecError:
            return None
        text = (metadata.annotations or {}).get(annotations.sweeps)
        return published_sweeps(text, f"{metadata.namespace}/{metadata.name}") if text else None

    return take
