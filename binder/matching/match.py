"""What Kubernetes would do with one claim, and why not with each other volume, as a frozen value."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from binder.matching.evidence import Evidence
from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Claim, Node, Volume

WhyNot = Callable[[Volume], Reason | None]
"""Why a volume was not chosen. None for volumes about which nothing was asked."""


def for_every_volume(reason: Reason | None) -> WhyNot:
    """Return the same answer for every volume, because none was looked at."""
    return lambda _: reason


@dataclass(frozen=True, slots=True)
class Match:
    """The answer for one claim.

    `claim` is the claim as the rules saw it, so with the default class where Kubernetes writes that first.
    `binding_mode` is None when the class object has none, and then no volume is considered, or when there is no such
    class and no volume fits either.
    `reason` says why there is no volume, and is None when there is one.
    """

    claim: Claim
    binding_mode: str | None
    volume: Volume | None
    reason: Reason | None
    why_not: WhyNot
    node: Node | None = None
    taken: Mapping[str, str] = field(default_factory=dict)

    def refusals(self, volumes: Iterable[Volume]) -> Iterator[tuple[Volume, Reason]]:
        """Yield each volume that was not chosen, in the order given, and the first reason it fell to."""
        chosen = None if self.volume is None else self.volume.name
        for volume in volumes:
            if volume.name != chosen:
                reason = self.why_not(volume)
                if reason is not None:
                    yield volume, reason

    def rejections(self, volumes: Iterable[Volume]) -> Iterator[Rejection]:
        """Yield the refusals with their evidence in words."""
        evidence = Evidence(self.claim, self.volume, self.node, self.taken)
        for volume, reason in self.refusals(volumes):
            yield evidence.rejection(volume, reason)
