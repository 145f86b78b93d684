"""Asks one driver about one volume, after having learned once who the driver is and what it can be asked."""

import asyncio
import logging
from typing import Final, Protocol

from csi import interpret
from csi.capabilities import Negotiation, negotiate
from csi.channel import BUSY, CallFailed, CallObserver, DriverChannel, Limits
from csi.endpoint import Endpoint
from csi.interpret import Witness
from csi.proto import csi_v1_pb2 as csi
from csi.readonly import (
    CONTROLLER_GET_CAPABILITIES,
    CONTROLLER_GET_VOLUME,
    GET_PLUGIN_CAPABILITIES,
    GET_PLUGIN_INFO,
)
from csi.verdict import HealthState, Verdict
from kube.clock import Clock

logger = logging.getLogger(__name__)

WRONG_DRIVER: Final = "WrongDriver"
_UNREACHED: Final = frozenset({"Unavailable", "DeadlineExceeded", WRONG_DRIVER})
_MAY_BE_ANOTHER_DRIVER: Final = frozenset({"Unavailable", "Unimplemented"})


class Observer(CallObserver, Protocol):
    """Is told of calls and of the verdicts they led to."""

    def probed(self, driver: str, method: str, state: HealthState, seconds: float) -> None:
        """For csi_volume_health_probe_total and _duration_seconds; `state` is their label `result`."""


class DriverProbe:
    """Everything known about one driver: its connection, what was negotiated, whether it answers."""

    def __init__(self, endpoint: Endpoint, limits: Limits, clock: Clock, observer: Observer) -> None:
        self._endpoint, self._clock, self._observer = endpoint, clock, observer
        self._channel = DriverChannel(endpoint, limits, clock, observer, lost=self._forget)
        self._handshake: asyncio.Task[Negotiation] | None = None
        self.up: bool | None = None
        """Whether the driver answered last time, under its configured name; None before the first call."""

    async def probe(self, handle: str) -> Verdict:
        """Return what the driver says about the volume now. Raises nothing but cancellation."""
        started = self._clock.monotonic()
        verdict = await self._ask(handle)
        seconds = self._clock.monotonic() - started
        self._observer.probed(self._endpoint.driver, CONTROLLER_GET_VOLUME.path, verdict.state, seconds)
        return verdict

    async def close(self) -> None:
        """End calls under way and the connection."""
        if self._handshake is not None:
            self._handshake.cancel()
            await asyncio.gather(self._handshake, return_exceptions=True)
        await self._channel.close()

    async def _ask(self, handle: str) -> Verdict:
        try:
            negotiation = await self._negotiated()
        except CallFailed as failed:
            self._note(failed)
            return interpret.failed_call(self._witness(), failed.code, failed.details)
        if negotiation.protocol is None:
            return interpret.unsupported(self._witness(), negotiation)
        try:
            request = csi.ControllerGetVolumeRequest(volume_id=handle)
            answer = await self._channel.call(CONTROLLER_GET_VOLUME, request)
        except CallFailed as failed:
            self._note(failed)
            return interpret.failed_get(self._witness(), failed.code, failed.details)
        self._note(None)
        return interpret.volume(self._witness(), negotiation, handle, answer)

    async def _negotiated(self) -> Negotiation:
        """Return what was agreed; all who ask before that wait for one handshake."""
        if self._handshake is None or (self._handshake.done() and not _succeeded(self._handshake)):
            self._handshake = asyncio.create_task(self._shake_hands())
        # Shielded: one waiter that gives up must not take the handshake from the others.
        return await asyncio.shield(self._handshake)

    async def _shake_hands(self) -> Negotiation:
        info = await self._channel.call(GET_PLUGIN_INFO, csi.GetPluginInfoRequest())
        if info.name != self._endpoint.driver:
            found = f"{self._endpoint} is the driver {info.name!r}, configured as {self._endpoint.driver!r}"
            raise CallFailed(WRONG_DRIVER, found)
        plugin = await self._channel.call(GET_PLUGIN_CAPABILITIES, csi.GetPluginCapabilitiesRequest())
        services = {capability.service.type for capability in plugin.capabilities}
        rpcs: set[int] = set()
        if csi.PluginCapability.Service.CONTROLLER_SERVICE in services:
            request = csi.ControllerGetCapabilitiesRequest()
            controller = await self._channel.call(CONTROLLER_GET_CAPABILITIES, request)
            rpcs = {capability.rpc.type for capability in controller.capabilities}
        negotiation = negotiate(services, rpcs)
        self._note(None)
        about = {"driver": self._endpoint.driver, "protocol": negotiation.protocol or "none"}
        logger.info("CSI driver negotiated", extra={**about, "unknown_capabilities": negotiation.unknown})
        return negotiation

    def _witness(self) -> Witness:
        return Witness(f"CSI driver {self._endpoint.driver}", self._clock.now())

    def _forget(self) -> None:
        """Negotiate again before the next question: a driver that came back may be another version."""
        if self._handshake is not None and self._handshake.done():
            self._handshake = None

    def _note(self, failed: CallFailed | None) -> None:
        """Keep whether the driver answers, and log when that changes."""
        if failed is not None and failed.code in _MAY_BE_ANOTHER_DRIVER:
            self._forget()
        up = failed is None or failed.code not in _UNREACHED
        # A driver that was not asked has not answered anything.
        if up == self.up or (failed is not None and failed.code == BUSY):
            return
        self.up = up
        about = {"driver": self._endpoint.driver, "endpoint": str(self._endpoint)}
        if failed is None or up:
            logger.info("CSI endpoint answers", extra=about)
        else:
            why = {"reason": failed.code, "details": interpret.printable(failed.details)}
            logger.warning("CSI endpoint does not answer", extra={**about, **why})


def _succeeded(handshake: asyncio.Task[Negotiation]) -> bool:
    return not handshake.cancelled() and handshake.exception() is None
