"""Mode complete: finishes the bind with the PV controller's own writes, in its order, each conditional.

After each of the four the state is one that kube-scheduler or the PV controller leaves behind too, so after a crash
anywhere the PV controller finishes. It runs concurrently and writes the same values: an object that changed meanwhile
is read again; if it has the wanted content, another writer did that step; otherwise the volume is lost.

The claim is read before its volume is committed (binder.writers.preconditions) and checked once more before a phase is
set to Bound; that very version is the one that then gets the volume's name. A claim that has another volume by then
ends the attempt, and everything that the attempt wrote is rolled back.

The second check is a read if a scheduler may choose for the claim; a pod reported as unschedulable is retried. While
all pods of the claim carry a scheduling gate the watch is enough, if it still shows the very version that was read when
the turn began. Only the PV controller, for a volume that a user committed, or a person can have given that claim
another volume unseen; then setting the name is rejected, because that write is conditional on the version. This
rejection, and the rollback, keep a claim from having two volumes; the second check makes rollbacks rarer. The first
read is always needed: nothing rejects a claimRef to a deleted claim, and the PV controller makes a volume with such a
claimRef Released, to be released by hand. Source: bind() in kubernetes/kubernetes
pkg/controller/volume/persistentvolume/pv_controller.go.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from binder.matching.matching import controller_rejection, is_mine
from binder.model.decision import Applied, Outcome, Outdated, Placement, Reserve
from binder.planning.commitment import all_gated
from binder.reporting.metrics import ConflictKind, ReservationMetrics
from binder.reservation.contract import Annotations
from binder.reservation.release import names
from binder.reservation.writes import bind_claim, bind_volume, claim_status_bound, volume_phase_bound
from binder.writers.attempt import EndedAttempt, LostPlacement, same_offer, side_by_side, what_happened
from binder.writers.object_client import FASTER, TRIES, LiveVolume, ObjectClient
from binder.writers.rollback import Held
from binder.writers.write_checks import WriteChecks
from kube.client.api import Check, nothing
from kube.clock import Now
from kube.errors import Unavailable
from kube.objects.api_resource import CLAIMS, VOLUMES, Resource
from kube.objects.model import Claim, Pod, Volume


@dataclass(frozen=True, slots=True)
class _At:
    """A pod, and the node for which its volumes were chosen, if that is known."""

    pod: Pod
    node: str = ""


@dataclass(frozen=True, slots=True)
class Completer:
    """Binds volumes to claims. Nothing of ours remains on the objects: the claimRef with its uid is the reservation."""

    client: ObjectClient
    checks: WriteChecks
    clock: Now
    metrics: ReservationMetrics
    annotations: Annotations

    async def complete(self, decision: Reserve, written: list[Held], check: Check) -> list[Volume]:
        """Bind all claims of the pod, recording in `written` what has to be rolled back if this raises.

        `check` is repeated right before each volume is committed.

        First every volume is committed, all or none; then the binds, which are independent, are finished concurrently.
        A loss after that point rolls back only what is not bound yet. Raises EndedAttempt, KubeError if the API server
        fails, LeadershipLost.
        """
        now = self.clock.now()
        committed = [await self._commit(placement, now, written, check) for placement in decision.placements]
        claims = await side_by_side(self._second_look, decision.placements)
        steps = zip(decision.placements, claims, committed, strict=True)
        at = _At(decision.pod, decision.node)
        return await side_by_side(lambda step: self._finish(at, Placement(step[1], step[0].volume), step[2]), steps)

    async def finish(self, pod: Pod, placements: Sequence[Placement]) -> Outcome:
        """Finish binds that were begun, concurrently. Nothing is rolled back: it was not ours. Raises as `complete`."""
        try:
            bound = await side_by_side(lambda begun: self._resume(_At(pod), begun), placements)
        except EndedAttempt as ending:
            # Nothing was reserved, so nothing is lost: the present state is decided again.
            return Outdated(str(ending))
        return Applied(tuple(bound))

    async def _resume(self, at: _At, begun: Placement) -> Volume:
        """Continue from where the bind is by now: while the pod waited for its turn others may have continued it."""
        known = self.client.snapshot().claims.get(begun.claim.key)
        if known is not None and _is_bound_to(known, begun):
            return begun.volume
        claim = await self._still_open(begun)
        placement = Placement(claim, begun.volume)
        return (
            begun.volume
            if _is_bound_to(claim, begun)
            else await self._finish(at, placement, await self._named(placement))
        )

    async def _named(self, placement: Placement) -> LiveVolume:
        """First write of a bind that was begun: the uid, if the volume's claimRef lacks it.

        A volume whose phase is still to be written need not be read for that: the write is conditional.
        """
        claim, live = placement.claim, self._as_known(placement.volume.name)
        for _ in range(TRIES):
            if live is None or live.record.phase == "Bound":
                live = await self.checks.reread(placement, placement.volume.name)
            if not is_mine(claim, live.record) or controller_rejection(claim, live.record, delayed=True) is not None:
                raise self._lost(placement, VOLUMES, f"volume {live.record.name} {what_happened(live.record)}")
            if names(live.record, claim):
                return live
            try:
                body = bind_volume(live.record, claim, self.annotations)
                usable = self.checks.usable(placement, live.record, nothing)
                return await self.client.patch_volume(live.record, body, check=usable)
            except FASTER:
                self.metrics.conflicted(VOLUMES.plural, ConflictKind.RESOURCE_VERSION)
                live = None
        raise LostPlacement(placement, f"volume {placement.volume.name} kept changing")

    def _as_known(self, name: str) -> LiveVolume | None:
        """Return the volume as the watch shows it, without its JSON, which the response to the next write brings."""
        volume = self.client.snapshot().volumes.get(name)
        return None if volume is None else LiveVolume(volume, msgspec.Raw(b""))

    async def _commit(self, placement: Placement, now: datetime, ours: list[Held], check: Check) -> LiveVolume:
        """First write: the volume's claimRef. What another writer wrote there must not be rolled back.

        A write whose response was lost may have been executed, or may be yet: the claimRef then counts as ours.
        """
        claim, volume, in_doubt = placement.claim, placement.volume, False
        for _ in range(TRIES):
            body, usable = bind_volume(volume, claim, self.annotations), self.checks.usable(placement, volume, check)
            try:
                written = await self.client.patch_volume(volume, body, check=usable)
            except (*FASTER, Unavailable) as failure:
                if isinstance(failure, Unavailable) and not in_doubt:
                    in_doubt = True
                    ours.append((claim, volume.name))
                live = await self.checks.reread(placement, volume.name)
                if names(live.record, claim):
                    return live
                if not same_offer(volume, live.record, claim, self.annotations, now):
                    raise self._lost(placement, VOLUMES, f"volume {volume.name} {what_happened(live.record)}") from None
                volume = live.record
                continue
            if not in_doubt:
                ours.append((claim, volume.name))
            if not names(written.record, claim):
                raise LostPlacement(placement, "the API server's response does not show our claimRef")
            return written
        raise LostPlacement(placement, f"volume {volume.name} kept changing")

    def _check_unserved(self, placement: Placement) -> None:
        """While this pod waited for its turn, kube-scheduler may have given the claim another volume."""
        snapshot = self.client.snapshot()
        for name in snapshot.volumes_by_claim.get(placement.claim.key, ()):
            if name != placement.volume.name and names(snapshot.volumes[name], placement.claim):
                raise self._lost(placement, CLAIMS, f"claim {placement.claim.key} was bound to volume {name}")

    async def _second_look(self, placement: Placement) -> Claim:
        """Return the claim as it was read when the turn began, or read it again (see above). Raises LostPlacement."""
        snapshot, read = self.client.snapshot(), placement.claim
        if snapshot.claims.get(read.key) != read or not all_gated(read.key, snapshot):
            return await self._still_open(placement)
        self._check_unserved(placement)
        return read

    async def _still_open(self, placement: Placement) -> Claim:
        """Read the claim; LostPlacement if it is gone or has another volume, or another volume names it."""
        claim = await self.client.claim(placement.claim.key)
        if claim is None or claim.uid != placement.claim.uid or claim.deleting:
            raise LostPlacement(placement, f"claim {placement.claim.key} was deleted")
        self._require_ours(placement, claim)
        self._check_unserved(placement)
        return claim

    def _require_ours(self, placement: Placement, claim: Claim) -> None:
        if claim.volume_name not in {"", placement.volume.name}:
            raise self._lost(placement, CLAIMS, f"claim {claim.key} was bound to volume {claim.volume_name}")

    async def _finish(self, at: _At, placement: Placement, live: LiveVolume) -> Volume:
        """Second to fourth write: the volume's phase, the claim, the claim's status."""
        self.checks.require_reach(at.pod, at.node)
        live = await self._mark_bound(placement, live)
        if not placement.claim.volume_name:
            self.checks.require_healthy(placement, live.record)
            self.checks.require_reach(at.pod, at.node)
        claim = await self._claim_step(
            placement,
            placement.claim,
            done=lambda seen: seen.volume_name == live.record.name and seen.bind_completed,
            write=lambda seen: self.client.patch_claim(seen, bind_claim(seen, live.record.name, self.annotations)),
        )
        await self._claim_step(
            placement,
            claim,
            done=lambda seen: seen.phase == "Bound",
            write=lambda seen: self.client.patch_claim(seen, claim_status_bound(live.raw), "status"),
        )
        self.metrics.reserved(placement.claim.storage_class or "")
        return live.record

    async def _mark_bound(self, placement: Placement, live: LiveVolume) -> LiveVolume:
        known = self.client.snapshot().volumes.get(live.record.name)
        if known is not None and known.resource_version > live.record.resource_version:
            live = await self.checks.reread(placement, known.name)
        for _ in range(TRIES):
            if self._is_bound(placement, live.record):
                return live
            usable = self.checks.usable(placement, live.record, nothing)
            try:
                live = await self.client.patch_volume(live.record, volume_phase_bound(), "status", usable)
            except FASTER:
                self.metrics.conflicted(VOLUMES.plural, ConflictKind.RESOURCE_VERSION)
                live = await self.checks.reread(placement, live.record.name)
        if self._is_bound(placement, live.record):
            return live
        raise LostPlacement(placement, f"volume {live.record.name} kept changing")

    def _is_bound(self, placement: Placement, volume: Volume) -> bool:
        """Whether the volume's phase is written already. Raises LostPlacement when it names another claim."""
        if not names(volume, placement.claim):
            raise self._lost(placement, VOLUMES, f"volume {volume.name} {what_happened(volume)}")
        return volume.phase == "Bound"

    async def _claim_step(
        self,
        placement: Placement,
        claim: Claim,
        *,
        done: Callable[[Claim], bool],
        write: Callable[[Claim], Awaitable[Claim]],
    ) -> Claim:
        """Do one write of the claim unless it is done already, reading the claim again whenever it changed."""
        known = self.client.snapshot().claims.get(claim.key)
        if known is not None and known.uid == claim.uid and known.resource_version > claim.resource_version:
            claim = known
        for _ in range(TRIES):
            self._require_ours(placement, claim)
            if done(claim):
                return claim
            try:
                return await write(claim)
            except FASTER:
                self.metrics.conflicted(CLAIMS.plural, ConflictKind.RESOURCE_VERSION)
                fresh = await self.client.claim(claim.key)
                if fresh is None or fresh.uid != claim.uid:
                    raise LostPlacement(placement, f"claim {claim.key} was deleted") from None
                claim = fresh
        raise LostPlacement(placement, f"claim {claim.key} kept changing")

    def _lost(self, placement: Placement, resource: Resource, why: str) -> LostPlacement:
        self.metrics.conflicted(resource.plural, ConflictKind.ALREADY_CLAIMED)
        return LostPlacement(placement, why)


def _is_bound_to(claim: Claim, begun: Placement) -> bool:
    named = (claim.uid, claim.volume_name) == (begun.claim.uid, begun.volume.name)
    return named and claim.bind_completed and claim.phase == "Bound"
