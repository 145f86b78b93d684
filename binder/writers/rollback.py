"""Rolls reservations back: the claim's annotations first, then the volume, each write conditional.

The claim is read again right before a claimRef is removed, because rolling back what Kubernetes completed in the
meantime would break it, and once more after it, because no transaction spans both objects. Faster writers are left
alone: the next reconciliation of the object decides again.
"""

import logging
from collections.abc import Sequence

from binder.reporting.metrics import ConflictKind, ReservationMetrics
from binder.reservation.contract import Annotations
from binder.reservation.release import Release, may_clear, names, take_back
from binder.reservation.set_aside import end_set_aside
from binder.reservation.writes import bind_volume, release_claim, release_volume, volume_phase_available
from binder.writers.object_client import FASTER, TRIES, ObjectClient
from kube.clock import Now
from kube.errors import KubeError
from kube.objects.api_resource import CLAIMS, VOLUMES
from kube.objects.model import Claim, Volume

logger = logging.getLogger(__name__)


Held = tuple[Claim, str]
"""A claim and the name of the volume that an attempt wrote for it."""


class Rollback:
    """Carries out releases."""

    def __init__(self, client: ObjectClient, clock: Now, metrics: ReservationMetrics, annotations: Annotations) -> None:
        self._client = client
        self._clock = clock
        self._metrics = metrics
        self._annotations = annotations

    async def carry_out(self, release: Release) -> bool:
        """Release what is named; False if an object changed meanwhile and has to be processed again."""
        if release.claim is not None and not await self._release_claim(release.claim):
            return False
        if release.volume is not None and not await self._release_volume(release.volume, release):
            return False
        self._report(release)
        return True

    async def end_set_aside(self, volume: Volume) -> bool:
        """Give a volume that was set aside to all claims again; False if it changed meanwhile."""
        try:
            await self._client.patch_volume(volume, end_set_aside(volume, self._annotations))
        except FASTER:
            self._metrics.conflicted(VOLUMES.plural, ConflictKind.RESOURCE_VERSION)
            return await self._client.volume(volume.name) is None
        logger.info("Volume is not set aside any more", extra={"pv": volume.name})
        return True

    async def roll_back(self, held: Sequence[Held], *, committed: bool = False) -> None:
        """Roll back what one attempt holds, last one first. `committed`: it wrote the claimRefs.

        What cannot be rolled back now, because objects keep changing or the API server fails, expires, or is finished
        or rolled back by the PV controller.
        """
        for claim, volume in reversed(held):
            try:
                await self._roll_back_one(claim, volume, committed)
            except KubeError as error:
                logger.warning(
                    "Rollback failed; the reservation will expire",
                    extra={"pv": volume, "pvc": claim.key, "error": str(error)},
                )

    async def _roll_back_one(self, claim: Claim, volume: str, committed: bool) -> None:
        for _ in range(TRIES):
            if committed and not await self._unmark(claim, volume):
                continue
            release = take_back(volume, claim, self._client.snapshot(), self._annotations, written=committed)
            if release is None or await self.carry_out(release):
                return

    async def _unmark(self, claim: Claim, name: str) -> bool:
        """Remove the phase Bound from a volume that the claim does not name; False if it changed meanwhile.

        The phase is removed first: what is left after a crash is again what kube-scheduler leaves behind. A deleted
        claim may have had the volume before, so that one is set to Released by the PV controller, as any other.
        """
        volume = self._client.snapshot().volumes.get(name)
        if volume is None or volume.phase != "Bound" or not names(volume, claim):
            return True
        fresh = await self._client.claim(claim.key)
        if fresh is None or fresh.uid != claim.uid or fresh.volume_name == name:
            return True
        try:
            await self._client.patch_volume(volume, volume_phase_available(), "status")
        except FASTER:
            self._metrics.conflicted(VOLUMES.plural, ConflictKind.RESOURCE_VERSION)
            await self._client.volume(name)
            return False
        return True

    async def _release_claim(self, claim: Claim) -> bool:
        try:
            await self._client.patch_claim(claim, release_claim(claim, self._annotations))
        except FASTER:
            self._metrics.conflicted(CLAIMS.plural, ConflictKind.RESOURCE_VERSION)
            # The annotations of a deleted claim are gone with it.
            return await self._client.claim(claim.key) is None
        return True

    async def _release_volume(self, volume: Volume, release: Release) -> bool:
        clear_reference = release.clear_reference
        if clear_reference and volume.claim is not None:
            claim = await self._client.claim(volume.claim.key)
            clear_reference = may_clear(volume, claim, never_bound=release.never_bound)
        if not clear_reference and not self._annotations.keys_on_volume(volume):
            return True
        try:
            body = release_volume(volume, self._annotations, clear_reference=clear_reference)
            released = await self._client.patch_volume(volume, body)
        except FASTER:
            self._metrics.conflicted(VOLUMES.plural, ConflictKind.RESOURCE_VERSION)
            return await self._client.volume(volume.name) is None
        if clear_reference and volume.claim is not None:
            await self._restore_if_bound(released.record, volume.claim.key)
        return True

    async def _restore_if_bound(self, volume: Volume, claim_key: str) -> None:
        """Give the volume back to a claim that the PV controller has bound between our read of the claim and the
        removal of the claimRef. It would do so itself, but up to a resync later, when others may have the volume.
        """
        claim = await self._client.claim(claim_key)
        if claim is None or claim.volume_name != volume.name or not claim.bind_completed:
            return
        try:
            await self._client.patch_volume(volume, bind_volume(volume, claim, self._annotations))
        except FASTER:
            self._metrics.conflicted(VOLUMES.plural, ConflictKind.RESOURCE_VERSION)

    def _report(self, release: Release) -> None:
        subject = release.volume or release.claim
        # A clock that was set back must not produce negative times.
        until = release.until or self._clock.now()
        held = None if release.since is None else max(0.0, (until - release.since).total_seconds())
        self._metrics.released((subject.storage_class if subject else None) or "", release.cause, held)
        logger.info(
            "Released reservation",
            extra={
                "pv": release.volume.name if release.volume else "",
                "pvc": release.claim.key if release.claim else "",
                "cause": release.cause.value,
            },
        )
