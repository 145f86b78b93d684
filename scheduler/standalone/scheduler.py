"""The standalone scheduler: takes waiting pods one by one, decides, and assigns them.

A decision is assumed at once (optimistic assume), so the next pod is scheduled while the last is being assigned. What
fails is rolled back and retried; a pod that fits nowhere waits for a change that may help it. A pod that cannot be
handled never blocks the others.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from binder.reservation.contract import Annotations
from kube.background import Aside
from kube.client.api import KubeApi
from kube.client.event_recorder import EventSink
from kube.clock import Clock, every, within
from kube.leaderelection.leadership import one_loss
from kube.objects.model import Pod
from kube.store.collection import Collection
from kube.store.store import Store
from scheduler.binding.binding_cycle import BindingCycle, BindingPlugins
from scheduler.cycle.memoized_cycle import Decider
from scheduler.framework.cluster_event import ClusterEvent
from scheduler.queue.requeue import Changes, forgotten, renounced
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.standalone.assignment_check import AssignmentCheck, NotAssigned
from scheduler.standalone.attempt_report import AttemptReport
from scheduler.standalone.cache import PATIENCE, SchedulerCache
from scheduler.standalone.metrics import SchedulerMetrics
from scheduler.standalone.post_filter import EvictsPods, PostFilter
from scheduler.standalone.schedule_one import CurrentConfiguration, ScheduleOne, StatusWriter, Work

BATCH: Final = 16
"""Pods taken from the queue at once; a pod of higher priority that arrives later waits for so many decisions."""

QUEUED_IN_A_STEP: Final = 250
"""Pods queued at the start of a term before other tasks get to run: a few milliseconds."""

POLL_SECONDS: Final = 5.0
"""How often overdue assignments are checked."""


class Scheduler:
    """Schedules during one term, and follows the cluster for changes that may help a pod that fits nowhere."""

    def __init__(  # noqa: PLR0913 - all that it takes from its process, by name
        self,
        *,
        api: KubeApi,
        store: Store,
        pods: Collection[Pod],
        cluster: SchedulerCache,
        configuration: CurrentConfiguration,
        plugins: BindingPlugins,
        evictor: EvictsPods,
        status: StatusWriter,
        events: EventSink,
        metrics: SchedulerMetrics,
        clock: Clock,
        annotations: Annotations,
        aside: Aside,
    ) -> None:
        """`pods` are those that name this scheduler and have no node, `store` has everything else, and `cluster`
        follows it.

        `plugins`, `evictor` and `status` write, under the Lease of this term. Decisions that may take long are made
        `aside`.
        """
        self.store, self.pods, self.cache, self.clock = store, pods, cluster, clock
        self.configuration = configuration
        self.queue = SchedulingQueue(lambda pod: configuration.current.profiles[pod.scheduler_name].queue_sort.key(pod))
        self.binding_cycle, self.post_filter = BindingCycle(plugins), PostFilter(store.budgets, evictor, status)
        self.report = AttemptReport(events, status, metrics)
        self.ended: list[Callable[[], None]] = []
        """Called when the term is over."""
        self._status, self._assignments = status, AssignmentCheck(api, store.pods, cluster, clock)
        self._changes = Changes(store, self.changed, annotations)
        self._work, self._stopping = asyncio.Event(), asyncio.Event()
        self._bindings: set[asyncio.Task[None]] = set()
        self._group = asyncio.TaskGroup()
        self._running = False
        self.schedule_one = ScheduleOne(
            self.queue,
            cluster,
            self.post_filter,
            Decider(),
            configuration,
            self.binding_cycle,
            self._assignments,
            self.report,
            metrics,
            clock,
            self.wake,
            aside,
        )
        for assumed in cluster.assumed():
            # In progress when the last term ended: the first check reads whether it was assigned.
            cluster.bound(assumed, clock.monotonic() - PATIENCE)

    async def run(self) -> None:
        """Schedule until `stop`, then let assignments in progress end. Needs collections that are synced.

        Raises LeadershipLost.
        """
        self.post_filter.listeners.append(self._renounced)
        try:
            with one_loss(), self._changes.following(), self.pods.listening(self._pod_changed):
                await self._queue_all()
                await self._schedule()
        finally:
            self._running = False
            for ended in self.ended:
                ended()

    def stop(self) -> None:
        """Begin nothing more. Pods that wait for their volumes are left to the next leader."""
        self._stopping.set()
        self._work.set()

    @property
    def takes_work(self) -> bool:
        """Whether `start` accepts work: not before `run`, nor while work in progress is being finished."""
        return self._running

    def start(self, work: Work) -> None:
        """Execute the binding of a pod concurrently with others."""
        task = self._group.create_task(work)
        self._bindings.add(task)
        task.add_done_callback(self._bindings.discard)

    def wake(self) -> None:
        """A pod may be due without a watch event."""
        self._work.set()

    def changed(self, change: ClusterEvent) -> None:
        """Apply a change in the cluster that may help a pod that fits nowhere."""
        self.queue.change(change, self.clock.monotonic())
        self._work.set()

    def rules_changed(self) -> None:
        """A new configuration is in force: it may make unschedulable pods schedulable."""
        self.queue.wake_all(self.clock.monotonic())
        self._work.set()

    async def _queue_all(self) -> None:
        """Queue the pods that wait already, in steps; those that change meanwhile are queued by their events."""
        for number, key in enumerate(self.pods.items, 1):
            pod = self.pods.items.get(key)
            if pod is not None:
                self._pod_changed(None, pod)
            if number % QUEUED_IN_A_STEP == 0:
                await asyncio.sleep(0)

    def _renounced(self, pod: Pod, node: str) -> None:
        """A node is not nominated for a pod any more: the pod looks for another one, and others may fit there."""
        self.changed(renounced(pod, node))
        self.queue.wake(pod.key, self.clock.monotonic())

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (new, old):
            if pod is not None and not self.cache.counts(pod):
                self.post_filter.pod_changed(old, new)
                break
        if new is not None and not new.deleting:
            invalid = self.queue.upsert(new, self.clock.monotonic())
            if invalid is not None:
                self.schedule_one.invalid(new, invalid)
            self._work.set()
        elif (gone := new or old) is not None:
            self.queue.remove(gone.key)
            self._status.forget(gone.key)

    async def _schedule(self) -> None:
        async with self._group as group:
            lost = every(POLL_SECONDS, self.clock, self._look_for_lost)
            beside = [group.create_task(work) for work in (self._status.run(), lost)]
            self._running = True
            await self._schedule_all()
            self._running = False
            self.binding_cycle.stop_waiting()
            if self._bindings:
                await asyncio.wait(self._bindings)
            for task in beside:
                task.cancel()

    async def _schedule_all(self) -> None:
        while not self._stopping.is_set():
            self._work.clear()
            attempts = self.queue.pop(self.clock.monotonic(), BATCH)
            for attempt in attempts:
                await self.binding_cycle.wait_for_slot()
                if self._stopping.is_set():
                    return
                work = await self.schedule_one.begin(attempt)
                if work is not None:
                    self.start(work)
                # Watches, responses and the Lease get their turn after each decision.
                await asyncio.sleep(0)
            if not attempts:
                await self._idle()

    async def _idle(self) -> None:
        due = self.queue.due_in(self.clock.monotonic())
        try:
            await (self._work.wait() if due is None else within(self.clock, max(0.0, due), self._work.wait()))
        except TimeoutError:
            return

    async def _look_for_lost(self) -> None:
        """Schedule pods again that have no node although their assignment was confirmed."""
        for ended in await self._assignments.run():
            self._not_assigned(ended)

    def _not_assigned(self, ended: NotAssigned) -> None:
        placement = ended.placement
        for change in forgotten(placement, self.cache.snapshot()):
            self.changed(change)
        key = placement.pod.key
        shown = self.pods.items.get(key)
        if shown is not None and shown.uid == placement.pod.uid:
            # A pod that is gone is not retried, although a watch has not shown its end yet.
            self.queue.remove(key)
            if ended.waits:
                self._pod_changed(None, shown)
