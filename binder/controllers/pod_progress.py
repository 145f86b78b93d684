"""What a controller remembers of a pod between two reconciliations: everything else is read from the store."""

from dataclasses import dataclass

from binder.matching.rejection import Reason


@dataclass(slots=True)
class PodProgress:
    """One pod's. By the monotonic clock it lacks volumes since `seen_at`, because of `waits_for`; None if it does not.

    The counts are consecutive rejections, losses and gates that could not be removed. `kept_since` is since when it is
    kept behind its gate with all of its volumes, `unknown_since` since when it is rejected only because the health of
    volumes is unknown. `committed` are the uids of the pod and of its claims for which volumes were last committed:
    they were read before that.
    """

    seen_at: float | None = None
    waits_for: Reason | None = None
    rejections: int = 0
    losses: int = 0
    gates_kept: int = 0
    kept_since: float | None = None
    unknown_since: float | None = None
    committed: frozenset[str] = frozenset()

    def forget_failures(self) -> None:
        """The pod got its volumes: what fails next is retried soon again."""
        self.rejections = self.losses = self.gates_kept = 0
        self.kept_since = self.unknown_since = None

    def done(self) -> None:
        """The pod lacks no volume. How often its gate could not be removed still counts."""
        self.seen_at = self.waits_for = None
