"""A gRPC channel to a driver: bounded in concurrency, in waiting time and in size, and reconnecting automatically."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote

import grpc
from google.protobuf.message import DecodeError

from csi.client.credentials import Material, material
from csi.client.endpoint import Endpoint
from csi.client.readonly import Answer, ReadOnlyMethod, Request
from csi.client.size_limits import METADATA_BYTES, PAGE_BYTES, SMALL_BYTES, answer_bytes, service_config
from csi.client.socket_access import access_trouble
from csi.health.report_source import BUSY, MALFORMED, TOO_LARGE, printable
from csi.health.size_limit import SizeLimit
from kube.client.rate_limit import TokenBucket
from kube.clock import Clock

OPTIONS: Final = (
    # The limit of each method is in the service config; both hold for what a compressed answer expands to as well.
    ("grpc.max_receive_message_length", PAGE_BYTES),
    ("grpc.service_config", service_config()),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.max_metadata_size", METADATA_BYTES // 2),
    ("grpc.absolute_max_metadata_size", METADATA_BYTES),
    # gRPC's own backoff between attempts to connect; its default of up to two minutes is long for a local socket.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 5000),
    # A broken connection belongs to one channel, even if other code in the process dials the same socket.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


class CallFailed(Exception):
    """A call without a response.

    `code` is the canonical name of a gRPC status, as in Go (DeadlineExceeded), or one of our own: MALFORMED, BUSY,
    TOO_LARGE. `details` are printable and short, whatever the driver sent.
    """

    def __init__(self, code: str, details: str) -> None:
        self.code, self.details = code, printable(details)
        super().__init__(f"{code}: {self.details}")


class TooLarge(CallFailed):
    """An answer that exceeds a limit. Nothing of it is used."""

    def __init__(self, limit: SizeLimit, details: str, code: str = TOO_LARGE) -> None:
        super().__init__(code, details)
        self.limit = limit


class CallObserver(Protocol):
    """Observes every call that ended, for csi_sidecar_operations_seconds."""

    def operation(self, driver: str, method: str, code: str, seconds: float) -> None:
        """`method` is the full path, `code` the canonical name of the gRPC status."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on concurrent calls to a driver, and their deadline."""

    calls_at_once: int = 16
    deadline: float = 5.0
    """Seconds for a call; also the longest wait for a slot when `calls_at_once` others are in progress."""
    bytes_a_second: float = 16 * 1024 * 1024
    """What is received after a burst of as much: decoding a MiB takes up to 30 ms."""


class DriverChannel:
    """Sends read-only calls to a driver. Connects at the first call; must be closed."""

    def __init__(
        self, endpoint: Endpoint, limits: Limits, clock: Clock, observer: CallObserver, lost: Callable[[], None]
    ) -> None:
        """`lost` is called when an established connection breaks: a different driver may be there next time."""
        self._endpoint, self._limits, self._clock, self._observer = endpoint, limits, clock, observer
        self._lost = lost
        self._turns = asyncio.Semaphore(limits.calls_at_once)
        self._decoding = asyncio.Lock()
        self._bytes = TokenBucket(clock, limits.bytes_a_second, int(limits.bytes_a_second))
        self._channel: grpc.aio.Channel | None = None
        self._material = Material()
        self._watcher: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    async def call(self, method: ReadOnlyMethod[Request, Answer], request: Request, *, first: bool = False) -> Answer:
        """Return the response, or raise CallFailed within twice the deadline; `first` bypasses the queue.

        Both take longer if the driver has sent more than it may.
        """
        received = await self.received(method, request, first=first)
        if len(received) <= SMALL_BYTES:
            return _decoded(method, received)
        # Several may arrive at once, and each takes milliseconds: other work is done in between.
        async with self._decoding:
            await self._clock.sleep(0)
            return _decoded(method, received)

    async def received(
        self, method: ReadOnlyMethod[Request, Answer], request: Request, *, first: bool = False
    ) -> bytes:
        """Return the response as `call` does, but not decoded."""
        if not first:
            await self._take_turn()
        try:
            received = await self._observed(method.path, request.SerializeToString())
            # The slot is kept meanwhile: what arrives too fast slows down nobody but this driver.
            wait = self._bytes.take(len(received))
            if wait:
                await self._clock.sleep(wait)
        finally:
            if not first:
                self._turns.release()
        return received

    async def _observed(self, path: str, request: bytes) -> bytes:
        started, code = self._clock.monotonic(), "Canceled"
        try:
            answer = await self._send(path, request)
            code = "OK"
            return answer
        except CallFailed as failed:
            code = "ResourceExhausted" if isinstance(failed, TooLarge) else failed.code
            raise
        finally:
            seconds = self._clock.monotonic() - started
            self._observer.operation(self._endpoint.driver, path, code, seconds)

    async def close(self) -> None:
        """Cancel the calls in progress and close the connection."""
        self._closed = True
        self._retire(grace=None)
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _take_turn(self) -> None:
        try:
            async with asyncio.timeout(self._limits.deadline):
                await self._turns.acquire()
        except TimeoutError:
            busy = f"{self._limits.calls_at_once} concurrent calls allowed, and no slot became free in time"
            raise CallFailed(BUSY, busy) from None

    async def _send(self, path: str, request: bytes) -> bytes:
        try:
            send = self._connected().unary_unary(path, None, None)
            answer: bytes | None = await send(request, timeout=self._limits.deadline)
        except grpc.aio.AioRpcError as error:
            code, details = canonical_name(error.code()), error.details() or ""
            _check_size(path, code, details)
            if code == "Unavailable" and (trouble := self._trouble()):
                details = f"{trouble} ({details})"
            raise CallFailed(code, details) from error
        except grpc.aio.UsageError as error:
            raise CallFailed("Unavailable", "the channel is closed") from error
        if answer is None:
            # The same code as in Go.
            raise CallFailed("Internal", "the response has the status OK, but no message")
        return answer

    def _connected(self) -> grpc.aio.Channel:
        """Return the channel; a new one if the certificates have changed. Raises CallFailed while there are none."""
        if self._closed:
            raise CallFailed("Unavailable", "the channel is closed")
        if self._channel is not None and not self._endpoint.remote:
            return self._channel
        try:
            held = material(self._endpoint)
        except (OSError, ValueError) as error:
            # The certificates read before are used until the files are there again.
            if self._channel is not None:
                return self._channel
            raise CallFailed("Unavailable", f"cannot read the certificates: {error}") from error
        if self._channel is None or held != self._material:
            self._retire(grace=self._limits.deadline)
            self._material, self._channel = held, _open(self._endpoint, held)
            self._watcher = asyncio.create_task(self._watch(self._channel))
        return self._channel

    def _retire(self, grace: float | None) -> None:
        """Close the channel; calls in progress on it have that many seconds to end."""
        watcher, channel = self._watcher, self._channel
        self._watcher = self._channel = None
        if watcher is not None and channel is not None:
            watcher.cancel()
            closing = asyncio.create_task(_close(watcher, channel, grace))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _trouble(self) -> str | None:
        return None if self._endpoint.remote else access_trouble(self._endpoint.path)

    async def _watch(self, channel: grpc.aio.Channel) -> None:
        """Report each time a ready connection is lost."""
        state = channel.get_state()
        while state is not grpc.ChannelConnectivity.SHUTDOWN:
            await channel.wait_for_state_change(state)
            was_ready = state is grpc.ChannelConnectivity.READY
            state = channel.get_state()
            if was_ready:
                self._lost()


def _open(endpoint: Endpoint, held: Material) -> grpc.aio.Channel:
    """Return a channel, which connects at the first call. The driver must prove that it is `server_name`."""
    if not endpoint.remote:
        return grpc.aio.insecure_channel(f"unix://{quote(endpoint.path)}", options=OPTIONS)
    credentials = grpc.ssl_channel_credentials(held.authority, held.key, held.certificate)
    # Despite its name it does not disable a check: it is the name that the certificate is verified against.
    name = ("grpc.ssl_target_name_override", endpoint.server_name)
    return grpc.aio.secure_channel(endpoint.address, credentials, options=(*OPTIONS, name))


async def _close(watcher: asyncio.Task[None], channel: grpc.aio.Channel, grace: float | None) -> None:
    await asyncio.gather(watcher, return_exceptions=True)
    await channel.close(grace)


def _decoded(method: ReadOnlyMethod[Request, Answer], received: bytes) -> Answer:
    # Not by grpc.aio, which returns None for a response that its own deserializer could not read.
    try:
        return method.answer.FromString(received)
    except DecodeError as error:
        raise CallFailed(MALFORMED, f"{method.name}: {len(received)} bytes that cannot be decoded") from error


def _check_size(path: str, code: str, details: str) -> None:
    """Raise TooLarge if gRPC ended the call because of a limit: it has no status code of its own for that."""
    if code != "ResourceExhausted":
        return
    method = path.rpartition("/")[2]
    if "metadata size exceeds" in details:
        limit = f"{method}: headers or trailers, which carry the error, exceed {METADATA_BYTES} bytes"
        raise TooLarge(SizeLimit.METADATA, limit)
    if "message larger than max" in details:
        raise TooLarge(SizeLimit.ANSWER, f"{method}: the answer exceeds {answer_bytes(path)} bytes")


def canonical_name(code: grpc.StatusCode) -> str:
    """Return the name that Go gives a status code; the metrics of Kubernetes' CSI sidecars use it."""
    if code is grpc.StatusCode.OK:
        return "OK"
    if code is grpc.StatusCode.CANCELLED:
        return "Canceled"
    return "".join(word.capitalize() for word in code.name.split("_"))
