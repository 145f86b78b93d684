"""Probes a driver for the health of its volumes: of one, completely or quickly, or of all by a list."""

import asyncio
from collections.abc import Collection
from typing import Protocol

from csi.client.answer_checks import check_health, check_volume
from csi.client.channel import CallFailed, CallObserver, Limits, TooLarge
from csi.client.endpoint import Endpoint
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
from csi.health.size_limit import SizeLimit
from csi.health.verdict import HealthState, Verdict
from csi.proto import csi_v1_pb2 as csi
from csi.volume_list import Listed, VolumeList
from kube.clock import Clock


class ProbeObserver(CallObserver, Protocol):
    """Observes probes and their verdicts."""

    def probed(self, driver: str, method: str, state: HealthState, seconds: float) -> None:
        """For csi_volume_health_probe_total and _duration_seconds; `state` is their label `result`."""

    def exceeded(self, driver: str, limit: SizeLimit, details: str) -> None:
        """An answer exceeded a limit and was not used, for pvc_prebinder_csi_limit_exceeded_total and an Event."""


class DriverProbe:
    """Probes of a driver, in the protocol that it supports."""

    def __init__(self, endpoint: Endpoint, limits: Limits, clock: Clock, observer: ProbeObserver) -> None:
        self.session = DriverSession(endpoint, limits, clock, observer)
        self.driver, self._clock, self._observer = endpoint.driver, clock, observer
        self._list = VolumeList(self.session, clock, self.source)

    async def probe(self, handle: str) -> Verdict:
        """Return everything that the driver reports about the volume now. Raises nothing but cancellation."""
        return await self._observed(handle, place=True)

    async def glance(self, handle: str) -> Verdict:
        """Return the health of the volume now, with its topology only if that takes no second call. Raises only
        cancellation.
        """
        return await self._observed(handle, place=False)

    async def listed(self, handles: Collection[str]) -> Listed:
        """Return what the driver lists of these volumes, and perhaps of others. Concurrent callers share a list.
        CallFailed if it breaks off.
        """
        try:
            return await self._list.read(handles)
        except CallFailed as failed:
            self.exceeded(failed)
            raise

    def is_complete(self, verdict: Verdict) -> bool:
        """Whether `probe` would learn no more: a glance may omit the topology of a healthy volume."""
        agreed = self.session.agreed
        left_out = verdict.state is HealthState.HEALTHY and verdict.topology is None
        return not (left_out and agreed is not None and agreed.needs_second_call)

    def source(self) -> ReportSource:
        """Return the source and time for a verdict given now."""
        return ReportSource(f"CSI driver {self.driver}", self._clock.now())

    def exceeded(self, failed: CallFailed) -> None:
        """Report a failed call to the observer if a limit is the reason."""
        if isinstance(failed, TooLarge):
            self._observer.exceeded(self.driver, failed.limit, failed.details)

    async def close(self) -> None:
        """Cancel the calls in progress and close the connection."""
        await self._list.close()
        await self.session.close()

    async def _observed(self, handle: str, *, place: bool) -> Verdict:
        started = self._clock.monotonic()
        method = CONTROLLER_GET_VOLUME.path
        try:
            negotiation = await self.session.negotiated()
        except CallFailed as failed:
            self.exceeded(failed)
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
            check_volume(answer.volume)
        except CallFailed as failed:
            return self._failed_get(failed)
        return interpret.volume(self.source(), negotiation, handle, answer)

    async def _health(self, handle: str) -> Verdict:
        request = csi.ControllerGetVolumeHealthRequest(volume_id=handle)
        try:
            answer = await self.session.call(CONTROLLER_GET_VOLUME_HEALTH, request)
            check_health(answer.volume_health)
        except CallFailed as failed:
            return self._failed_get(failed)
        return interpret.health(self.source(), handle, answer.volume_health)

    async def _find_in_list(self, handle: str) -> Verdict:
        try:
            listed = await self.listed([handle])
        except CallFailed as failed:
            return interpret.failed_call(self.source(), failed.code, failed.details)
        absent = "the driver's list omits the volume, and the driver offers no call to probe a single volume"
        return listed.get(handle) or self.source().verdict(HealthState.UNKNOWN, NOT_LISTED, absent)

    def _failed_get(self, failed: CallFailed) -> Verdict:
        self.exceeded(failed)
        return interpret.failed_get(self.source(), failed.code, failed.details)


def list_method(listing: HealthProtocol) -> str:
    """Return the full name of the call that lists."""
    by_health = listing is HealthProtocol.HEALTH_BY_LIST
    return CONTROLLER_LIST_VOLUME_HEALTH.path if by_health else LIST_VOLUMES.path


def _method(negotiation: Negotiation) -> str:
    if negotiation.protocol in HEALTH_CALLS:
        return CONTROLLER_GET_VOLUME_HEALTH.path
    by_list = negotiation.protocol is HealthProtocol.CONDITION_BY_LIST
    return LIST_VOLUMES.path if by_list else CONTROLLER_GET_VOLUME.path
