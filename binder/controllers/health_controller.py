"""Reacts to changes of volume health: annotates the volume, gives up reservations, and quarantines.

Each reconciliation compares one volume with what is known and does what is missing, so a crash, a missed change, or
what another leader left behind need no special case; and a volume whose annotations are up to date costs no write.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

from binder.controllers.wakeups import Wakeups
from binder.health.health_update import HealthUpdate, HealthUpdateSettings, health_update_for
from binder.health.node_storage import NodeStorage, conditions_on
from binder.health.quarantine import Pools, QuarantineStep
from binder.health.reported_health import reported_by_others
from binder.matching.index import is_free
from binder.matching.matching import class_of
from binder.reporting.health_events import HealthAnnouncer
from binder.reporting.metrics import ConflictKind, ReservationMetrics
from binder.reservation.release import Cause, take_back
from binder.writers.keyed_locks import KeyedLocks
from binder.writers.object_client import FASTER, ObjectClient
from binder.writers.rollback import Rollback
from csi.health.health import HealthFinding
from csi.records import HealthRecords
from kube.client.rate_limit import TokenBucket
from kube.clock import Clock
from kube.errors import TerminalError
from kube.objects.api_resource import VOLUMES
from kube.objects.model import CSINode, Volume
from kube.store.store import Store
from kube.workqueue import TryAgain, WorkQueue

WRITES_PER_SECOND: Final = 50.0
WRITES_AT_ONCE: Final = 50
"""If a storage system fails, all of its volumes become unhealthy at once; the API server must not be overloaded by
it.
"""
HELD_BACK_SECONDS: Final = 30.0
"""Until the next reconciliation of a volume that the cap keeps out of quarantine."""
STEP: Final = 1_000
"""Volumes indexed without a pause when a term begins: some 5 ms."""
_ALL_OF: Final = "driver/"
"""Before a driver's name, a key for all of its volumes: volume names contain no slash."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class HealthController:
    """Reconciles volumes, one at a time. `run` belongs inside a term of the Lease."""

    store: Store
    known: HealthRecords
    client: ObjectClient
    rollback: Rollback
    queue: WorkQueue[str]
    locks: KeyedLocks
    wakeups: Wakeups
    clock: Clock
    announcer: HealthAnnouncer
    metrics: ReservationMetrics
    settings: HealthUpdateSettings
    held_back: dict[str, str] = field(default_factory=dict)
    """Volume -> class, for those kept out of quarantine by the cap only."""
    _node_storage: NodeStorage = field(init=False, default_factory=NodeStorage)
    _pools: Pools = field(init=False)
    _bucket: TokenBucket = field(init=False)
    _names: defaultdict[str, dict[str, tuple[str, ...]]] = field(default_factory=lambda: defaultdict(dict))

    def __post_init__(self) -> None:
        self._pools = Pools(self.settings.annotations)
        self._bucket = TokenBucket(self.clock, WRITES_PER_SECOND, WRITES_AT_ONCE)

    async def run(self) -> None:
        """React until the queue is shut down. Start it when all kinds are synced, not before."""
        with ExitStack() as stack:
            stack.enter_context(self.store.volumes.listening(self._volume_changed))
            stack.enter_context(self.store.csi_nodes.listening(self._csi_node_changed))
            for number, name in enumerate(self.store.snapshot().volumes):
                self._volume_changed(None, self.store.snapshot().volumes.get(name))
                if number % STEP == 0:
                    await asyncio.sleep(0)
            # One worker: the cap is counted before a write, so writes must not overlap.
            await self.queue.run(1, self.handle)

    def health_changed(self, driver: str, handle: str, *, recovered: bool) -> None:
        """A volume's health record changed: reconcile it. `recovered`: pods that did not get it may want it now."""
        for name in self._names[driver].get(handle, ()):
            self.queue.add(name)
            volume = self.store.snapshot().volumes.get(name)
            if recovered and volume is not None and is_free(volume):
                self.wakeups.room_in(class_of(volume))

    def counts(self) -> Mapping[str, tuple[int, int]]:
        """Return for each class how many volumes are in quarantine, and how many the cap keeps out of it."""
        held = list(self.held_back.values())
        classes = self._pools.available.keys() | self._pools.quarantined.keys() | set(held)
        return {name: (len(self._pools.quarantined.get(name, ())), held.count(name)) for name in sorted(classes)}

    async def handle(self, name: str) -> float | None:
        """Do what the volume needs now; return the seconds until the next reconciliation, None if a change will trigger
        it.
        """
        if name.startswith(_ALL_OF):
            await self._look_at_all_of(name.removeprefix(_ALL_OF))
            return None
        update = self._update(name)
        if update is None:
            return None
        if update.finding is not None and update.finding.unhealthy:
            if not await self._give_up_reservation(update.volume, update.finding):
                raise TryAgain
            update = self._update(name)
        if update is not None and update.needed:
            await self.clock.sleep(self._bucket.take())
            # Time has passed: what is needed now may be different.
            update = self._update(name)
            if update is not None and update.needed:
                await self._carry_out(update)
        return HELD_BACK_SECONDS if name in self.held_back else None

    def _update(self, name: str) -> HealthUpdate | None:
        """Return what the volume needs and is allowed; None if there is no such volume."""
        self.held_back.pop(name, None)
        volume = self.store.snapshot().volumes.get(name)
        if volume is None or (self.settings.only_probed and volume.driver not in self.settings.drivers):
            return None
        update = self._needs(volume)
        if update.step is QuarantineStep.TAKE and not self._pools.has_room(class_of(volume), self.settings.max_share):
            self.held_back[name] = class_of(volume)
            return update.without_quarantine()
        return update

    async def _carry_out(self, update: HealthUpdate) -> None:
        """Write and report. Raises TryAgain if the volume changed, and KubeError if the API server rejects the
        write.
        """
        try:
            await self.client.patch_volume(update.volume, update.patch(self.clock.now(), self.settings))
        except FASTER:
            self.metrics.conflicted(VOLUMES.plural, ConflictKind.RESOURCE_VERSION)
            await self.client.volume(update.volume.name)
            raise TryAgain from None
        except TerminalError as error:
            self.announcer.write_rejected(update.volume, error.message)
            raise
        logger.info("Updated volume health", extra=_facts(update))
        if update.news is not None:
            self.announcer.changed(update.volume, update.news, self.store.snapshot())
        if update.step is QuarantineStep.TAKE and update.own is not None:
            self.announcer.quarantined(update.volume, update.own)
        if update.step is QuarantineStep.RELEASE:
            self.announcer.released(update.volume)

    async def _give_up_reservation(self, volume: Volume, finding: HealthFinding) -> bool:
        """End a reservation that has had no effect: the pod's next plan probes the driver and skips the volume."""
        reservation = self.settings.annotations.reservation_of(volume)
        if reservation is None:
            return True
        async with self.locks.held((reservation.claim,)):
            snapshot = self.store.snapshot()
            claim = snapshot.claims.get(reservation.claim)
            # A claim that names the volume is being bound to it, and a bind is never undone.
            if claim is None or claim.volume_name == volume.name:
                return True
            release = take_back(volume.name, claim, snapshot, self.settings.annotations)
            if release is None:
                return True
            if not await self.rollback.carry_out(replace(release, cause=Cause.UNHEALTHY)):
                return False
        self.announcer.reservation_ended(volume, reservation.claim, finding, snapshot)
        return True

    async def _look_at_all_of(self, driver: str) -> None:
        """Queue the driver's volumes for which a report about its storage makes a difference."""
        for number, volume in enumerate(self.store.snapshot().volumes.values()):
            if volume.driver == driver:
                self._file_if_needed(volume)
            if number % STEP == 0:
                await asyncio.sleep(0)

    def _needs(self, volume: Volume) -> HealthUpdate:
        now = self.clock.now()
        record = self.known.state(volume.driver, volume.handle) if volume.driver else None
        others = reported_by_others(volume, self.store.snapshot(), self._node_storage, now)
        return health_update_for(volume, record, others, self.settings, now)

    def _volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        self._pools.changed(old, new)
        for volume in (old, new):
            if volume is not None and volume.driver in self.settings.drivers:
                self._file(volume, present=volume is new)
        if new is not None:
            self._file_if_needed(new)

    def _csi_node_changed(self, old: CSINode | None, new: CSINode | None) -> None:
        before, after = (conditions_on(csi_node) if csi_node is not None else () for csi_node in (old, new))
        if before != after:
            for driver in {condition.driver for condition in (*before, *after)}:
                self.queue.add(_ALL_OF + driver)

    def _file_if_needed(self, volume: Volume) -> None:
        if self.settings.only_probed and volume.driver not in self.settings.drivers:
            return
        update = self._needs(volume)
        reserved = bool(self.settings.annotations.keys_on_volume(volume))
        if update.needed or (reserved and update.finding is not None and update.finding.unhealthy):
            self.queue.add(volume.name)

    def _file(self, volume: Volume, *, present: bool) -> None:
        names = self._names[volume.driver]
        others = [name for name in names.get(volume.handle, ()) if name != volume.name]
        kept = (*others, volume.name) if present else tuple(others)
        if kept:
            names[volume.handle] = kept
        else:
            names.pop(volume.handle, None)


def _facts(update: HealthUpdate) -> dict[str, object]:
    state = str(update.finding.state) if update.finding is not None else ""
    step = str(update.step or "unchanged")
    return {"pv": update.volume.name, "health": state, "published": update.news is not None, "quarantine": step}
