"""Ends reservations that have expired or lost their reason: at startup, on every change that may end one, and at
expiry.

It processes one volume or one claim at a time and acts on the present state, so a crash, a missed event or another
leader's leftovers need no special case. Our annotations that cannot be parsed are counted here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from binder.controllers.clean_up import CleanUp
from binder.planning.claim_standing import unknown_mode
from binder.reporting.metrics import ReservationMetrics
from binder.reporting.release_events import ReleaseAnnouncer
from binder.reservation.contract import Annotations
from binder.reservation.release import (
    Cause,
    Release,
    ReleaseContext,
    expiry_of_volume,
    release_of_claim,
    release_of_volume,
)
from binder.reservation.set_aside import UNUSED_FOR, ends_at, set_aside_keys
from binder.writers.keyed_locks import KeyedLocks
from binder.writers.rollback import Rollback
from binder.writers.unbound_proofs import PastBind, UnboundProofs
from kube.backoff import backoff
from kube.clock import Clock
from kube.errors import TerminalError
from kube.objects.model import Claim, Node, Pod, StorageClass, Volume, value_of
from kube.store.snapshot import Snapshot
from kube.store.store import Store
from kube.workqueue import WorkQueue

Subject = tuple[str, str]
"""`("volume", name)` or `("claim", "namespace/name")`."""

WORKERS: Final = 10
"""Objects released concurrently, where the client may make as many requests a second."""
STEP: Final = 1_000
"""Objects processed without a pause when a term begins: some 5 ms."""
AGAIN: Final = 0.1
MAX_RETRY_SECONDS: Final = 60.0
"""Seconds until the next attempt at an object that changed while it was being released, or that may not be written."""

logger = logging.getLogger(__name__)


class ReleaseController:
    """Processes every object that carries our annotations."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a release needs
        self,
        store: Store,
        rollback: Rollback,
        queue: WorkQueue[Subject],
        locks: KeyedLocks,
        clock: Clock,
        proofs: UnboundProofs,
        announcer: ReleaseAnnouncer,
        metrics: ReservationMetrics,
        annotations: Annotations,
        *,
        workers: int,
    ) -> None:
        self._store = store
        self._rollback = rollback
        self._queue = queue
        self._locks = locks
        self._clock = clock
        self._proofs = proofs
        self._announcer = announcer
        self._metrics = metrics
        self._annotations = annotations
        self._workers = workers
        self._failures: dict[Subject, int] = {}
        self._clean_up = CleanUp(clock)

    async def run(self) -> None:
        """Release what is due until the queue is shut down. Start it when all kinds are synced, not before."""
        with self._following():
            await self._look_at_all()
            await self._queue.run(self._workers, self.handle)

    async def handle(self, subject: Subject) -> float | None:
        """Process an object, release it if it is time; return the seconds until its reservation ends."""
        kind, key = subject
        async with self._locks.held(self._claim_keys(kind, key)):
            snapshot = self._store.snapshot()
            aside = snapshot.volumes.get(key) if kind == "volume" else None
            if aside is not None and set_aside_keys(aside, self._annotations):
                return await self._end_set_aside(subject, aside)
            bound = self._bound(snapshot.volumes.get(key), snapshot) if kind == "volume" else None
            if bound is PastBind.NOT_SEEN_YET:
                return AGAIN
            context = ReleaseContext(
                snapshot, self._clock.now(), self._annotations, never_bound=bound is PastBind.NEVER
            )
            release = release_of_volume(key, context) if kind == "volume" else release_of_claim(key, context)
            if release is not None:
                return await self._carry_out_in_turn(subject, release)
        self._failures.pop(subject, None)
        self._clean_up.forget(subject)
        expires = expiry_of_volume(key, context.snapshot, self._annotations) if kind == "volume" else None
        return None if expires is None else max(0.0, (expires - context.now).total_seconds())

    async def _end_set_aside(self, subject: Subject, volume: Volume) -> float:
        """Let go of a volume that was set aside if it is time; what it waits for is not all of the objects followed."""
        now = self._clock.now()
        end = ends_at(volume, self._store.snapshot(), self._annotations, now)
        if end is None or end > now:
            wait = UNUSED_FOR if end is None else end - now
            return wait.total_seconds()
        done = await self._attempted(subject, self._rollback.end_set_aside(volume))
        return AGAIN if done else self._next_attempt(subject)

    async def _carry_out_in_turn(self, subject: Subject, release: Release) -> float | None:
        """Release at once; but the annotations of a fulfilled reservation block nothing, and wait for their turn."""
        if release.cause is not Cause.BOUND:
            self._clean_up.forget(subject)
            return await self._carry_out(subject, release)
        wait = self._clean_up.seconds_left(subject)
        if wait > 0:
            return wait
        return await self._carry_out(subject, replace(release, until=self._clean_up.kept_since(subject)))

    async def _carry_out(self, subject: Subject, release: Release) -> float | None:
        """Release; return the growing delay in seconds until the next attempt if that did not work."""
        if await self._attempted(subject, self._rollback.carry_out(release)):
            self._clean_up.forget(subject)
            self._announce(release)
            return None
        return self._next_attempt(subject)

    async def _attempted(self, subject: Subject, writes: Awaitable[bool]) -> bool:
        try:
            done = await writes
        except TerminalError as error:
            logger.warning("Release rejected by the API server", extra={"key": str(subject), "error": str(error)})
            done = False
        if done:
            self._failures.pop(subject, None)
        return done

    def _next_attempt(self, subject: Subject) -> float:
        failures = self._failures[subject] = self._failures.get(subject, 0) + 1
        return backoff(failures, AGAIN, MAX_RETRY_SECONDS, jitter=1.0)

    def _bound(self, volume: Volume | None, snapshot: Snapshot) -> PastBind | None:
        """Return whether a Released volume was bound to its claim; None if it is not Released."""
        return self._proofs.bound(volume, snapshot) if volume is not None and volume.phase == "Released" else None

    def _announce(self, release: Release) -> None:
        volume = release.volume
        if release.cause is Cause.CLAIM_DELETED and volume is not None and volume.phase == "Released":
            if release.clear_reference:
                self._announcer.made_available(volume)
            else:
                self._announcer.stays_released(volume)

    def _claim_keys(self, kind: str, key: str) -> tuple[str, ...]:
        if kind == "claim":
            return (key,)
        volume = self._store.snapshot().volumes.get(key)
        reservation = self._annotations.reservation_of(volume) if volume is not None else None
        aside = value_of(volume.annotations, self._annotations.set_aside_for) if volume is not None else None
        return tuple(key for key in (reservation.claim if reservation is not None else None, aside) if key)

    @contextmanager
    def _following(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(self._proofs.following())
            stack.enter_context(self._store.volumes.listening(self._volume_changed))
            stack.enter_context(self._store.claims.listening(self._claim_changed))
            stack.enter_context(self._store.pods.listening(self._pod_changed))
            stack.enter_context(self._store.nodes.listening(self._node_changed))
            stack.enter_context(self._store.classes.listening(self._class_changed))
            yield

    async def _look_at_all(self) -> None:
        """Process what existed before this process, in steps: 100,000 volumes at once would block everything else."""
        snapshot = self._store.snapshot()
        for number, volume in enumerate(snapshot.volumes.values()):
            self._volume_changed(None, volume)
            if number % STEP == 0:
                await asyncio.sleep(0)
        for number, claim in enumerate(snapshot.claims.values()):
            self._claim_changed(None, claim)
            if number % STEP == 0:
                await asyncio.sleep(0)
        for storage_class in snapshot.classes.values():
            self._class_changed(None, storage_class)

    def _volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        for volume in (old, new):
            if volume is not None and set_aside_keys(volume, self._annotations):
                self._queue.add(("volume", volume.name))
                # Another one that was set aside for the claim before is not needed any more.
                self._look_at_volumes_of(value_of(volume.annotations, self._annotations.set_aside_for) or "")
            if volume is None or not self._annotations.keys_on_volume(volume):
                continue
            self._queue.add(("volume", volume.name))
            reservation = self._annotations.reservation_of(volume)
            if reservation is not None:
                self._queue.add(("claim", reservation.claim))
        if new is not None and (old is None or old.annotations != new.annotations):
            for field in self._annotations.parse_volume(new.annotations).garbage:
                self._metrics.garbage(field)

    def _claim_changed(self, old: Claim | None, new: Claim | None) -> None:
        for claim in (old, new):
            if claim is None:
                continue
            self._look_at_volumes_of(claim.key)
            if self._annotations.keys_on_claim(claim):
                self._queue.add(("claim", claim.key))
                reservation = self._annotations.reservation_of_claim(claim)
                if reservation is not None:
                    self._queue.add(("volume", reservation.volume))
        if new is not None and (old is None or old.annotations != new.annotations):
            for field in self._annotations.parse_claim(new.annotations).garbage:
                self._metrics.garbage(field)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None and (new is None or new.finished or new.deleting):
            for key in pod.claim_keys:
                self._look_at_volumes_of(key)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is not None and (new is None or new.labels != old.labels):
            for claim_key in self._store.snapshot().volumes_reserved_for:
                self._look_at_volumes_of(claim_key)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        if new is None or (old is not None and old.annotations == new.annotations):
            return
        mode = unknown_mode(new, self._annotations)
        if mode is not None:
            self._metrics.garbage("mode")
            logger.warning("Unknown mode on StorageClass ignored", extra={"storage_class": new.name, "mode": mode})

    def _look_at_volumes_of(self, claim_key: str) -> None:
        for name in self._store.snapshot().volumes_reserved_for.get(claim_key, ()):
            self._queue.add(("volume", name))
