"""The state of the connection to a driver: its identity, its capabilities, and whether it responds."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from csi.client.channel import CallFailed, CallObserver, DriverChannel, Limits
from csi.client.endpoint import Endpoint
from csi.client.readonly import (
    CONTROLLER_GET_CAPABILITIES,
    GET_PLUGIN_CAPABILITIES,
    GET_PLUGIN_INFO,
    PROBE,
    Answer,
    ReadOnlyMethod,
    Request,
)
from csi.health.capabilities import Negotiation, negotiate
from csi.health.report_source import BUSY, printable
from csi.proto import csi_v1_pb2 as csi
from kube.clock import Clock

logger = logging.getLogger(__name__)

WRONG_DRIVER: Final = "WrongDriver"
NOT_READY: Final = "DriverNotReady"
UNREACHED: Final = frozenset({"Unavailable", "DeadlineExceeded"})
"""Codes that may mean that the driver does not respond at all, or merely that one volume hangs."""
_SILENT: Final = UNREACHED | {WRONG_DRIVER, NOT_READY}
_MAY_BE_ANOTHER_DRIVER: Final = frozenset({"Unavailable", "Unimplemented"})


class DriverSession:
    """Calls to a driver, after a handshake that is repeated whenever a different driver may have taken its place."""

    def __init__(self, endpoint: Endpoint, limits: Limits, clock: Clock, observer: CallObserver) -> None:
        self.endpoint = endpoint
        self._channel = DriverChannel(endpoint, limits, clock, observer, lost=self._forget)
        self._handshake: asyncio.Task[Negotiation] | None = None
        self._checking: asyncio.Task[bool] | None = None
        self.up: bool | None = None
        """Whether the driver responded last time, under its configured name; None before the first call.

        A single volume that hangs does not count: then the driver itself is probed.
        """
        self.agreed: Negotiation | None = None
        """The result of the last negotiation."""
        self.trouble = CallFailed("Unavailable", "the driver was not called yet")
        """Why `up` was last False."""
        self.answering: list[Callable[[], None]] = []
        """Called when the driver responds again, or for the first time."""

    async def call(self, method: ReadOnlyMethod[Request, Answer], request: Request) -> Answer:
        """Return the response to a call about volumes, or raise CallFailed."""
        try:
            answer = await self._channel.call(method, request)
        except CallFailed as failed:
            if failed.code in _MAY_BE_ANOTHER_DRIVER:
                self._forget()
            if failed.code in UNREACHED:
                self._check()
            raise
        self._note(None)
        return answer

    async def negotiated(self) -> Negotiation:
        """Return the negotiated capabilities, or raise CallFailed. Concurrent callers share one handshake."""
        if self._handshake is None or (self._handshake.done() and not _succeeded(self._handshake)):
            self._handshake = asyncio.create_task(self._shake_hands())
        # Shielded: a caller that is cancelled must not cancel the handshake for the others.
        return await asyncio.shield(self._handshake)

    async def answers(self) -> bool:
        """Probe the driver itself, and return the resulting `up`."""
        return await asyncio.shield(self._check())

    async def close(self) -> None:
        """Cancel the calls in progress and close the connection."""
        tasks = [task for task in (self._handshake, self._checking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._channel.close()

    def _check(self) -> asyncio.Task[bool]:
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._probe())
        return self._checking

    async def _probe(self) -> bool:
        try:
            # Bypasses the queue: the queued calls may be the cause.
            answer = await self._channel.call(PROBE, csi.ProbeRequest(), first=True)
        except CallFailed as failed:
            if failed.code == "Unavailable":
                self._forget()
            # Any other status is a response too; there are drivers without Probe.
            self._note(failed)
            return failed.code not in _SILENT
        ready = not answer.HasField("ready") or answer.ready.value
        self._note(None if ready else CallFailed(NOT_READY, "Probe reports that the driver is not ready"))
        return ready

    async def _shake_hands(self) -> Negotiation:
        try:
            negotiation = await self._introduced()
        except CallFailed as failed:
            self._note(failed)
            raise
        self._note(None)
        self.agreed = negotiation
        about = {"driver": self.endpoint.driver, "protocol": negotiation.protocol or "none"}
        logger.info("Negotiated with the CSI driver", extra={**about, "unknown_capabilities": negotiation.unknown})
        return negotiation

    async def _introduced(self) -> Negotiation:
        info = await self._channel.call(GET_PLUGIN_INFO, csi.GetPluginInfoRequest(), first=True)
        if info.name != self.endpoint.driver:
            problem = f"{self.endpoint} serves the driver {info.name!r}, but is configured for {self.endpoint.driver!r}"
            raise CallFailed(WRONG_DRIVER, problem)
        plugin = await self._channel.call(GET_PLUGIN_CAPABILITIES, csi.GetPluginCapabilitiesRequest(), first=True)
        services = {capability.service.type for capability in plugin.capabilities}
        rpcs: set[int] = set()
        if csi.PluginCapability.Service.CONTROLLER_SERVICE in services:
            request = csi.ControllerGetCapabilitiesRequest()
            controller = await self._channel.call(CONTROLLER_GET_CAPABILITIES, request, first=True)
            rpcs = {capability.rpc.type for capability in controller.capabilities}
        return negotiate(services, rpcs)

    def _forget(self) -> None:
        """Negotiate again before the next call: a driver that was restarted may be another version."""
        if self._handshake is not None and self._handshake.done():
            self._handshake = None

    def _note(self, failed: CallFailed | None) -> None:
        """Record whether the driver responds, and log when that changes."""
        up = failed is None or failed.code not in _SILENT
        if failed is not None and not up:
            self.trouble = failed
        # Without a call there is no response to record.
        if up == self.up or (failed is not None and failed.code == BUSY):
            return
        self.up = up
        about = {"driver": self.endpoint.driver, "endpoint": str(self.endpoint)}
        if failed is None or up:
            logger.info("CSI endpoint is up", extra=about)
            for listener in self.answering:
                listener()
        else:
            why = {"code": failed.code, "error": printable(failed.details)}
            logger.warning("CSI endpoint is down", extra={**about, **why})


def _succeeded(handshake: asyncio.Task[Negotiation]) -> bool:
    return not handshake.cancelled() and handshake.exception() is None
