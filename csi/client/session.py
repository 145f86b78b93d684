"""The state of the connection to a driver: its identity, its capabilities, and whether it responds."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from csi.client.answer_checks import check_count
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
from csi.client.size_limits import STRING_BYTES
from csi.health.capabilities import Negotiation, negotiate
from csi.health.report_source import BUSY, printable
from csi.proto import csi_v1_pb2 as csi
from kube.client.rate_limit import TokenBucket
from kube.clock import Clock

logger = logging.getLogger(__name__)

WRONG_DRIVER: Final = "WrongDriver"
NOT_READY: Final = "DriverNotReady"
UNREACHED: Final = frozenset({"Unavailable", "DeadlineExceeded"})
"""Codes that may mean that the driver does not respond at all, or merely that one volume hangs."""
_SILENT: Final = UNREACHED | {WRONG_DRIVER, NOT_READY}
_MAY_BE_ANOTHER_DRIVER: Final = frozenset({"Unavailable", "Unimplemented"})
_LINES: Final = 10
_SECONDS_A_LINE: Final = 60.0
"""Lines logged at once about a driver, and the seconds between further ones: it may come and go every millisecond."""
_SHOWN: Final = 8
"""Unknown capabilities that are logged."""

Noted = TypeVar("Noted")


class DriverSession:
    """Calls to a driver, after a handshake that is repeated whenever a different driver may have taken its place."""

    def __init__(self, endpoint: Endpoint, limits: Limits, clock: Clock, observer: CallObserver) -> None:
        self.endpoint = endpoint
        self._channel = DriverChannel(endpoint, limits, clock, observer, lost=self._forget)
        self._lines, self._unlogged = TokenBucket(clock, 1 / _SECONDS_A_LINE, _LINES), 0
        self._handshake: asyncio.Task[Negotiation] | None = None
        self._checking: asyncio.Task[bool] | None = None
        self.up: bool | None = None
        """Whether the driver responded last time, under its configured name; None before the first call.

        A single volume that hangs does not count: then the driver itself is probed.
        """
        self._responses = 0
        self.agreed: Negotiation | None = None
        """The result of the last negotiation."""
        self.trouble = CallFailed("Unavailable", "the driver was not called yet")
        """Why `up` was last False."""
        self.answering: list[Callable[[], None]] = []
        """Called when the driver responds again, or for the first time."""

    async def call(self, method: ReadOnlyMethod[Request, Answer], request: Request) -> Answer:
        """Return the response to a call about volumes, or raise CallFailed."""
        return await self._noted(self._channel.call(method, request))

    async def received(self, method: ReadOnlyMethod[Request, Answer], request: Request) -> bytes:
        """Return the response, not decoded, or raise CallFailed."""
        return await self._noted(self._channel.received(method, request))

    async def _noted(self, call: Awaitable[Noted]) -> Noted:
        try:
            answer = await call
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
        before = self._responses
        try:
            # Bypasses the queue: the queued calls may be the cause.
            answer = await self._channel.call(PROBE, csi.ProbeRequest(), first=True)
        except CallFailed as failed:
            if failed.code == "Unavailable":
                self._forget()
            if self.up and self._responses > before:
                # It has responded to another call meanwhile.
                return True
            # Any other status is a response too; there are drivers without Probe.
            return await self._responded(failed)
        ready = not answer.HasField("ready") or answer.ready.value
        return await self._responded(None if ready else CallFailed(NOT_READY, "Probe reports that it is not ready"))

    async def _responded(self, failed: CallFailed | None) -> bool:
        """Record the result of Probe. Who responds counts as the driver only after it has introduced itself."""
        responds = failed is None or failed.code not in _SILENT
        if responds and (self._handshake is None or not _succeeded(self._handshake)):
            try:
                await self.negotiated()
            except CallFailed as stranger:
                return stranger.code not in _SILENT
            return True
        self._note(failed)
        return responds

    async def _shake_hands(self) -> Negotiation:
        try:
            negotiation = await self._introduced()
        except CallFailed as failed:
            self._note(failed)
            raise
        self._note(None)
        # Repeated after each lost connection, usually with the same result.
        if negotiation != self.agreed and self._may_log():
            about = {"driver": self.endpoint.driver, "protocol": negotiation.protocol or "none"}
            unknown = _shown(negotiation.unknown)
            logger.info("Negotiated with the CSI driver", extra={**about, "unknown_capabilities": unknown})
        self.agreed = negotiation
        return negotiation

    async def _introduced(self) -> Negotiation:
        info = await self._channel.call(GET_PLUGIN_INFO, csi.GetPluginInfoRequest(), first=True)
        if info.name != self.endpoint.driver:
            other = printable(info.name, STRING_BYTES)
            problem = f"{self.endpoint} serves the driver {other!r}, but is configured for {self.endpoint.driver!r}"
            raise CallFailed(WRONG_DRIVER, problem)
        plugin = await self._channel.call(GET_PLUGIN_CAPABILITIES, csi.GetPluginCapabilitiesRequest(), first=True)
        check_count(plugin.capabilities)
        services = {capability.service.type for capability in plugin.capabilities}
        rpcs: set[int] = set()
        if csi.PluginCapability.Service.CONTROLLER_SERVICE in services:
            request = csi.ControllerGetCapabilitiesRequest()
            controller = await self._channel.call(CONTROLLER_GET_CAPABILITIES, request, first=True)
            check_count(controller.capabilities)
            rpcs = {capability.rpc.type for capability in controller.capabilities}
        return negotiate(services, rpcs)

    def _forget(self) -> None:
        """Negotiate again before the next call: a driver that was restarted may be another version."""
        if self._handshake is not None and self._handshake.done():
            self._handshake = None

    def _note(self, failed: CallFailed | None) -> None:
        """Record whether the driver responds, and log when that changes."""
        up = failed is None or failed.code not in _SILENT
        self._responses += up
        if failed is not None and not up:
            self.trouble = failed
        # Without a call there is no response to record.
        if up == self.up or (failed is not None and failed.code == BUSY):
            return
        self.up = up
        logs, about = self._may_log(), {"driver": self.endpoint.driver, "endpoint": str(self.endpoint)}
        if failed is None or up:
            if logs:
                logger.info("CSI endpoint is up", extra=about)
            for listener in self.answering:
                listener()
        elif logs:
            why = {"code": failed.code, "error": failed.details}
            logger.warning("CSI endpoint is down", extra={**about, **why})

    def _may_log(self) -> bool:
        """Whether a line about the driver may be logged. After a pause the number of lines left out is logged too."""
        if not self._lines.take_spare():
            self._unlogged += 1
            return False
        if self._unlogged:
            about = {"driver": self.endpoint.driver, "count": self._unlogged}
            logger.warning("Lines about the CSI driver were left out", extra=about)
        self._unlogged = 0
        return True


def _shown(numbers: Sequence[int]) -> Sequence[int] | str:
    """Return capability numbers for a log line."""
    if len(numbers) <= _SHOWN:
        return numbers
    return f"{', '.join(map(str, numbers[:_SHOWN]))} and {len(numbers) - _SHOWN} more"


def _succeeded(handshake: asyncio.Task[Negotiation]) -> bool:
    return handshake.done() and not handshake.cancelled() and handshake.exception() is None
