"""The client-side rate limit that every Kubernetes client has, and the place where requests are counted.

Same meaning as client-go's --kube-api-qps and --kube-api-burst.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from kube.client.transport import Request, Response, StreamResponse, Transport
from kube.clock import Clock
from kube.errors import KubeError


class RequestObserver(Protocol):
    """The event behind rest_client_requests_total and rest_client_request_duration_seconds."""

    def request_done(self, method: str, status: int, seconds: float) -> None:
        """Record a response; status 0 means that there was none. A watch counts when its headers arrive."""


class TokenBucket:
    """Admits `burst` requests at once and `rate` per second after that, in order of arrival."""

    def __init__(self, clock: Clock, rate: float, burst: int) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._counted_at = clock.monotonic()

    def take(self) -> float:
        """Take a token and return the seconds to wait before using it."""
        now = self._clock.monotonic()
        self._tokens = min(float(self._burst), self._tokens + (now - self._counted_at) * self._rate)
        self._counted_at = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate)


class PacedTransport:
    """Waits for a token before each request, and reports each response to the observer."""

    def __init__(self, inner: Transport, clock: Clock, observer: RequestObserver, *, qps: float, burst: int) -> None:
        self._inner = inner
        self._clock = clock
        self._observer = observer
        self._bucket = TokenBucket(clock, qps, burst)

    async def send(self, request: Request) -> Response:
        await self._wait()
        started = self._clock.monotonic()
        status = 0
        try:
            response = await self._inner.send(request)
            status = response.status
            return response
        except KubeError as error:
            status = error.status
            raise
        finally:
            self._observer.request_done(request.method, status, self._clock.monotonic() - started)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        await self._wait()
        started = self._clock.monotonic()
        async with self._inner.stream(request) as response:
            self._observer.request_done("WATCH", response.status, self._clock.monotonic() - started)
            yield response

    async def _wait(self) -> None:
        wait = self._bucket.take()
        if wait:
            await self._clock.sleep(wait)
