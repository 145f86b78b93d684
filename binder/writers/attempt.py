"""What apply and complete share: the settings of writing, how an attempt ends, and when a volume is still the offer."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec

from binder.matching.rejection import Reason
from binder.model.decision import Lost, Outdated, Placement
from binder.reservation.contract import Annotations
from kube.objects.model import Claim, Volume

TRIES: Final = 3
"""Writes of one object that keeps changing in ways that do not concern us, before the pod is planned again."""


@dataclass(frozen=True, slots=True)
class ActSettings:
    """What the user decided about writing. `ttl`: how long a reservation lasts."""

    annotations: Annotations = field(default_factory=Annotations)
    ttl: timedelta = timedelta(minutes=10)


class LostPlacement(Exception):
    """Ends the writing for a pod."""

    def __init__(self, placement: Placement, why: str, reason: Reason = Reason.CLAIMED_BY_OTHER) -> None:
        super().__init__(why)
        self.outcome = Lost(placement, why, reason)


class OutdatedDecision(Exception):
    """Ends the writing for a pod that has to be planned again."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.outcome = Outdated(why)


def same_offer(chosen: Volume, fresh: Volume, claim: Claim, annotations: Annotations, now: datetime) -> bool:
    """Whether a volume that changed since it was chosen is still free for the claim and offers the same."""
    reservation = annotations.reservation_of(fresh)
    if reservation is not None and reservation.excludes(now, claim):
        return False
    unchanged = msgspec.structs.replace(fresh, resource_version=chosen.resource_version, annotations=chosen.annotations)
    return unchanged == chosen


def what_happened(fresh: Volume) -> str:
    """Say in a few words why a volume is no longer the one that was chosen."""
    if fresh.deleting:
        return "is being deleted"
    if fresh.claim is not None:
        return f"was taken by claim {fresh.claim.key}"
    return "changed"
