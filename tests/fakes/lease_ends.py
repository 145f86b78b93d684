"""The loss of the Lease at a chosen write."""

from dataclasses import dataclass

from kube.client.transport import Request
from kube.leaderelection.leadership import Leadership


@dataclass
class LeaseEnds:
    """The Lease is lost in the moment the last of so many writes is sent."""

    leadership: Leadership
    last: int
    writes: int = 0

    def __call__(self, request: Request) -> None:
        self.writes += 1
        if self.writes == self.last:
            self.leadership.end()
