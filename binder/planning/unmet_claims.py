"""Why no volume fits a claim: how many fail which rule, and what came nearest.

Each volume of the claim's class counts with the first rule that it fails. That is computed once for all claims of a
shape, except for claims that some volume names.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest
from typing import Final

from binder.assignment.volume_policy import reject_use
from binder.health.quarantine import in_quarantine
from binder.matching.claim_shape import ClaimShape
from binder.matching.evidence import RejectionEvidence, modes_text, quantity_text, reasons_text, selector_text
from binder.matching.matching import class_of, scheduler_rejection
from binder.matching.rejection import Reason, Rejection
from binder.model.demand import Demand
from binder.model.view import View
from kube.objects.model import Claim, Volume

_NEAREST: Final = 4
"""Volumes shown for one claim."""
_MAX_VOLUMES: Final = 5000
"""Volumes evaluated for one claim."""

_NEAREST_FIRST: Final = (
    Reason.UNHEALTHY,
    Reason.TOPOLOGY_CONTRADICTED,
    Reason.HEALTH_UNKNOWN,
    Reason.QUARANTINED,
    Reason.RESERVED_FOR_OTHER,
    Reason.SELECTOR_MISMATCH,
    Reason.SELECTOR_TOO_LARGE,
    Reason.ACCESS_MODES_MISMATCH,
    Reason.ATTRIBUTES_CLASS_MISMATCH,
    Reason.VOLUME_MODE_MISMATCH,
    Reason.TOO_SMALL,
    Reason.NOT_AVAILABLE,
    Reason.VOLUME_DELETING,
    Reason.CLAIMED_BY_OTHER,
)
"""Reasons from the one nearest to success to the least informative."""
_TELLING: Final[Mapping[Reason, int]] = {reason: place for place, reason in enumerate(_NEAREST_FIRST)}

Failed = tuple[Reason, Volume]
"""A volume and the first rule it failed."""


@dataclass(frozen=True, slots=True)
class _Failures:
    """How many volumes failed which rule, and the failures that came nearest to success."""

    counts: Counter[Reason]
    nearest: tuple[Failed, ...]

    @classmethod
    def of(cls, failed: Iterable[Failed], smaller: int = 0) -> "_Failures":
        every = list(failed)
        counts = Counter(reason for reason, _ in every)
        counts[Reason.TOO_SMALL] += smaller
        return cls(+counts, tuple(nsmallest(_NEAREST, every, key=_nearness)))

    def with_more(self, more: "_Failures") -> "_Failures":
        nearest = nsmallest(_NEAREST, (*self.nearest, *more.nearest), key=_nearness)
        return _Failures(self.counts + more.counts, tuple(nearest))


@dataclass(frozen=True, slots=True)
class _OfClass:
    """The volumes of a class: those without a claimRef, and how those of other claims fail for every other claim."""

    unclaimed: Sequence[Volume]
    claimed: _Failures


class UnmetClaims:
    """Explains claims that no volume of a view fits. `looks` is the number of volumes evaluated so far."""

    def __init__(self, view: View, now: datetime) -> None:
        self._view = view
        self._now = now
        self.looks = 0
        self._classes: dict[str, _OfClass] | None = None
        self._failures: dict[ClaimShape, _Failures] = {}

    def knows(self, demand: Demand, claims: Iterable[Claim]) -> bool:
        """Whether nothing has to be evaluated to explain these claims."""
        return all(
            demand.shape_of(claim) in self._failures and not self._is_known_to_volumes(claim) for claim in claims
        )

    def rejections(self, demand: Demand, claims: Sequence[Claim]) -> list[Rejection]:
        """Return each claim's own summary first, so that none is cut off by the volumes of another; nothing twice."""
        failures = [(claim, self._failures_of(demand, claim)) for claim in claims]
        volumes: dict[Rejection, None] = {}
        for claim, failed in failures:
            volumes |= dict.fromkeys(self._rejection(claim, volume, reason) for reason, volume in failed.nearest)
        summaries = [_summary(claim, failed.counts) for claim, failed in failures]
        return _merged(summaries) + sorted(volumes, key=lambda rejection: _place(rejection.reason))

    def _failures_of(self, demand: Demand, claim: Claim) -> _Failures:
        """Return how the volumes of the claim's class fail it; claims that no volume names share it by their shape."""
        if self._is_known_to_volumes(claim):
            return self._fail(claim)
        shape = demand.shape_of(claim)
        if shape not in self._failures:
            self._failures[shape] = self._fail(claim)
        return self._failures[shape]

    def _is_known_to_volumes(self, claim: Claim) -> bool:
        """Whether some volume treats this claim differently from one that differs in name only."""
        snapshot = self._view.snapshot
        return (
            claim.key in snapshot.volumes_by_claim
            or claim.key in snapshot.volumes_reserved_for
            or any(self._view.ledger.of_claim(claim.key))
        )

    def _fail(self, claim: Claim) -> _Failures:
        """In a large cluster only Available volumes are evaluated, and of those too small only the largest."""
        if len(self._view.snapshot.volumes) > _MAX_VOLUMES:
            volumes, smaller = self._free_of_class(claim)
            return _Failures.of(self._failed(claim, volumes), smaller)
        of_class = self._of_class(class_of(claim))
        if not self._is_known_to_volumes(claim):
            return _Failures.of(self._failed(claim, of_class.unclaimed)).with_more(of_class.claimed)
        snapshot = self._view.snapshot
        return _Failures.of(
            self._failed(claim, [volume for volume in snapshot.volumes.values() if class_of(volume) == class_of(claim)])
        )

    def _failed(self, claim: Claim, volumes: Sequence[Volume]) -> list[Failed]:
        self.looks += len(volumes)
        pairs = ((self._first_failure(claim, volume), volume) for volume in volumes)
        return [(reason, volume) for reason, volume in pairs if reason is not None]

    def _of_class(self, name: str) -> _OfClass:
        """Return the volumes of a class, computed once for all classes and claims."""
        if self._classes is None:
            by_class: dict[str, tuple[list[Volume], list[Failed]]] = {}
            for volume in self._view.snapshot.volumes.values():
                unclaimed, claimed = by_class.setdefault(class_of(volume), ([], []))
                if volume.claim is None:
                    unclaimed.append(volume)
                else:
                    claimed.append((self._claimed(volume), volume))
            self._classes = {
                name: _OfClass(unclaimed, _Failures.of(claimed)) for name, (unclaimed, claimed) in by_class.items()
            }
        return self._classes.get(name) or _OfClass((), _Failures.of(()))

    def _free_of_class(self, claim: Claim) -> tuple[list[Volume], int]:
        """Return the Available volumes of the class that are large enough or nearly so, and the number of the
        others.
        """
        nearest: list[Volume] = []
        smaller = 0
        for pool, shelf in self._view.index.shelves.items():
            if pool.storage_class == class_of(claim):
                for group in shelf.values():
                    volumes = [volume for _, _, volume in group.everywhere.at_least(0)]
                    large = bisect_left(volumes, claim.request, key=lambda volume: volume.capacity)
                    nearly = max(large - _NEAREST, 0)
                    nearest += volumes[nearly : large + _MAX_VOLUMES]
                    smaller += nearly
        return nearest, smaller

    def _first_failure(self, claim: Claim, volume: Volume) -> Reason | None:
        reason = scheduler_rejection(claim, volume)
        if reason is Reason.CLAIMED_BY_OTHER:
            return self._claimed(volume)
        if reason is None:
            own = reject_use(self._view, volume, self._now, claim)
            reason = None if own is None else own.reason
        return reason

    def _claimed(self, volume: Volume) -> Reason:
        """The placeholder claim of a quarantine is ours: the reason for it is more informative."""
        in_ours = in_quarantine(volume, self._view.settings.annotations)
        return Reason.QUARANTINED if in_ours else Reason.CLAIMED_BY_OTHER

    def _rejection(self, claim: Claim, volume: Volume, reason: Reason) -> Rejection:
        own = reject_use(self._view, volume, self._now, claim)
        if own is not None and own.reason is reason:
            return own
        return RejectionEvidence(claim).rejection(volume, reason)


def _nearness(failed: Failed) -> tuple[int, int, str]:
    reason, volume = failed
    return _place(reason), -volume.capacity, volume.name


def _summary(claim: Claim, counts: Counter[Reason]) -> Rejection:
    size, modes = quantity_text(claim.request), modes_text(claim.access_modes)
    wanted = f"{size}, {modes}, {claim.volume_mode}, class {class_of(claim) or '(none)'}"
    if claim.selector is not None:
        wanted += f", labels {selector_text(claim.selector)}"
    total = sum(counts.values())
    volumes = f"{total} volume{'' if total == 1 else 's'} of the class"
    offered = f"{volumes}: {reasons_text(counts)}" if total else "no Available volume of the class"
    return Rejection(Reason.NO_VOLUME_FITS, claim.key, wanted, offered)


def _merged(summaries: Iterable[Rejection]) -> list[Rejection]:
    """Merge what holds for several claims."""
    subjects: dict[tuple[str, str], list[str]] = {}
    for summary in summaries:
        subjects.setdefault((summary.wanted, summary.offered), []).append(summary.subject)
    return [
        Rejection(Reason.NO_VOLUME_FITS, ", ".join(claims), wanted, offered)
        for (wanted, offered), claims in subjects.items()
    ]


def _place(reason: Reason) -> int:
    return _TELLING.get(reason, len(_TELLING))
