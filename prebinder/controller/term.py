"""What the holder of the Lease does, from winning it to losing it: everything that may write is made for one term.

A dry run is a term without a Lease whose transport refuses every write.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from binder.controllers.health_controller import Caretaker
from binder.controllers.planner import Planner
from binder.controllers.reconciler import Reconciler
from binder.controllers.release_controller import Subject, Sweeper
from binder.controllers.wakeups import Wakeups
from binder.health.care import CareSettings
from binder.matching.rejection import Reason
from binder.model.view import PlanSettings
from binder.reporting.announce import Announcer, EventSink
from binder.reporting.health_events import HealthAnnouncer
from binder.reservation.contract import Holder
from binder.writers.actor import Actor, Rehearsal
from binder.writers.apply import Applier
from binder.writers.attempt import ActSettings
from binder.writers.complete import Completer
from binder.writers.health_gate import HealthGate
from binder.writers.last_look import LastLook
from binder.writers.locks import KeyedLocks
from binder.writers.object_client import LiveObjects
from binder.writers.rollback import Undo
from binder.writers.scheduling_gate import GateRehearsal, PodGate
from csi.drivers import Drivers
from csi.health.health import HealthRecord
from csi.health.verdict import USABLE
from kube.aside import in_a_thread
from kube.clock import Clock
from kube.errors import LeadershipLost
from kube.leaderelection.leadership import Leadership
from kube.store.store import Store
from kube.workqueue import WorkQueue
from prebinder.config.settings import Settings
from prebinder.metrics.instruments import Instruments
from prebinder.runtime.clients import Access


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What outlives a term."""

    settings: Settings
    access: Access
    store: Store
    drivers: Drivers
    events: EventSink
    instruments: Instruments
    clock: Clock
    rng: Random
    namespace: str
    """Our own."""


class Term:
    """Reconciles and sweeps under one leadership, until `stop`."""

    def __init__(self, around: Surroundings, leadership: Leadership) -> None:
        binding, annotations = around.settings.binding, around.settings.binding.annotations
        instruments, clock, store = around.instruments, around.clock, around.store
        api = around.access.fenced(leadership)
        live = LiveObjects(api, leadership, store, annotations)
        undo = Undo(live, clock, instruments.reservations, annotations)
        acting = ActSettings(annotations, binding.reservation_ttl)
        planning = plan_settings(around.settings)
        self._gate = HealthGate(around.drivers, around.settings.health.max_age)
        last_look = LastLook(live, self._gate, clock, planning)
        holder = Holder(leadership.holder, leadership.transition)
        applier = Applier(live, last_look, undo, clock, holder, instruments.reservations, acting)
        completer = Completer(live, last_look, undo, clock, instruments.reservations, acting)
        turns = asyncio.Semaphore(binding.concurrency)
        actor = Actor(last_look, applier, completer, locks := KeyedLocks(), turns)
        rehearsal, announcer = Rehearsal(), Announcer(around.events, clock)
        releasing = rehearsal if binding.dry_run else undo

        self._pods: WorkQueue[str] = WorkQueue(clock, around.rng, instruments.queues.of("pods"))
        self._subjects: WorkQueue[Subject] = WorkQueue(clock, around.rng, instruments.queues.of("reservations"))
        self._volumes: WorkQueue[str] = WorkQueue(clock, around.rng, instruments.queues.of("volumes"))
        wakeups = self._wakeups = Wakeups(store, self._pods, clock)
        self._reconciler = Reconciler(
            store=store,
            planner=Planner(store, self._gate, clock, planning, in_a_thread),
            gate=self._gate,
            actor=rehearsal if binding.dry_run else actor,
            pod_gate=GateRehearsal(annotations)
            if binding.dry_run
            else PodGate(api, live, leadership, store, annotations, announcer, turns=turns),
            announcer=announcer,
            wakeups=wakeups,
            queue=self._pods,
            clock=clock,
            rng=around.rng,
            metrics=instruments.binding,
        )
        self._sweeper = Sweeper(
            store,
            releasing,
            self._subjects,
            locks,
            clock,
            instruments.reservations,
            annotations,
        )
        self._caretaker = Caretaker(
            store=store,
            known=around.drivers,
            live=live,
            releasing=releasing,
            queue=self._volumes,
            locks=locks,
            waiting=wakeups,
            clock=clock,
            announcer=HealthAnnouncer(around.events),
            metrics=instruments.reservations,
            settings=care_settings(around.settings, around.namespace),
        )

    async def run(self) -> None:
        """Work until `stop`, then finish what has begun. Needs a store that is synced. Raises LeadershipLost."""
        lost = False
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._reconciler.run())
                group.create_task(self._sweeper.run())
                group.create_task(self._caretaker.run())
        except* LeadershipLost:
            lost = True
        if lost:
            raise LeadershipLost("the lease was lost during a write")

    def stop(self) -> None:
        """Begin nothing more."""
        self._pods.shut_down()
        self._subjects.shut_down()
        self._volumes.shut_down()

    def health_changed(self, driver: str, handle: str, old: HealthRecord | None, new: HealthRecord) -> None:
        """Something was learned about a volume."""
        refused = self._gate.outdated(driver, handle) or (old is not None and old.state not in USABLE)
        self._caretaker.health_changed(driver, handle, recovered=refused and new.state in USABLE)

    def driver_answers(self, driver: str) -> None:
        """A driver answers that did not: pods need not wait until they would be looked at again."""
        self._gate.driver_answers(driver)
        self._wakeups.driver_answers(driver)

    def quarantine(self) -> Mapping[str, tuple[int, int]]:
        """Return for each class how many volumes are in quarantine, and how many only its cap keeps out."""
        return self._caretaker.counts()

    def told(self) -> dict[str, Reason]:
        """Return for each claim that is not bound what the last look at its pod said."""
        return {claim.key: reason for claim, reason in self._reconciler.pending()}

    def queue_seconds(self) -> dict[str, tuple[float, float]]:
        """Return for each queue the seconds of unfinished work, and of the longest."""
        queues: tuple[tuple[str, WorkQueue[str] | WorkQueue[Subject]], ...] = (
            ("pods", self._pods),
            ("reservations", self._subjects),
            ("volumes", self._volumes),
        )
        return {name: (queue.unfinished_seconds(), queue.longest_running_seconds()) for name, queue in queues}


def plan_settings(settings: Settings) -> PlanSettings:
    return PlanSettings(
        default_mode=settings.binding.mode,
        unknown_health=settings.health.unknown,
        gated_drivers=frozenset(endpoint.driver for endpoint in settings.health.endpoints),
        health_max_age=settings.health.max_age,
        annotations=settings.binding.annotations,
        allow_delete_policy=settings.binding.allow_delete_policy,
    )


def care_settings(settings: Settings, namespace: str, *, only_asked: bool = False) -> CareSettings:
    return CareSettings(
        annotations=settings.binding.annotations,
        drivers=frozenset(endpoint.driver for endpoint in settings.health.endpoints),
        namespace=namespace,
        quarantine=settings.health.quarantine,
        max_share=settings.health.quarantine_max_share,
        dry_run=settings.binding.dry_run,
        only_asked=only_asked,
    )
