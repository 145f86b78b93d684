"""What Kubernetes would do with a claim, and why it rejects each other volume, as a frozen value."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from binder.matching.evidence import RejectionEvidence
from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Claim, Node, Volume

WhyNot = Callable[[Volume], Reason | None]
"""Why a volume was not chosen. None for volumes that were not evaluated."""


def for_every_volume(reason: Reason | None) -> WhyNot:
    """Return the same reason for every volume, because none was evaluated."""
    return lambda _: reason


@dataclass(frozen=True, slots=True)
class Match:
    """The result for a claim.

    `claim` is the claim as the rules saw it, so with the default class if Kubernetes writes that first. `binding_mode`
    is None if the class object has none, and then no volume is considered, or if there is no such class and no volume
    fits either. `reason` is why there is no volume, None if there is one.
    """

    claim: Claim
    binding_mode: str | None
    volume: Volume | None
    reason: Reason | None
    why_not: WhyNot
    node: Node | None = None
    taken: Mapping[str, str] = field(default_factory=dict)

    def rejected_volumes(self, volumes: Iterable[Volume]) -> Iterator[tuple[Volume, Reason]]:
        """Yield each volume that was not chosen, in the order given, and the first rule that it failed."""
        chosen = None if self.volume is None else self.volume.name
        for volume in volumes:
            if volume.name != chosen:
                reason = self.why_not(volume)
                if reason is not None:
                    yield volume, reason

    def rejections(self, volumes: Iterable[Volume]) -> Iterator[Rejection]:
        """Yield the rejections with their evidence in words."""
        evidence = RejectionEvidence(self.claim, self.volume, self.node, self.taken)
        for volume, reason in self.rejected_volumes(volumes):
            yield evidence.rejection(volume, reason)
