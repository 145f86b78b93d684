"""The standalone scheduler: takes waiting pods one by one, decides, and has them assigned.

A decision is taken for granted at once (optimistic assume), so the next pod is decided about while the last is being
assigned. What fails is taken back and tried again; a pod that fits nowhere waits for a change that may help it. One pod
that cannot be handled never holds up the others.
"""

import asyncio
from typing import Final

from kube.client.deadline import within
from kube.errors import LeadershipLost
from kube.objects.model import Pod
from kube.store.collection import Collection
from scheduler.binding.binding_cycle import BindingCycle
from scheduler.framework.cluster_event import ClusterEvent
from scheduler.queue.requeue import forgotten, renounced
from scheduler.standalone.assignment_check import NotAssigned
from scheduler.standalone.manual_binding import DrivenBinding, Machinery
from scheduler.standalone.schedule_one import Attempts, Parts, Work

__all__ = ["Parts", "Scheduler"]

BATCH: Final = 16
"""Pods taken from the queue at once; one that is more urgent and comes later waits for so many decisions."""

LOOK_SECONDS: Final = 5.0
"""How often it is looked whether assigned pods are overdue."""


class Scheduler:
    """Schedules under one leadership. Give `changed` to what watches for changes that may help (requeue.Changes)."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._clock = parts.clock
        self._waiting = parts.waiting
        self._cycle = BindingCycle(parts.plugins)
        self._work = asyncio.Event()
        self._attempts = Attempts(parts, self._cycle, self._work.set)
        self._stopping = asyncio.Event()
        self._bindings: set[asyncio.Task[None]] = set()
        self._group = asyncio.TaskGroup()
        self._running = False
        self._driven: list[DrivenBinding] = []

    async def run(self) -> None:
        """Schedule until `stop`, then let assignments under way end. Needs collections that are synced.

        Raises LeadershipLost.
        """
        pods, lost = self._parts.pods, False
        pods.listeners.append(self._pod_changed)
        self._parts.room.listeners.append(self._renounced)
        try:
            for pod in pods.items.values():
                self._pod_changed(None, pod)
            async with self._group as group:
                beside = [group.create_task(work) for work in (self._parts.status.run(), self._look_for_lost())]
                self._running = True
                await self._schedule_all()
                self._running = False
                self._cycle.stop_waiting()
                if self._bindings:
                    await asyncio.wait(self._bindings)
                for task in beside:
                    task.cancel()
        except* LeadershipLost:
            lost = True
        finally:
            self._running = False
            pods.listeners.remove(self._pod_changed)
            for driven in self._driven:
                driven.close()
        if lost:
            raise LeadershipLost("the lease was lost during a write")

    def stop(self) -> None:
        """Begin nothing more. Pods that wait for their volumes are left to whoever schedules next."""
        self._stopping.set()
        self._work.set()

    def driven(self, assigned: Collection[Pod]) -> DrivenBinding:
        """Return what places single pods while this runs. `assigned` are the pods that have a node."""
        machinery = Machinery(
            self._parts, self._attempts, self._cycle, self._start, lambda: self._running, self._work.set
        )
        self._driven.append(DrivenBinding(machinery, assigned))
        return self._driven[-1]

    def changed(self, change: ClusterEvent) -> None:
        """Something happened in the cluster that may help a pod that fits nowhere."""
        self._waiting.change(change, self._clock.monotonic())
        self._work.set()

    def rules_changed(self) -> None:
        """A new configuration is in force: it may let refused pods in."""
        self._waiting.wake_all(self._clock.monotonic())
        self._work.set()

    def _renounced(self, pod: Pod, node: str) -> None:
        """A node is kept for a pod no longer: it looks for another one, and others may fit there."""
        self.changed(renounced(pod, node))
        self._waiting.wake(pod.key, self._clock.monotonic())

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (new, old):
            if pod is not None and not self._parts.cluster.counts(pod):
                self._parts.room.pod_changed(old, new)
                break
        if new is not None and not new.deleting:
            invalid = self._waiting.upsert(new, self._clock.monotonic())
            if invalid is not None:
                self._attempts.invalid(new, invalid)
            self._work.set()
        elif (gone := new or old) is not None:
            self._waiting.remove(gone.key)
            self._parts.status.forget(gone.key)

    async def _schedule_all(self) -> None:
        while not self._stopping.is_set():
            self._work.clear()
            attempts = self._waiting.pop(self._clock.monotonic(), BATCH)
            for attempt in attempts:
                await self._cycle.room()
                if self._stopping.is_set():
                    return
                work = self._attempts.begin(attempt)
                if work is not None:
                    self._start(work)
                # Watches, answers and the lease get their turn after each decision.
                await asyncio.sleep(0)
            if not attempts:
                await self._idle()

    def _start(self, work: Work) -> None:
        task = self._group.create_task(work)
        self._bindings.add(task)
        task.add_done_callback(self._bindings.discard)

    async def _idle(self) -> None:
        due = self._waiting.due_in(self._clock.monotonic())
        try:
            await (self._work.wait() if due is None else within(self._clock, max(0.0, due), self._work.wait()))
        except TimeoutError:
            return

    async def _look_for_lost(self) -> None:
        """Schedule pods again that have no node although their assignment was answered."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            for ended in await self._parts.assignments.run():
                self._not_assigned(ended)

    def _not_assigned(self, ended: NotAssigned) -> None:
        placement, cluster = ended.placement, self._parts.cluster
        for change in forgotten(placement, cluster.view(self._clock.now()).storage.snapshot):
            self.changed(change)
        key = placement.pod.key
        shown = self._parts.pods.items.get(key)
        if shown is not None and shown.uid == placement.pod.uid:
            # A pod that is gone is not tried again, although a watch has yet to show its end.
            self._waiting.remove(key)
            if ended.waits:
                self._pod_changed(None, shown)
