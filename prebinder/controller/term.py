"""What the leader does, from acquiring the Lease to losing it: everything that may write is created for one term.

`compose` is the one place where the controller's loops are put together; the tests of the loops use it too. A dry run
is composed like any other: only the transport below the API writes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from binder.controllers.health_controller import HealthController
from binder.controllers.nodes_to_come import NodesToCome
from binder.controllers.planner import Planner, Solving
from binder.controllers.reconciler import Reconciler
from binder.controllers.release_controller import WORKERS, ReleaseController, Subject
from binder.controllers.wakeups import Wakeups
from binder.data_sources.snapshots import Snapshots
from binder.health.health_update import HealthUpdateSettings
from binder.matching.matching import class_of
from binder.matching.rejection import Reason
from binder.model.view import PlanSettings
from binder.reporting.announce import Announcer
from binder.reporting.health_events import HealthAnnouncer
from binder.reporting.release_events import ReleaseAnnouncer
from binder.reporting.tracing import UNTRACED, Tracing
from binder.reservation.contract import Holder
from binder.solver.solver_process import SolverProcess
from binder.writers.actor import Actor, Applier
from binder.writers.attempt import ActSettings
from binder.writers.complete import Completer
from binder.writers.health_gate import HealthGate, Probes
from binder.writers.keyed_locks import KeyedLocks
from binder.writers.object_client import ObjectClient
from binder.writers.preconditions import Preconditions
from binder.writers.rollback import Rollback
from binder.writers.scheduling_gate import SchedulingGate
from binder.writers.selected_nodes import SelectedNodes
from binder.writers.unbound_proofs import UnboundProofs
from binder.writers.write_checks import WriteChecks
from csi.health.health import HealthRecord
from csi.health.verdict import USABLE
from csi.records import HealthRecords
from kube.background import Aside
from kube.client.api import KubeApi
from kube.client.event_recorder import EventSink
from kube.clock import Clock
from kube.leaderelection.leadership import one_loss
from kube.store.store import Store
from kube.workqueue import WorkQueue
from prebinder.config.settings import Settings
from prebinder.controller.dry_run_report import Pass
from prebinder.metrics.instruments import TermMetrics
from prebinder.tracing.requests import TracedProbes

if TYPE_CHECKING:
    from binder.controllers.hold_controller import HoldController


@dataclass(frozen=True, slots=True)
class Term:
    """The loops of one term, and what the process needs from them.

    Without a reconciler and a release controller nothing is reserved, bound or released: only health is published.
    Without a hold controller no volumes are held for replicas to come.
    """

    known: HealthRecords
    probes: Probes
    health_controller: HealthController
    reconciler: Reconciler | None
    release_controller: ReleaseController | None
    hold_controller: "HoldController | None"
    to_come: NodesToCome | None
    queues: Mapping[str, WorkQueue[str] | WorkQueue[Subject]]
    writers: asyncio.Semaphore

    async def run(self) -> None:
        """Work until `stop`, then finish what has begun. Needs a store that is synced. Raises LeadershipLost."""
        with one_loss(), self.known.listening(self._health_changed), self.probes.listening(self._driver_answers):
            async with asyncio.TaskGroup() as group:
                reports = [] if self.to_come is None else [group.create_task(self.to_come.run())]
                loops = (self.reconciler, self.release_controller, self.health_controller, self.hold_controller)
                await asyncio.wait([group.create_task(loop.run()) for loop in loops if loop is not None])
                for task in reports:
                    task.cancel()

    def stop(self) -> None:
        """Begin nothing more."""
        for queue in self.queues.values():
            queue.shut_down()

    def _health_changed(self, driver: str, handle: str, old: HealthRecord | None, new: HealthRecord) -> None:
        """A volume's health record has changed."""
        rejected = self.reconciler is not None and self.reconciler.gate.outdated(driver, handle)
        rejected = rejected or (old is not None and old.state not in USABLE)
        self.health_controller.health_changed(driver, handle, recovered=rejected and new.state in USABLE)

    def _driver_answers(self, driver: str) -> None:
        """A driver responds again: pods need not wait for their next retry."""
        if self.reconciler is not None:
            self.reconciler.gate.driver_answers(driver)
            self.reconciler.wakeups.driver_answers(driver)

    def quarantine(self) -> Mapping[str, tuple[int, int]]:
        """Return for each class how many volumes are in quarantine, and how many are kept out by its cap only."""
        return {} if self.reconciler is None else self.health_controller.counts()

    def not_in_flight(self) -> Mapping[str, int]:
        """Return how many claims with a selected node and no volume take no room in pools of storage, by reason."""
        return {} if self.reconciler is None else self.reconciler.planner.not_in_flight()

    def reasons(self) -> Mapping[str, Reason]:
        """Return for each unbound claim the result of the last attempt for its pod."""
        return {} if self.reconciler is None else {claim.key: reason for claim, reason in self.reconciler.pending()}

    def progress(self) -> Pass | None:
        """Return what pods wait for, None while some are being reconciled."""
        if self.reconciler is None or not self.reconciler.queue.idle:
            return None
        return Pass(self.reconciler.waiting(), sorted(self.reconciler.undecided()))

    def is_writing(self) -> bool:
        """Whether so many pods are written for that others wait."""
        return self.writers.locked()

    def queue_seconds(self) -> Mapping[str, tuple[float, float]]:
        """Return for each queue the seconds of unfinished work, and of the longest."""
        queues = self.queues.items()
        return {name: (queue.unfinished_seconds(), queue.longest_running_seconds()) for name, queue in queues}


async def _at_once() -> bool:
    """Nothing hides what happened, where the store is not filled by watches."""
    return False


def compose(  # noqa: PLR0913 - all that a term needs of its process, by name
    settings: Settings,
    api: KubeApi,
    *,
    store: Store,
    probes: Probes,
    known: HealthRecords,
    events: EventSink,
    metrics: TermMetrics,
    clock: Clock,
    rng: Random,
    holder: Holder,
    namespace: str,
    announcer: Announcer | None = None,
    publish_only: bool = False,
    tracing: Tracing = UNTRACED,
    aside: Aside = asyncio.to_thread,
    solving: Solving | None = None,
    recovered: Callable[[], Awaitable[bool]] = _at_once,
) -> Term:
    """Return the loops of one term. `api` is fenced by its Lease, which `holder` names; `namespace` is our own.

    `announcer`: what reports on reservations, by default by Events. `publish_only`: only volume health is published,
    for a store with nothing but volumes. `solving`: where volumes are short, by default in a process of its own.
    `recovered` returns when no outage of the API server hides what happened, and whether one did.
    """
    solving = solving or SolverProcess(metrics.solver).session
    annotations, planning = settings.binding.annotations, plan_settings(settings)
    acting = ActSettings(annotations, settings.binding.reservation_ttl)
    at_once = settings.cluster.at_once(settings.binding.concurrency)
    turns, locks = asyncio.Semaphore(at_once), KeyedLocks()
    # Its own: a pod whose volumes are bound does not wait until those of all others are.
    lifts = asyncio.Semaphore(at_once)
    pods: WorkQueue[str] = WorkQueue(clock, rng, metrics.queues.of("pods"))
    subjects: WorkQueue[Subject] = WorkQueue(clock, rng, metrics.queues.of("reservations"))
    volumes: WorkQueue[str] = WorkQueue(clock, rng, metrics.queues.of("volumes"))

    client = ObjectClient(api, store, annotations)
    rollback = Rollback(client, clock, metrics.reservations, annotations)
    traced = probes if tracing is UNTRACED else TracedProbes(probes, tracing)
    gate = HealthGate(traced, settings.health.max_age, clock)
    preconditions = Preconditions(client, gate, clock, recovered)
    checks = WriteChecks(client, gate, clock, planning)
    proofs = UnboundProofs(store)
    applier = Applier(client, checks, rollback, proofs, clock, metrics.reservations, acting, holder)
    completer = Completer(client, checks, clock, metrics.reservations, annotations)
    wakeups = Wakeups(store, pods, clock)
    announcer = announcer or Announcer(events, clock, settings.events.docs_base_url)
    gate.usable_after_all.append(lambda volume: wakeups.room_in(class_of(volume)))
    to_come = NodesToCome(api, store, clock, annotations, announcer, joining=settings.feature_gates.new_nodes)
    to_come.node_came.append(wakeups.room_in)
    planner = Planner(
        store, gate, clock, planning, to_come=to_come, snapshots=Snapshots(api, clock), aside=aside, solving=solving
    )
    reconciler = Reconciler(
        store=store,
        planner=planner,
        gate=gate,
        actor=Actor(preconditions, applier, completer, rollback, locks, turns),
        selected_nodes=SelectedNodes(
            client, preconditions, checks, locks, turns, clock, annotations, namespace, planner
        ),
        scheduling_gate=SchedulingGate(client, annotations, announcer, turns=lifts, recovered=recovered),
        announcer=announcer,
        wakeups=wakeups,
        queue=pods,
        clock=clock,
        rng=rng,
        metrics=metrics.binding,
        tracing=tracing,
    )
    release_controller = ReleaseController(
        store,
        rollback,
        subjects,
        locks,
        clock,
        proofs,
        ReleaseAnnouncer(events),
        metrics.reservations,
        annotations,
        workers=settings.cluster.at_once(WORKERS),
    )
    health_controller = HealthController(
        store=store,
        known=known,
        client=client,
        rollback=rollback,
        queue=volumes,
        locks=locks,
        wakeups=wakeups,
        clock=clock,
        announcer=HealthAnnouncer(events),
        metrics=metrics.reservations,
        settings=health_update_settings(settings, namespace, only_probed=publish_only),
    )
    if publish_only:
        return Term(known, probes, health_controller, None, None, None, None, {"volumes": volumes}, turns)
    queues: dict[str, WorkQueue[str] | WorkQueue[Subject]] = {
        "pods": pods,
        "reservations": subjects,
        "volumes": volumes,
    }
    hold_controller = None
    if settings.holds_volumes:
        from binder.controllers.hold_controller import HoldController  # noqa: PLC0415 - its rules, only where it is on
        from binder.holds.limits import HoldLimits  # noqa: PLC0415
        from binder.reporting.hold_reports import HoldAnnouncer  # noqa: PLC0415

        passes: WorkQueue[str] = WorkQueue(clock, rng, metrics.queues.of("holds"))
        queues["holds"] = passes
        hold_controller = HoldController(
            store=store,
            views=planner,
            gate=gate,
            client=client,
            checks=checks,
            locks=locks,
            queue=passes,
            clock=clock,
            aside=aside,
            announcer=HoldAnnouncer(events),
            metrics=metrics.holds,
            annotations=annotations,
            limits=HoldLimits(settings.holds.max_share, settings.holds.max_per_namespace),
            holder=holder,
        )
    return Term(
        known, probes, health_controller, reconciler, release_controller, hold_controller, to_come, queues, turns
    )


def plan_settings(settings: Settings) -> PlanSettings:
    return PlanSettings(
        default_mode=settings.binding.mode,
        unknown_health=settings.health.unknown,
        gated_drivers=frozenset(endpoint.driver for endpoint in settings.health.endpoints),
        health_max_age=settings.health.max_age,
        annotations=settings.binding.annotations,
        allow_delete_policy=settings.binding.allow_delete_policy,
        dynamic_mode=settings.binding.dynamic_mode,
        provision=settings.feature_gates.provision,
    )


def health_update_settings(settings: Settings, namespace: str, *, only_probed: bool) -> HealthUpdateSettings:
    return HealthUpdateSettings(
        annotations=settings.binding.annotations,
        drivers=frozenset(endpoint.driver for endpoint in settings.health.endpoints),
        namespace=namespace,
        quarantine=settings.health.quarantine,
        max_share=settings.health.quarantine_max_share,
        only_probed=only_probed,
    )
