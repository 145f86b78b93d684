"""Mode complete: finishes the bind with the PV controller's own writes, in its order, each conditional.

After each of the four the state is one that kube-scheduler or the PV controller leaves behind too, so after a crash
anywhere the PV controller finishes. It races with us and writes the same values: an object that changed under us is
read again; if it says what we wanted, somebody else did that step; if it says otherwise, the volume is lost.
Source: bind() in kubernetes/kubernetes pkg/controller/volume/persistentvolume/pv_controller.go.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, TypeVar

from binder.attempt import TRIES, ActSettings, Applied, Lost, LostPlacement, same_offer, what_happened
from binder.decision import Placement, Reserve
from binder.live import FASTER, LiveObjects, LiveVolume
from binder.matching import controller_refusal, is_mine
from binder.observe import ConflictKind, ReservationMetrics
from binder.undo import Now, Undo
from binder.writes import bind_claim, bind_volume, claim_status_bound, volume_phase_bound
from kube.errors import KubeError
from kube.model import BIND_COMPLETED, Claim, Volume, value_of
from kube.resource import CLAIMS, VOLUMES, Resource

S = TypeVar("S")
T = TypeVar("T")

BINDS_AT_ONCE: Final = 4
"""Claims of one pod whose binds are finished side by side."""


class Completer:
    """Binds volumes to claims. Nothing of ours remains on the objects: the claimRef with its uid is the reservation."""

    def __init__(
        self, live: LiveObjects, undo: Undo, clock: Now, metrics: ReservationMetrics, settings: ActSettings
    ) -> None:
        self._live = live
        self._undo = undo
        self._clock = clock
        self._metrics = metrics
        self._settings = settings

    async def complete(self, decision: Reserve) -> Applied | Lost:
        """Bind all claims of the pod. Raises KubeError when the API server fails us, LeadershipLost.

        First every volume is committed, all or none; then the binds, which do not depend on each other, are finished
        side by side. A loss after that point takes back only what is not bound yet.
        """
        now = self._clock.now()
        committed: list[LiveVolume] = []
        try:
            for placement in decision.placements:
                committed.append(await self._commit(placement, now))
            pairs = zip(decision.placements, committed, strict=True)
            bound = await _all(lambda pair: self._finish(*pair), pairs)
        except LostPlacement as ending:
            await self._roll_back(decision, committed)
            return ending.lost
        except KubeError:
            await self._roll_back(decision, committed)
            raise
        return Applied(tuple(bound))

    async def finish(self, placements: Sequence[Placement]) -> Applied | Lost:
        """Finish binds that were begun, side by side. Nothing is taken back: it was not ours. Raises as `complete`."""
        try:
            bound = await _all(self._resume, placements)
        except LostPlacement as ending:
            return ending.lost
        return Applied(tuple(bound))

    async def _resume(self, begun: Placement) -> Volume:
        """Go on from where the bind is by now: while the pod waited for its turn others may have gone on."""
        claim = self._live.snapshot().claims.get(begun.claim.key)
        if claim is None or claim.uid != begun.claim.uid:
            raise LostPlacement(begun, f"claim {begun.claim.key} was deleted")
        if claim.volume_name == begun.volume.name and _completed(claim) and claim.phase == "Bound":
            return begun.volume
        placement = Placement(claim, begun.volume)
        return await self._finish(placement, await self._named(placement))

    async def _named(self, placement: Placement) -> LiveVolume:
        """First write of a bind that was begun: the uid, if the volume's claimRef lacks it."""
        claim = placement.claim
        for _ in range(TRIES):
            live = await self._reread(placement, placement.volume.name)
            if not is_mine(claim, live.record) or controller_refusal(claim, live.record, delayed=True) is not None:
                raise self._lost(placement, VOLUMES, f"volume {live.record.name} {what_happened(live.record)}")
            if _refers_to(live.record, claim):
                return live
            try:
                body = bind_volume(live.record, claim, self._settings.prefix)
                return await self._live.patch_volume(live.record, body)
            except FASTER:
                self._metrics.conflicted(VOLUMES.plural, ConflictKind.RESOURCE_VERSION)
        raise LostPlacement(placement, f"volume {placement.volume.name} kept changing")

    async def _roll_back(self, decision: Reserve, committed: list[LiveVolume]) -> None:
        written = zip(decision.placements, committed, strict=False)
        await self._undo.roll_back([(placement.claim, live.record.name) for placement, live in written])

    async def _commit(self, placement: Placement, now: datetime) -> LiveVolume:
        """First write: the volume's claimRef."""
        claim, volume = placement.claim, placement.volume
        self._check_unserved(placement)
        for _ in range(TRIES):
            try:
                written = await self._live.patch_volume(volume, bind_volume(volume, claim, self._settings.prefix))
            except FASTER:
                live = await self._reread(placement, volume.name)
                if _refers_to(live.record, claim):
                    return live
                if not same_offer(volume, live.record, claim, self._settings.prefix, now):
                    raise self._lost(placement, VOLUMES, f"volume {volume.name} {what_happened(live.record)}") from None
                volume = live.record
                continue
            if not _refers_to(written.record, claim):
                raise LostPlacement(placement, "the API server's answer does not show our claimRef")
            return written
        raise LostPlacement(placement, f"volume {volume.name} kept changing")

    def _check_unserved(self, placement: Placement) -> None:
        """While this pod waited for its turn, kube-scheduler may have given the claim another volume."""
        snapshot = self._live.snapshot()
        for name in snapshot.volumes_by_claim.get(placement.claim.key, ()):
            if name != placement.volume.name and _refers_to(snapshot.volumes[name], placement.claim):
                raise self._lost(placement, CLAIMS, f"claim {placement.claim.key} was given volume {name}")

    async def _finish(self, placement: Placement, live: LiveVolume) -> Volume:
        """Second to fourth write: the volume's phase, the claim, the claim's status."""
        live = await self._mark_bound(placement, live)
        claim = await self._claim_step(
            placement,
            placement.claim,
            done=lambda seen: seen.volume_name == live.record.name and _completed(seen),
            write=lambda seen: self._live.patch_claim(seen, bind_claim(seen, live.record.name, self._settings.prefix)),
            volume_name=live.record.name,
        )
        await self._claim_step(
            placement,
            claim,
            done=lambda seen: seen.phase == "Bound",
            write=lambda seen: self._live.patch_claim(seen, claim_status_bound(live.raw), "status"),
            volume_name=live.record.name,
        )
        self._metrics.reserved(placement.claim.storage_class or "")
        return live.record

    async def _mark_bound(self, placement: Placement, live: LiveVolume) -> LiveVolume:
        for _ in range(TRIES):
            if not _refers_to(live.record, placement.claim):
                raise self._lost(placement, VOLUMES, f"volume {live.record.name} {what_happened(live.record)}")
            if live.record.phase == "Bound":
                return live
            try:
                live = await self._live.patch_volume(live.record, volume_phase_bound(), "status")
            except FASTER:
                self._metrics.conflicted(VOLUMES.plural, ConflictKind.RESOURCE_VERSION)
                live = await self._reread(placement, live.record.name)
        return live

    async def _claim_step(
        self,
        placement: Placement,
        claim: Claim,
        *,
        done: Callable[[Claim], bool],
        write: Callable[[Claim], Awaitable[Claim]],
        volume_name: str,
    ) -> Claim:
        """Do one write of the claim unless it is done already, reading the claim again whenever it changed."""
        for _ in range(TRIES):
            if claim.volume_name not in {"", volume_name}:
                raise self._lost(placement, CLAIMS, f"claim {claim.key} was bound to volume {claim.volume_name}")
            if done(claim):
                return claim
            try:
                return await write(claim)
            except FASTER:
                self._metrics.conflicted(CLAIMS.plural, ConflictKind.RESOURCE_VERSION)
                fresh = await self._live.claim(claim.key)
                if fresh is None or fresh.uid != claim.uid:
                    raise LostPlacement(placement, f"claim {claim.key} was deleted") from None
                claim = fresh
        raise LostPlacement(placement, f"claim {claim.key} kept changing")

    async def _reread(self, placement: Placement, name: str) -> LiveVolume:
        live = await self._live.volume(name)
        if live is None:
            raise LostPlacement(placement, f"volume {name} was deleted")
        return live

    def _lost(self, placement: Placement, resource: Resource, why: str) -> LostPlacement:
        self._metrics.conflicted(resource.plural, ConflictKind.ALREADY_CLAIMED)
        return LostPlacement(placement, why)


def _refers_to(volume: Volume, claim: Claim) -> bool:
    reference = volume.claim
    return reference is not None and (reference.namespace, reference.name, reference.uid) == (
        claim.namespace,
        claim.name,
        claim.uid,
    )


def _completed(claim: Claim) -> bool:
    return value_of(claim.annotations, BIND_COMPLETED) is not None


async def _all(bind: Callable[[S], Awaitable[T]], begun: Iterable[S]) -> list[T]:
    """Let all finish, then raise the first failure: no bind is cut off in the middle because another one failed."""
    turns = asyncio.Semaphore(BINDS_AT_ONCE)

    async def in_turn(subject: S) -> T:
        async with turns:
            return await bind(subject)

    results = await asyncio.gather(*map(in_turn, begun), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
