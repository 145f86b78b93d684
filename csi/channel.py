"""One gRPC channel to one driver: bounded in calls at once, in waiting, in size, and reconnecting by itself."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote

import grpc
from google.protobuf.message import DecodeError

from csi.endpoint import Endpoint
from csi.interpret import MALFORMED
from csi.readonly import Answer, ReadOnlyMethod, Request
from kube.clock import Clock

OPTIONS: Final = (
    # A driver whose answer is larger fails alone: 16 calls at once hold at most 64 MiB.
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
    # gRPC's own backoff between attempts to connect; its default of up to two minutes is long for a local socket.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 5000),
    # A broken connection belongs to one channel, even if somebody else in the process dials the same socket.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


BUSY: Final = "DriverBusy"
"""Nothing was sent, because other calls took all turns."""


class CallFailed(Exception):
    """A call brought no answer.

    `code` is the canonical name of a gRPC status, as in Go (DeadlineExceeded), or MALFORMED or BUSY.
    """

    def __init__(self, code: str, details: str) -> None:
        super().__init__(f"{code}: {details}")
        self.code = code
        self.details = details


class CallObserver(Protocol):
    """Is told of every call that ended, for csi_sidecar_operations_seconds."""

    def operation(self, driver: str, method: str, code: str, seconds: float) -> None:
        """`method` is the full path, `code` the canonical name of the gRPC status."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one driver may be asked for at once, and for how long."""

    calls_at_once: int = 16
    deadline: float = 5.0
    """Seconds for one call; also the longest wait for a turn when `calls_at_once` others are under way."""


class DriverChannel:
    """Sends read-only calls to one driver. Opens nothing before the first call; must be closed."""

    def __init__(
        self, endpoint: Endpoint, limits: Limits, clock: Clock, observer: CallObserver, lost: Callable[[], None]
    ) -> None:
        """`lost` is called when an established connection breaks: another driver may be there next time."""
        self._endpoint, self._limits, self._clock, self._observer = endpoint, limits, clock, observer
        self._lost = lost
        self._turns = asyncio.Semaphore(limits.calls_at_once)
        self._channel = grpc.aio.insecure_channel(f"unix://{quote(endpoint.path)}", options=OPTIONS)
        self._watcher: asyncio.Task[None] | None = None

    async def call(self, method: ReadOnlyMethod[Request, Answer], request: Request, *, first: bool = False) -> Answer:
        """Return the answer, or raise CallFailed within twice the deadline; `first` goes ahead of all turns."""
        if not first:
            await self._take_turn()
        try:
            received = await self._observed(method.path, request.SerializeToString())
        finally:
            if not first:
                self._turns.release()
        # Decoded here, because grpc.aio returns None for an answer that its own deserializer could not read.
        try:
            return method.answer.FromString(received)
        except DecodeError as error:
            raise CallFailed(MALFORMED, f"{method.name}: {len(received)} bytes that are no answer") from error

    async def _observed(self, path: str, request: bytes) -> bytes:
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._watch())
        started, code = self._clock.monotonic(), "Canceled"
        try:
            answer = await self._send(path, request)
            code = "OK"
            return answer
        except CallFailed as failed:
            code = failed.code
            raise
        finally:
            seconds = self._clock.monotonic() - started
            self._observer.operation(self._endpoint.driver, path, code, seconds)

    async def close(self) -> None:
        """Break off the calls under way and free the connection."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        await self._channel.close(None)

    async def _take_turn(self) -> None:
        try:
            async with asyncio.timeout(self._limits.deadline):
                await self._turns.acquire()
        except TimeoutError:
            busy = f"{self._limits.calls_at_once} calls at once are allowed, and no turn came in time"
            raise CallFailed(BUSY, busy) from None

    async def _send(self, path: str, request: bytes) -> bytes:
        try:
            send = self._channel.unary_unary(path, None, None)
            answer: bytes = await send(request, timeout=self._limits.deadline)
            return answer
        except grpc.aio.AioRpcError as error:
            raise CallFailed(canonical_name(error.code()), error.details() or "") from error
        except grpc.aio.UsageError as error:
            raise CallFailed("Unavailable", "the channel is closed") from error

    async def _watch(self) -> None:
        """Report each time a connection that was ready no longer is."""
        state = self._channel.get_state()
        while state is not grpc.ChannelConnectivity.SHUTDOWN:
            await self._channel.wait_for_state_change(state)
            was_ready = state is grpc.ChannelConnectivity.READY
            state = self._channel.get_state()
            if was_ready:
                self._lost()


def canonical_name(code: grpc.StatusCode) -> str:
    """Return the name that Go gives a status code; the metrics of Kubernetes' CSI sidecars use it."""
    if code is grpc.StatusCode.OK:
        return "OK"
    if code is grpc.StatusCode.CANCELLED:
        return "Canceled"
    return "".join(word.capitalize() for word in code.name.split("_"))
