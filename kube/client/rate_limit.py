"""The client-side rate limit that every Kubernetes client has, and the place where requests are counted.

Same meaning as client-go's --kube-api-qps and --kube-api-burst.
"""

from typing import TYPE_CHECKING, Final

from kube.clock import Clock

if TYPE_CHECKING:
    from kube.metrics import RequestMetrics


class TokenBucket:
    """Admits `burst` requests at once and `rate` per second after that, in order of arrival."""

    def __init__(self, clock: Clock, rate: float, burst: int) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._counted_at = clock.monotonic()

    def take(self, tokens: float = 1.0) -> float:
        """Take tokens and return the seconds to wait before using them."""
        self._fill()
        self._tokens -= tokens
        return max(0.0, -self._tokens / self._rate)

    def take_spare(self) -> bool:
        """Take a token if there is one now, and return whether there was."""
        self._fill()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _fill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(float(self._burst), self._tokens + (now - self._counted_at) * self._rate)
        self._counted_at = now


class RateLimit:
    """Delays the requests of one client, and counts each response."""

    def __init__(self, clock: Clock, metrics: "RequestMetrics", *, qps: float, burst: int) -> None:
        self._clock = clock
        self._metrics = metrics
        self._bucket = TokenBucket(clock, qps, burst)

    async def turn(self) -> float:
        """Wait for a token; return the monotonic time at which the request may be sent."""
        wait = self._bucket.take()
        if wait:
            await self._clock.sleep(wait)
        return self._clock.monotonic()

    def answered(self, method: str, status: int, began: float) -> None:
        """Count a response to the request whose turn began at that time."""
        self._metrics.request_done(method, status, self._clock.monotonic() - began)


class Unlimited:
    """Delays and counts nothing: for a command with a few requests."""

    async def turn(self) -> float:
        return 0.0

    def answered(self, method: str, status: int, began: float) -> None: ...


UNLIMITED: Final = Unlimited()
