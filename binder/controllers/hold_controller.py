"""Holds volumes for the replicas to come of StatefulSets: a pass when a set changes, and again every few seconds.

A pass judges all holds and plans all missing replicas from the present objects (binder.holds), so a crash, a missed
event and another leader's leftovers need no special case. First what ends is written, then what is held, each volume
conditional on the version that was judged; a volume that changed meanwhile is left to the next pass.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from typing import Final, Protocol

from binder.holds.ending import Adoption, HoldEnding, HoldWorld
from binder.holds.hold_pass import HeldReplica, HoldPlan, plan_holds
from binder.holds.limits import HoldLimits
from binder.model.decision import Placement
from binder.model.view import View
from binder.reporting.hold_reports import HoldAnnouncer, HoldMetrics
from binder.reservation.contract import Annotations, Holder
from binder.reservation.pins import ReplicaHold, hold_keys, may_end
from binder.reservation.writes import bind_volume, end_hold, hold_volume
from binder.writers.attempt import EndedAttempt, OutdatedDecision
from binder.writers.health_gate import HealthGate
from binder.writers.keyed_locks import KeyedLocks
from binder.writers.object_client import FASTER, ObjectClient
from binder.writers.write_checks import WriteChecks
from kube.background import Aside
from kube.clock import Clock
from kube.objects.model import Claim, Namespace, Volume
from kube.objects.stateful_set import StatefulSet
from kube.store.store import Store
from kube.workqueue import WorkQueue

PASS: Final = "pass"
"""The only key of the queue: one pass is about all sets, because they compete for the same volumes."""
PASS_SECONDS: Final = 10.0
"""Between passes while anything is held or wanted: nodes, health and free volumes change without a set."""

logger = logging.getLogger(__name__)


class Views(Protocol):
    """Where passes get their view: the planner, whose ledger has the reservations under way."""

    prepared: asyncio.Event

    def view(self) -> View: ...


class HoldController:
    """Runs the passes. One worker: the limits are counted before a write, so passes must not overlap."""

    def __init__(  # noqa: PLR0913 - what a pass and its writes need, by name
        self,
        *,
        store: Store,
        views: Views,
        gate: HealthGate,
        client: ObjectClient,
        checks: WriteChecks,
        locks: KeyedLocks,
        queue: WorkQueue[str],
        clock: Clock,
        aside: Aside,
        announcer: HoldAnnouncer,
        metrics: HoldMetrics,
        annotations: Annotations,
        limits: HoldLimits,
        holder: Holder,
    ) -> None:
        self._store, self._views, self._gate, self._client, self._checks = store, views, gate, client, checks
        self._locks, self._queue, self._clock, self._aside = locks, queue, clock, aside
        self._announcer, self._metrics = announcer, metrics
        self._annotations, self._limits, self._holder = annotations, limits, holder
        self._missing_since: Mapping[str, datetime] = {}
        """Since when no set with a uid that some hold names is seen. A new leader begins to count again."""
        self._doubted: set[str] = set()
        """Volumes that may have been written for a hold: the answer was lost, or an error."""

    async def run(self) -> None:
        """Hold and release until the queue is shut down. Start it when all kinds are synced, not before."""
        await self._views.prepared.wait()
        with self._following():
            self._queue.add(PASS)
            await self._queue.run(1, self.handle)
        self._metrics.passed(0, 0)

    async def handle(self, _key: str) -> float | None:
        """Do one pass; return the seconds until the next one, None if nothing is held or wanted."""
        for name in sorted(self._doubted):
            await self._client.volume(name)
            self._doubted.discard(name)
        world, now = self._world(), self._clock.now()
        plan = await self._aside(partial(plan_holds, self._views.view(), world, self._limits, now))
        self._missing_since = {uid: self._missing_since.get(uid, now) for uid in plan.missing}
        for ending in plan.endings:
            await self._end(ending)
        for adoption in plan.adoptions:
            await self._adopt(adoption)
        held: defaultdict[str, set[int]] = defaultdict(set)
        for owner, ordinal in plan.standing:
            held[owner.key].add(ordinal)
        for each in plan.holds:
            if await self._hold(each):
                held[each.replica.owner.key].add(each.replica.ordinal)
        self._report(plan, held, now)
        return PASS_SECONDS if held or plan.unheld or plan.holds or plan.endings or self._missing_since else None

    def _world(self) -> HoldWorld:
        # One that is being deleted is as good as gone: `--cascade=orphan` shows it like that for a moment.
        sets = {key: owner for key, owner in self._store.stateful_sets.items.items() if not owner.deleting}
        quotas = tuple(self._store.quotas.items.values())
        return HoldWorld(sets, self._store.namespaces.items, quotas, self._missing_since)

    async def _end(self, ending: HoldEnding) -> None:
        """End a hold. Its claim is read before the claimRef is removed, and again after it: no transaction spans both
        objects, and the claim may have been created and bound in between.
        """
        volume = ending.volume
        key = volume.claim.key if volume.claim is not None else ""
        async with self._locks.held((key,) if key else ()):
            claim = await self._client.claim(key) if ending.clear and key else None
            clear = ending.clear and may_end(volume, claim, self._annotations)
            try:
                body = end_hold(volume, self._annotations, clear_reference=clear)
                ended = (await self._client.patch_volume(volume, body)).record
                bound = await self._client.claim(key) if clear else None
                if bound is not None and bound.volume_name == volume.name and bound.bind_completed:
                    await self._client.patch_volume(ended, bind_volume(ended, bound, self._annotations))
            except FASTER:
                await self._client.volume(volume.name)
                return
        self._metrics.ended(ending.cause)
        about = {"pv": volume.name, "pvc": ending.claim, "cause": ending.cause.value, "note": ending.why}
        logger.info("Ended hold", extra=about)

    async def _adopt(self, adoption: Adoption) -> None:
        body = {"metadata": {"annotations": {self._annotations.hold_set: adoption.set_uid}}}
        try:
            await self._client.patch_volume(adoption.volume, body)
        except FASTER:
            await self._client.volume(adoption.volume.name)

    async def _hold(self, held: HeldReplica) -> bool:
        """Write all volumes of a replica, or take back what was written; whether all are held now."""
        volumes = [each.volume for each in held.placements]
        await self._gate.probe(volumes, self._clock.now())
        written: list[Volume] = []
        async with self._locks.held(each.claim.key for each in held.placements):
            try:
                for each in held.placements:
                    written.append(await self._write(each, held.replica.owner))
            except (EndedAttempt, *FASTER) as reason:
                logger.info("Volumes not held", extra={"pod": held.replica.pod.key, "error": str(reason)})
                await self._take_back(written)
                return False
        logger.info(
            "Held volumes", extra={"pod": held.replica.pod.key, "pv": ", ".join(volume.name for volume in volumes)}
        )
        return True

    async def _write(self, placement: Placement, owner: StatefulSet) -> Volume:
        """Raises EndedAttempt or one of FASTER if the volume cannot be held for the claim any more."""
        claim, volume = placement.claim, placement.volume
        await self._client.claim(claim.key)  # From here on the store shows it, if there is one.
        check = self._checks.usable(placement, volume, partial(self._require_to_come, claim))
        body = hold_volume(ReplicaHold(claim.key, owner.uid, self._holder), claim, self._annotations)
        try:
            return (await self._client.patch_volume(volume, body, check=check)).record
        except FASTER:
            await self._client.volume(volume.name)
            raise
        except EndedAttempt:
            raise
        except BaseException:
            self._doubted.add(volume.name)
            raise

    def _require_to_come(self, claim: Claim) -> None:
        """Raise OutdatedDecision if the claim exists by what is known, or a volume names it."""
        snapshot = self._client.snapshot()
        if claim.key in snapshot.claims or snapshot.volumes_by_claim.get(claim.key):
            raise OutdatedDecision(f"claim {claim.key} exists, or a volume names it")

    async def _take_back(self, written: list[Volume]) -> None:
        """What cannot be taken back now is half held, which the next pass completes or takes back."""
        for volume in reversed(written):
            claim = await self._client.claim(volume.claim.key) if volume.claim is not None else None
            clear = may_end(volume, claim, self._annotations)
            try:
                await self._client.patch_volume(volume, end_hold(volume, self._annotations, clear_reference=clear))
            except FASTER:
                await self._client.volume(volume.name)

    def _report(self, plan: HoldPlan, held: dict[str, set[int]], now: datetime) -> None:
        self._metrics.passed(sum(map(len, held.values())), len({each.owner.key for each in plan.unheld}))
        self._announcer.passed(plan, held, self._store.stateful_sets.items, now)

    @contextmanager
    def _following(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(self._store.stateful_sets.listening(self._set_changed))
            stack.enter_context(self._store.namespaces.listening(self._namespace_changed))
            stack.enter_context(self._store.volumes.listening(self._volume_changed))
            yield

    def _set_changed(self, old: StatefulSet | None, new: StatefulSet | None) -> None:
        if old is None or new is None or (old.annotations, old.deleting) != (new.annotations, new.deleting):
            self._queue.add(PASS)

    def _namespace_changed(self, _old: Namespace | None, new: Namespace | None) -> None:
        if new is None or new.deleting:
            self._queue.add(PASS)

    def _volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        """A held volume was bound, or changed by another writer."""
        if old is not None and hold_keys(old, self._annotations) and (new is None or new.phase != old.phase):
            self._queue.add(PASS)
