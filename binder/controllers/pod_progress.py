"""What a controller remembers of a pod between two reconciliations: everything else is read from the store."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from binder.matching.rejection import Reason
from binder.model.decision import Reject

REPORTED_AFTER: Final[Mapping[Reason, float]] = {
    Reason.HEALTH_UNKNOWN: 10.0,
    Reason.SELECTED_NODE_STALE: 60.0,
    Reason.DRIVER_NOT_ON_NODE: 60.0,
}
"""Seconds for which a rejection is not reported yet: a driver may only be slow, or be restarting, and a provisioner
takes back a node that is gone.
"""

KEEP_AT_MOST: Final = 30.0
"""Seconds for which a pod that has its volumes stays behind its gate because its room is booked for others.
kube-scheduler places those within seconds of seeing them; if it cannot for an unknown reason, the pod does not wait for
ever.
"""


@dataclass(slots=True)
class PodProgress:
    """One pod's. By the monotonic clock it lacks volumes since `seen_at`, because of `waits_for`; None if it does not.

    The counts are consecutive rejections, losses and gates that could not be removed. `kept_since` is since when it is
    kept behind its gate with all of its volumes; `withheld` is a reason that is not reported at once, and
    `withheld_since` since when it is rejected for that. `committed` are the uids of the pod and of its claims for which
    volumes were last committed: they were read before that.
    """

    seen_at: float | None = None
    waits_for: Reason | None = None
    rejections: int = 0
    losses: int = 0
    gates_kept: int = 0
    kept_since: float | None = None
    withheld: Reason | None = None
    withheld_since: float = 0.0
    committed: frozenset[str] = frozenset()

    def forget_failures(self) -> None:
        """The pod got its volumes: what fails next is retried soon again."""
        self.rejections = self.losses = self.gates_kept = 0
        self.kept_since = self.withheld = None

    def may_keep(self, rejected: Reject, now: float) -> bool:
        """Whether the pod stays behind its gate: with its volumes, and room that is booked for others, not for ever."""
        if rejected.reason is not Reason.OTHER_POD_PENDING or rejected.behind_gated:
            self.kept_since = None
            return True
        if self.kept_since is None:
            self.kept_since = now
        return now - self.kept_since < KEEP_AT_MOST

    def seconds_to_report(self, reason: Reason, now: float) -> float:
        """Return how long a rejection for this reason is not reported yet; zero or less if it may be."""
        after = REPORTED_AFTER.get(reason)
        if after is None:
            self.withheld = None
            return 0.0
        if self.withheld is not reason:
            self.withheld, self.withheld_since = reason, now
        return self.withheld_since + after - now

    def is_withheld(self, now: float) -> bool:
        """Whether the pod was rejected, and that is not reported yet."""
        return self.withheld is not None and now - self.withheld_since < REPORTED_AFTER[self.withheld]

    def done(self) -> None:
        """The pod lacks no volume. How often its gate could not be removed still counts."""
        self.seen_at = self.waits_for = None
