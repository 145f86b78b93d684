"""`bind.pod` and `unbind.pod`: the two methods of the control port by which a tool drives the scheduler."""

from typing import Protocol

from scheduler.pod_binding import Bound, Refused, Released


class PodBinding(Protocol):
    """Places one pod now, or takes a placement back. Key: `namespace/name`; uid empty: whichever pod has that name.

    Neither raises for what a caller can do wrong: that is a Refused. Any other exception is a bug and is reported as
    an internal error. Both may be called at any time, before the first list and without the lease too, and several
    times at once; a pod that is being bound already is waited for, not bound twice. Cancelling the call gives up
    waiting only: what has begun is finished or rolled back without the caller.
    """

    async def bind(self, key: str, uid: str, node: str) -> Bound | Refused:
        """Schedule a waiting pod ahead of its turn and return when its Binding succeeded or nothing is left of it.

        Node given: that one only, after all filters; empty: the scheduler chooses. Neither backoff nor an earlier
        failure is waited for, but a pod with scheduling gates is refused. A refused pod goes on waiting in the queue,
        as after any other failed attempt.
        """

    async def unbind(self, key: str, uid: str) -> Released | Refused:
        """Take back the node and the volumes promised to a pod whose Binding has not been sent; the pod waits again.

        A pod to which nothing is promised is Released with an empty node. One whose Binding was sent is waited for,
        and refused as ALREADY_BOUND if that succeeded.
        """
