"""An attempt to write for one pod: its settings, how it ends, and when a volume is still the one that was offered."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeVar

from msgspec.structs import replace

from binder.matching.rejection import Reason
from binder.model.decision import Lost, Outdated, Placement
from binder.reservation.contract import Annotations
from binder.reservation.set_aside import as_offered
from kube.objects.model import Claim, Volume


@dataclass(frozen=True, slots=True)
class ActSettings:
    """The user's settings for writing. `ttl`: how long a reservation lasts."""

    annotations: Annotations = field(default_factory=Annotations)
    ttl: timedelta = timedelta(minutes=10)


class EndedAttempt(Exception):
    """Ends the attempt for a pod before everything is written."""

    def __init__(self, outcome: Lost | Outdated) -> None:
        super().__init__(outcome.why)
        self.outcome = outcome


class LostPlacement(EndedAttempt):
    """Another writer was faster, or the volume must not be used any more."""

    def __init__(self, placement: Placement, why: str, reason: Reason = Reason.CLAIMED_BY_OTHER) -> None:
        super().__init__(Lost(placement, why, reason))


class OutdatedDecision(EndedAttempt):
    """The pod has to be planned again."""

    def __init__(self, why: str) -> None:
        super().__init__(Outdated(why))


def same_offer(chosen: Volume, fresh: Volume, claim: Claim, annotations: Annotations, now: datetime) -> bool:
    """Whether a volume that changed since it was chosen is still usable for the claim and offers the same."""
    fresh, reservation = as_offered(fresh, claim, annotations), annotations.reservation_of(fresh)
    if annotations.pin_keys(fresh) or (reservation is not None and reservation.excludes(now, claim)):
        return False
    unchanged = replace(fresh, resource_version=chosen.resource_version, annotations=chosen.annotations)
    return unchanged == chosen


def what_happened(fresh: Volume) -> str:
    """Return in a few words why a volume is no longer the one that was chosen."""
    if fresh.deleting:
        return "is being deleted"
    if fresh.claim is not None:
        return f"was taken by claim {fresh.claim.key}"
    return "changed"


S = TypeVar("S")
T = TypeVar("T")

AT_ONCE: Final = 4
"""Claims of one pod that are read or bound concurrently."""


async def side_by_side(work: Callable[[S], Awaitable[T]], subjects: Iterable[S]) -> list[T]:
    """Let all finish, then raise the first failure: no bind is interrupted because another one failed."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def in_turn(subject: S) -> T:
        async with turns:
            return await work(subject)

    results = await asyncio.gather(*map(in_turn, subjects), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
