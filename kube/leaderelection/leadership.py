"""The check, right before each write, that this process may still write.

Leadership expires by itself: when the last renewal is too old by the monotonic clock, it is lost, whether or not that
was noticed. So a process that was suspended and resumes after its time does not write.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from msgspec.structs import replace

from kube.client.transport import Request
from kube.clock import Clock
from kube.errors import LeadershipLost
from kube.leaderelection.lease import LeaseTiming


class Leadership:
    """A term as holder of a Lease. `holder` and `transition` together identify the term (for fencing).

    Times are monotonic seconds; a renewal counts from when its request was sent, which is the safe side.
    """

    def __init__(self, clock: Clock, holder: str, transition: int, timing: LeaseTiming, renewed: float) -> None:
        self.holder = holder
        self.transition = transition
        self._clock = clock
        self._timing = timing
        self._renewed = renewed
        self._over = False

    @classmethod
    def unelected(cls, clock: Clock, holder: str) -> "Leadership":
        """Return a leadership that never ends, for a process that runs without election."""
        return cls(clock, holder, 0, LeaseTiming(), inf)

    def check(self) -> None:
        """Raise LeadershipLost unless this process may write now. A lost term never comes back."""
        if not self._over and self.left() > 0:
            return
        self._over = True
        raise LeadershipLost(f"{self.holder} no longer holds the lease (term {self.transition})")

    def fence(self, request: Request) -> Request:
        """Return the request as it may be sent now: a write with a timeout that ends before another process may lead.

        Raises LeadershipLost for a write after the term. To be called next to the network: whatever waits (a rate
        limit, a queue) waits before it.
        """
        if request.method == "GET":
            return request
        self.check()
        return replace(request, timeout=min(request.timeout, self.until_others_may_lead()))

    @property
    def held(self) -> bool:
        return not self._over and self.left() > 0

    def left(self) -> float:
        """Return the seconds until the work must have stopped, unless the Lease is renewed."""
        return self._renewed + self._timing.renew_deadline - self._clock.monotonic()

    def until_others_may_lead(self) -> float:
        """Return the seconds until another process may acquire the lease."""
        return self._renewed + self._timing.duration - self._clock.monotonic()

    def renew(self, sent: float) -> None:
        """Record a renewal whose request was sent at that time."""
        self._renewed = max(self._renewed, sent)

    def end(self) -> None:
        """End the term permanently."""
        self._over = True


@contextmanager
def one_loss() -> Iterator[None]:
    """Merge every LeadershipLost of the tasks of a group into one."""
    lost = False
    try:
        yield
    except* LeadershipLost:
        lost = True
    if lost:
        raise LeadershipLost("the lease was lost during a write")
