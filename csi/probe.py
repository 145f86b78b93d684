"""Probes a driver for the health of its volumes: of one, completely or quickly, or of all by a list."""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Protocol

from csi.client.channel import CallFailed, CallObserver, Limits
from csi.client.endpoint import Endpoint
from csi.client.pages import PAGE_SIZE, Page, whole_list
from csi.client.readonly import (
    CONTROLLER_GET_VOLUME,
    CONTROLLER_GET_VOLUME_HEALTH,
    CONTROLLER_LIST_VOLUME_HEALTH,
    LIST_VOLUMES,
)
from csi.client.session import DriverSession
from csi.health import interpret
from csi.health.capabilities import HEALTH_CALLS, HealthProtocol, Negotiation
from csi.health.health import NOT_LISTED
from csi.health.report_source import ReportSource
from csi.health.verdict import HealthState, Verdict
from csi.proto import csi_v1_pb2 as csi
from kube.clock import Clock

Listed = Mapping[str, Verdict]
"""The result of a complete list, by the handle of the volume."""


class Observer(CallObserver, Protocol):
    """Observes probes and their verdicts."""

    def probed(self, driver: str, method: str, state: HealthState, seconds: float) -> None:
        """For csi_volume_health_probe_total and _duration_seconds; `state` is their label `result`."""


class DriverProbe:
    """Probes of a driver, in the protocol that it supports."""

    def __init__(self, endpoint: Endpoint, limits: Limits, clock: Clock, observer: Observer) -> None:
        self.session = DriverSession(endpoint, limits, clock, observer)
        self.driver, self._clock, self._observer = endpoint.driver, clock, observer
        self._listing: asyncio.Task[Listed] | None = None

    async def probe(self, handle: str) -> Verdict:
        """Return everything that the driver reports about the volume now. Raises nothing but cancellation."""
        return await self._observed(handle, place=True)

    async def glance(self, handle: str) -> Verdict:
        """Return the health of the volume now, with its topology only if that takes no second call. Raises only
        cancellation.
        """
        return await self._observed(handle, place=False)

    async def listed(self) -> Listed:
        """Return what the driver lists; concurrent callers share the list. CallFailed if it breaks off."""
        if self._listing is None or self._listing.done():
            self._listing = asyncio.create_task(self._walk())
        return await asyncio.shield(self._listing)

    def is_complete(self, verdict: Verdict) -> bool:
        """Whether `probe` would learn no more: a glance may omit the topology of a healthy volume."""
        agreed = self.session.agreed
        left_out = verdict.state is HealthState.HEALTHY and verdict.topology is None
        return not (left_out and agreed is not None and agreed.needs_second_call)

    def source(self) -> ReportSource:
        """Return the source and time for a verdict given now."""
        return ReportSource(f"CSI driver {self.driver}", self._clock.now())

    async def close(self) -> None:
        """Cancel the calls in progress and close the connection."""
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)
        await self.session.close()

    async def _observed(self, handle: str, *, place: bool) -> Verdict:
        started = self._clock.monotonic()
        method = CONTROLLER_GET_VOLUME.path
        try:
            negotiation = await self.session.negotiated()
        except CallFailed as failed:
            verdict = interpret.failed_call(self.source(), failed.code, failed.details)
        else:
            method = _method(negotiation)
            verdict = await self._by_protocol(handle, negotiation, place=place)
        self._observer.probed(self.driver, method, verdict.state, self._clock.monotonic() - started)
        return verdict

    async def _by_protocol(self, handle: str, negotiation: Negotiation, *, place: bool) -> Verdict:
        match negotiation.protocol:
            case None:
                return interpret.unsupported(self.source())
            case HealthProtocol.CONDITION_BY_LIST:
                return await self._find_in_list(handle)
            case HealthProtocol.HEALTH_BY_LIST | HealthProtocol.HEALTH_BY_GET if (
                place and negotiation.needs_second_call
            ):
                verdict, where = await asyncio.gather(self._health(handle), self._volume(handle, negotiation))
                return interpret.placed(verdict, where)
            case HealthProtocol.HEALTH_BY_LIST | HealthProtocol.HEALTH_BY_GET:
                return await self._health(handle)
            case _:
                return await self._volume(handle, negotiation)

    async def _volume(self, handle: str, negotiation: Negotiation) -> Verdict:
        try:
            answer = await self.session.call(CONTROLLER_GET_VOLUME, csi.ControllerGetVolumeRequest(volume_id=handle))
        except CallFailed as failed:
            return interpret.failed_get(self.source(), failed.code, failed.details)
        return interpret.volume(self.source(), negotiation, handle, answer)

    async def _health(self, handle: str) -> Verdict:
        request = csi.ControllerGetVolumeHealthRequest(volume_id=handle)
        try:
            answer = await self.session.call(CONTROLLER_GET_VOLUME_HEALTH, request)
        except CallFailed as failed:
            return interpret.failed_get(self.source(), failed.code, failed.details)
        return interpret.health(self.source(), handle, answer.volume_health)

    async def _find_in_list(self, handle: str) -> Verdict:
        try:
            listed = await self.listed()
        except CallFailed as failed:
            return interpret.failed_call(self.source(), failed.code, failed.details)
        absent = "the driver's list omits the volume, and the driver offers no call to probe a single volume"
        return listed.get(handle) or self.source().verdict(HealthState.UNKNOWN, NOT_LISTED, absent)

    async def _walk(self) -> Listed:
        negotiation = await self.session.negotiated()
        if negotiation.listing is HealthProtocol.HEALTH_BY_LIST:
            return _by_handle(await whole_list(self._page_of_health))
        return _by_handle(await whole_list(partial(self._page_of_volumes, negotiation)))

    # Of each page only the verdicts are kept: the volume contexts of 100,000 volumes can take 400 MiB.

    async def _page_of_health(self, token: str) -> Page[tuple[str, Verdict]]:
        request = csi.ControllerListVolumeHealthRequest(max_entries=PAGE_SIZE, starting_token=token)
        answer = await self.session.call(CONTROLLER_LIST_VOLUME_HEALTH, request)
        source = self.source()
        verdicts = [(entry.volume_id, interpret.health(source, entry.volume_id, entry)) for entry in answer.entries]
        return verdicts, answer.next_token

    async def _page_of_volumes(self, negotiation: Negotiation, token: str) -> Page[tuple[str, Verdict]]:
        request = csi.ListVolumesRequest(max_entries=PAGE_SIZE, starting_token=token)
        answer = await self.session.call(LIST_VOLUMES, request)
        source = self.source()
        verdicts = [
            (entry.volume.volume_id, interpret.volume(source, negotiation, entry.volume.volume_id, entry))
            for entry in answer.entries
        ]
        return verdicts, answer.next_token


def _by_handle(verdicts: Iterable[tuple[str, Verdict]]) -> Listed:
    """Return a verdict for each handle; of duplicates the worst. Entries without a handle are ignored."""
    listed: dict[str, Verdict] = {}
    for handle, verdict in verdicts:
        if handle:
            listed[handle] = interpret.worst_of([listed[handle], verdict]) if handle in listed else verdict
    return listed


def list_method(listing: HealthProtocol) -> str:
    """Return the full name of the call that lists."""
    by_health = listing is HealthProtocol.HEALTH_BY_LIST
    return CONTROLLER_LIST_VOLUME_HEALTH.path if by_health else LIST_VOLUMES.path


def _method(negotiation: Negotiation) -> str:
    if negotiation.protocol in HEALTH_CALLS:
        return CONTROLLER_GET_VOLUME_HEALTH.path
    by_list = negotiation.protocol is HealthProtocol.CONDITION_BY_LIST
    return LIST_VOLUMES.path if by_list else CONTROLLER_GET_VOLUME.path
