"""Reads a driver's list of volumes for all who ask at the same time, and keeps of it what was asked for.

A list may name volumes without number; kept are verdicts on volumes that have a PersistentVolume.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial

from google.protobuf.message import DecodeError

from csi.client.answer_checks import check_foreign, check_health, check_volume
from csi.client.channel import CallFailed
from csi.client.pages import PAGE_SIZE, whole_list
from csi.client.readonly import CONTROLLER_LIST_VOLUME_HEALTH, LIST_VOLUMES
from csi.client.session import DriverSession
from csi.health import interpret
from csi.health.capabilities import HealthProtocol, Negotiation
from csi.health.report_source import MALFORMED, ReportSource
from csi.health.verdict import Verdict
from csi.proto import csi_v1_pb2 as csi
from csi.report_memory import ReportMemory
from kube.clock import Clock

Listed = Mapping[str, Verdict]
"""The result of a complete list, by the handle of the volume."""


class VolumeList:
    """The list of one driver. `source` returns the source of its verdicts, and the time."""

    def __init__(self, session: DriverSession, clock: Clock, source: Callable[[], ReportSource]) -> None:
        self._session, self._clock, self._source = session, clock, source
        self._reading: asyncio.Task[Listed] | None = None
        self._about: frozenset[str] = frozenset()
        self._awaited: frozenset[str] = frozenset()

    async def read(self, handles: Collection[str]) -> Listed:
        """Return what the driver lists of these volumes, and perhaps of others. CallFailed if the list breaks off.

        A list that is being read is used if it is about all of them; otherwise the next one is.
        """
        wanted = frozenset(handles)
        while self._reading is not None:
            if wanted <= self._about:
                return await asyncio.shield(self._reading)
            self._awaited |= wanted
            await asyncio.wait([self._reading])
        self._about, self._awaited = wanted | self._awaited, frozenset()
        self._reading = asyncio.create_task(self._read(self._about))
        self._reading.add_done_callback(self._ended)
        return await asyncio.shield(self._reading)

    async def close(self) -> None:
        """End the list that is being read."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    def _ended(self, reading: asyncio.Task[Listed]) -> None:
        # Its result is not kept for those who come later, nor its error reported if all who waited were cancelled.
        self._reading = None
        if not reading.cancelled():
            reading.exception()

    async def _read(self, handles: Collection[str]) -> Listed:
        negotiation = await self._session.negotiated()
        if negotiation.listing is HealthProtocol.HEALTH_BY_LIST:
            entries = _Entries(handles, self._health)
            await whole_list(self._page_of_health, entries.take, self._clock)
        else:
            entries = _Entries(handles, partial(self._volume, negotiation))
            await whole_list(self._page_of_volumes, entries.take, self._clock)
        return entries.listed

    async def _page_of_health(self, token: str) -> bytes:
        request = csi.ControllerListVolumeHealthRequest(max_entries=PAGE_SIZE, starting_token=token)
        return await self._session.received(CONTROLLER_LIST_VOLUME_HEALTH, request)

    async def _page_of_volumes(self, token: str) -> bytes:
        request = csi.ListVolumesRequest(max_entries=PAGE_SIZE, starting_token=token)
        return await self._session.received(LIST_VOLUMES, request)

    def _health(self, received: bytes) -> tuple[str, Callable[[], Verdict]]:
        entry = csi.VolumeHealth.FromString(received)

        def verdict() -> Verdict:
            check_health(entry)
            return interpret.health(self._source(), entry.volume_id, entry)

        return entry.volume_id, verdict

    def _volume(self, negotiation: Negotiation, received: bytes) -> tuple[str, Callable[[], Verdict]]:
        entry = csi.ListVolumesResponse.Entry.FromString(received)

        def verdict() -> Verdict:
            check_volume(entry.volume)
            return interpret.volume(self._source(), negotiation, entry.volume.volume_id, entry)

        return entry.volume.volume_id, verdict


class _Entries:
    """Verdicts on the wanted volumes of a list; of duplicates the worst. Entries without a handle are ignored.

    `decode` returns the handle of an entry, and its verdict when asked for it.
    """

    def __init__(self, handles: Collection[str], decode: Callable[[bytes], tuple[str, Callable[[], Verdict]]]) -> None:
        self._handles, self._decode = handles, decode
        self._memory = ReportMemory()
        self.listed: dict[str, Verdict] = {}

    def take(self, entry: bytes) -> None:
        """Raises CallFailed if the entry cannot be read or exceeds a limit."""
        try:
            handle, decoded = self._decode(entry)
        except DecodeError as error:
            raise CallFailed(MALFORMED, f"an entry of {len(entry)} bytes that cannot be decoded") from error
        if handle not in self._handles:
            check_foreign(handle)
            return
        verdict = decoded()
        if handle in self.listed:
            verdict = interpret.worst_of([self.listed[handle], verdict])
        self.listed[handle] = self._memory.kept(verdict)
