"""Executes a decision: one worker per claim, with a limited number of pods at a time.

Reserving in modes annotate and prebind has an order: first what the claims no longer need is released, so that a claim
never holds two volumes; then every volume is written and confirmed from the API server's response; then every claim,
unless its volume's side says it all (`names_uid` in binder.reservation.writes). A crash in between leaves volumes with
a reservation: the next pass finishes it, or it is released when it expires. Losing one volume rolls back those already
written, last one first. Mode complete is `binder.writers.complete`.

In a burst, claims wait until the volumes of all pods have their turn: what is held protects a pod, and the PV
controller spends none of its few requests on an Event about a claim without a volume. Unless the burst takes so long
that the reservations might expire meanwhile: then what was begun for a pod is finished before the next one.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from msgspec import structs

from binder.model.decision import Applied, Finish, Mode, Outcome, Placement, Reserve
from binder.reporting.metrics import ConflictKind, ReservationMetrics
from binder.reservation.contract import ClaimReservation, Holder, VolumeReservation
from binder.reservation.release import doubles, former_reservations, names, reference_is_ours
from binder.reservation.writes import Patch, commit_volume, names_uid, reserve_claim, reserve_volume
from binder.writers.attempt import (
    ActSettings,
    EndedAttempt,
    LostPlacement,
    same_offer,
    side_by_side,
    what_happened,
)
from binder.writers.complete import Completer
from binder.writers.keyed_locks import KeyedLocks
from binder.writers.object_client import FASTER, TRIES, ObjectClient
from binder.writers.preconditions import Preconditions
from binder.writers.rollback import Held, Rollback
from binder.writers.unbound_proofs import UnboundProofs
from binder.writers.write_checks import WriteChecks
from kube.client.api import Check
from kube.clock import Now
from kube.errors import KubeError, Unavailable
from kube.objects.api_resource import CLAIMS, VOLUMES
from kube.objects.model import Claim, Volume

WAITS_OF_A_RESERVATION: Final = 4
"""A pod that has waited for a larger share of the time that a reservation lasts does not wait for a second turn. All
pods wait about equally long, so none loses its volumes by waiting again and again.
"""


@dataclass(frozen=True, slots=True)
class Applier:
    """Writes reservations for one holder of the Lease."""

    client: ObjectClient
    checks: WriteChecks
    rollback: Rollback
    proofs: UnboundProofs
    clock: Now
    metrics: ReservationMetrics
    settings: ActSettings
    holder: Holder

    async def reserve_volumes(self, decision: Reserve, held: list[Held], check: Check) -> list[Volume]:
        """Reserve all volumes of the pod, recording in `held` what has to be rolled back if anything raises.

        `check` is repeated right before each write. Raises EndedAttempt, KubeError if the API server fails,
        LeadershipLost.
        """
        now = self.clock.now()
        for placement in decision.placements:
            await self._give_up_former(placement)
        volumes: list[Volume] = []
        for placement in decision.placements:
            # Before the write: its response may be lost. Only what is reserved for the claim is rolled back.
            held.append((placement.claim, placement.volume.name))
            volumes.append(await self._hold(placement, decision, now, check))
        return volumes

    async def reserve_claims(self, decision: Reserve, volumes: Sequence[Volume]) -> None:
        """Write the reservations of these volumes, which `reserve_volumes` returned, to their claims. Raises as it."""
        now = self.clock.now()
        for placement, volume in zip(decision.placements, volumes, strict=True):
            if not _is_left_untouched(placement, decision.mode):
                self._require_held(placement, volume, decision.mode, now)
                await self._reserve_claim(placement, volume, decision, now)
            await self._keep_one(placement)

    async def _give_up_former(self, placement: Placement) -> None:
        """Release the claim's former reservations: unhealthy or inaccessible volumes, or ones that another claim
        took.
        """
        for _ in range(TRIES):
            former = former_reservations(
                placement.claim, placement.volume, self.client.snapshot(), self.settings.annotations
            )
            if all([await self.rollback.carry_out(release) for release in former]):
                return
        raise LostPlacement(placement, f"an earlier reservation of claim {placement.claim.key} kept changing")

    async def _hold(self, placement: Placement, decision: Reserve, now: datetime, check: Check) -> Volume:
        """Write one volume's side and confirm it; if a watch shows it as held already, it is read.

        So it is after a write whose response was lost, because that may have been executed.
        """
        claim, volume, mode, read = placement.claim, placement.volume, decision.mode, False
        for _ in range(TRIES):
            self.checks.require_healthy(placement, volume)
            if self._is_held(volume, claim, mode, now):
                if read:
                    return volume
                volume, read = await self._same_offer(placement, volume, mode, now), True
                continue
            try:
                body, usable = self._body(placement, decision, now), self.checks.usable(placement, volume, check)
                written = (await self.client.patch_volume(volume, body, check=usable)).record
            except (*FASTER, Unavailable):
                volume, read = await self._same_offer(placement, volume, mode, now), True
                continue
            if not self._is_held(written, claim, mode, now):
                raise LostPlacement(placement, "the API server's answer does not show our reservation")
            self.metrics.reserved(claim.storage_class or "")
            self.proofs.committed(written)
            return written
        raise LostPlacement(placement, f"volume {volume.name} kept changing")

    def _body(self, placement: Placement, decision: Reserve, now: datetime) -> Patch:
        claim = placement.claim
        reservation = VolumeReservation(
            claim.key, claim.uid, now, now + self.settings.ttl, self.holder, pod_uid=decision.pod.uid
        )
        if decision.mode is Mode.ANNOTATE:
            return reserve_volume(reservation, self.settings.annotations)
        if _is_left_untouched(placement, decision.mode):
            reservation = replace(reservation, zone=decision.zone, nodes=decision.local_nodes)
        annotations = self.settings.annotations
        ahead = {} if decision.new_node is None else annotations.ahead_of_node(decision.pod, now)
        return commit_volume(reservation, placement.volume, claim, annotations, ahead)

    def _is_held(self, volume: Volume, claim: Claim, mode: Mode, now: datetime) -> bool:
        reservation = self.settings.annotations.reservation_of(volume)
        if reservation is None or not reservation.holds(now, claim):
            return False
        return mode is Mode.ANNOTATE or reference_is_ours(volume, claim.key, claim.uid)

    def _require_held(self, placement: Placement, volume: Volume, mode: Mode, now: datetime) -> None:
        """Raise LostPlacement if the volume was released, or taken, while the claim waited for its turn."""
        known = self.client.snapshot().volumes.get(volume.name)
        if known is None or not (self._is_held(known, placement.claim, mode, now) or names(known, placement.claim)):
            raise LostPlacement(placement, f"volume {volume.name} was released before its claim was written")

    async def _same_offer(self, placement: Placement, before: Volume, mode: Mode, now: datetime) -> Volume:
        """Read a volume that changed meanwhile; return it if it is still the one that was chosen, or is committed."""
        fresh = (await self.checks.reread(placement, before.name)).record
        if fresh.resource_version == before.resource_version:
            return fresh
        committed = mode is not Mode.ANNOTATE and self._is_held(fresh, placement.claim, mode, now)
        offered = structs.replace(fresh, claim=before.claim) if committed else fresh
        if not same_offer(before, offered, placement.claim, self.settings.annotations, now):
            taken = fresh.claim is not None
            kind = ConflictKind.ALREADY_CLAIMED if taken else ConflictKind.RESOURCE_VERSION
            self.metrics.conflicted(VOLUMES.plural, kind)
            raise LostPlacement(placement, f"volume {before.name} {what_happened(fresh)}")
        self.metrics.conflicted(VOLUMES.plural, ConflictKind.RESOURCE_VERSION)
        return fresh

    async def _reserve_claim(self, placement: Placement, volume: Volume, decision: Reserve, now: datetime) -> None:
        """Write the claim's side. In mode prebind this also makes the PV controller process the claim at once."""
        claim: Claim | None = placement.claim
        kept = self.settings.annotations.reservation_of(volume)
        made, ends = (kept.bound_at, kept.expires_at) if kept else (now, now + self.settings.ttl)
        reservation = ClaimReservation(volume.name, made, ends, decision.zone, decision.local_nodes)
        for _ in range(TRIES):
            if claim is None or claim.uid != placement.claim.uid or claim.deleting:
                raise LostPlacement(placement, f"claim {placement.claim.key} was deleted")
            if (
                claim.volume_name == volume.name
                or self._has_reservation(claim, volume, now)
                or self._is_being_bound(claim, volume)
            ):
                return
            if claim.volume_name:
                raise LostPlacement(placement, f"claim {claim.key} was bound to volume {claim.volume_name}")
            try:
                await self.client.patch_claim(claim, reserve_claim(reservation, self.settings.annotations))
            except FASTER:
                self.metrics.conflicted(CLAIMS.plural, ConflictKind.RESOURCE_VERSION)
                claim = await self.client.claim(claim.key)
                continue
            return
        raise LostPlacement(placement, f"claim {placement.claim.key} kept changing")

    def _is_being_bound(self, claim: Claim, volume: Volume) -> bool:
        """Whether the PV controller is working on it already: then nothing needs to be written, and a write of ours
        would disturb it.
        """
        known = self.client.snapshot().volumes.get(volume.name)
        return known is not None and names(known, claim)

    def _has_reservation(self, claim: Claim, volume: Volume, now: datetime) -> bool:
        reservation = self.settings.annotations.reservation_of_claim(claim)
        return reservation is not None and reservation.volume == volume.name and reservation.in_force(now)

    async def _keep_one(self, placement: Placement) -> None:
        """After the writes: a claim that turns out to hold two volumes, because of another writer, keeps the older."""
        surplus = doubles(placement.claim, self.client.snapshot(), self.settings.annotations)
        for release in surplus:
            self.metrics.conflicted(VOLUMES.plural, ConflictKind.DOUBLE_RESERVED)
            await self.rollback.carry_out(release)
        if any(release.volume is not None and release.volume.name == placement.volume.name for release in surplus):
            raise LostPlacement(placement, f"claim {placement.claim.key} already holds another volume")


def _is_left_untouched(placement: Placement, mode: Mode) -> bool:
    """Whether the volume's side says it all: a write would wake the PV controller before it knows the volume."""
    return mode is Mode.PREBIND and names_uid(placement.volume)


@dataclass(frozen=True, slots=True)
class Actor:
    """Writes. `turns` bound how many pods are written concurrently."""

    preconditions: Preconditions
    applier: Applier
    completer: Completer
    rollback: Rollback
    locks: KeyedLocks
    turns: asyncio.Semaphore

    async def act(self, decision: Reserve | Finish) -> Outcome:
        """Reserve all volumes of the pod, bind them in mode complete, or finish binds that were begun for it.

        Raises KubeError if the API server fails, LeadershipLost.
        """
        try:
            if isinstance(decision, Finish):
                async with self._turn(decision, []):
                    await self.preconditions.probe(decision)
                    return await self.completer.finish(decision.pod, decision.placements)
            return await self._reserve(decision)
        except EndedAttempt as ending:
            return ending.outcome

    async def read(self, volumes: Iterable[str]) -> None:
        """Read these volumes into the store, as they are on the API server. Raises KubeError if it fails."""
        await side_by_side(self.applier.client.volume, volumes)

    async def _reserve(self, decision: Reserve) -> Applied:
        """Write for all claims of the pod, or roll back what was written."""
        held: list[Held] = []
        began = self.applier.clock.now()
        async with self._turn(decision, held):
            in_time = self._is_in_time(began)
            decision = await self.preconditions.refreshed(decision)
            check = partial(self.preconditions.require_standing, decision)
            if decision.mode is Mode.COMPLETE:
                return Applied(tuple(await self.completer.complete(decision, held, check)))
            volumes = await self.applier.reserve_volumes(decision, held, check)
            if not in_time or all(_is_left_untouched(placement, decision.mode) for placement in decision.placements):
                await self.applier.reserve_claims(decision, volumes)
                return Applied(tuple(volumes))
        async with self._turn(decision, held):
            await self.applier.reserve_claims(decision, volumes)
        return Applied(tuple(volumes))

    def _is_in_time(self, began: datetime) -> bool:
        """Whether so little time has passed that another wait is far shorter than a reservation lasts."""
        return self.applier.clock.now() - began < self.applier.settings.ttl / WAITS_OF_A_RESERVATION

    @asynccontextmanager
    async def _turn(self, decision: Reserve | Finish, held: Sequence[Held]) -> AsyncIterator[None]:
        """Hold a turn and the locks of the claims; if the attempt ends or fails inside, what is held is rolled back.

        No lock is held while waiting for a turn: the loops that release volumes need the locks, and no turn.
        """
        async with self.turns, self.locks.held([placement.claim.key for placement in decision.placements]):
            try:
                yield
            except (EndedAttempt, KubeError):
                committed = isinstance(decision, Reserve) and decision.mode is Mode.COMPLETE
                await self.rollback.roll_back(held, committed=committed)
                raise
