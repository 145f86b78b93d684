"""One attempt to schedule a pod: decide, assume, bind, and report the result.

Source: scheduleOne, schedulingCycle and bindingCycle in pkg/scheduler/schedule_one.go.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from binder.matching.rejection import Reason, Rejection
from binder.provisioning.sums import reject_sum
from kube.background import Aside
from kube.clock import Clock
from kube.errors import KubeError, LeadershipLost
from kube.objects.model import Pod
from scheduler.binding.binding_cycle import BindingCycle
from scheduler.binding.still_fits import reject_taken
from scheduler.cycle.cycle import Unschedulable
from scheduler.cycle.decision_cost import is_short
from scheduler.cycle.diagnosis import Diagnosis, diagnose
from scheduler.framework.config import Configuration
from scheduler.framework.containment import PluginFailed
from scheduler.framework.plugin import ScheduleResult
from scheduler.preemption.preemption import NoPreemption, Preemption
from scheduler.queue.hints import EVICTION
from scheduler.queue.requeue import forgotten, wanted_by
from scheduler.queue.scheduling_queue import Attempt, SchedulingQueue
from scheduler.standalone.assignment_check import AssignmentCheck
from scheduler.standalone.attempt_report import AttemptReport, StatusSink
from scheduler.standalone.cache import SchedulerCache
from scheduler.standalone.metrics import SchedulerMetrics, SchedulingTimes
from scheduler.standalone.post_filter import DecidesPods, PostFilter
from scheduler.state.cluster import ClusterView
from scheduler.volumes.claim_texts import whole_text

_LOST: Final = frozenset({Reason.POD_ENDED, Reason.ALREADY_ASSIGNED})
"""Reasons for which the pod does not need this scheduler any more."""

logger = logging.getLogger(__name__)

Work = Coroutine[Any, Any, None]
T = TypeVar("T")


class CurrentConfiguration(Protocol):
    """Provides the latest configuration (scheduler.standalone.config_watch)."""

    @property
    def current(self) -> Configuration: ...


class StatusWriter(StatusSink, Protocol):
    """Writes pods' status in the background (scheduler.standalone.pod_status.PodStatus)."""

    async def run(self) -> None:
        """Write until cancelled. Raises LeadershipLost."""


@dataclass(slots=True)
class ScheduleOne:
    """Makes attempts. An error in one is reported, and does not affect other pods.

    `wake` is called when a pod may have become due without a watch event.
    """

    queue: SchedulingQueue
    cache: SchedulerCache
    post_filter: PostFilter
    decider: DecidesPods
    configuration: CurrentConfiguration
    binding_cycle: BindingCycle
    assignments: AssignmentCheck
    report: AttemptReport
    metrics: SchedulerMetrics
    clock: Clock
    wake: Callable[[], None]
    aside: Aside
    deciding: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def begin(self, attempt: Attempt) -> Work | None:
        """Decide about a pod; return the work that executes the decision, None if there is none."""
        async with self.deciding:
            view = await self.cache.current(self.clock)
            pod = self._due(attempt)
            return await self._begun(attempt, pod, view) if pod is not None else None

    async def decided(self, pod: Pod, view: ClusterView, decide: Callable[[], T]) -> T:
        """Return what `decide` returns, in another thread if that may take long. Then the cluster is up to date again.

        Hold `deciding` from the view until the decision is placed: decisions are made one at a time.
        """
        if is_short(pod, view):
            return decide()
        decision = await self.aside(decide)
        await self.cache.current(self.clock)
        return decision

    async def _begun(self, attempt: Attempt, pod: Pod, view: ClusterView) -> Work | None:
        try:
            return await self._decide(attempt, pod, view)
        except PluginFailed as failure:
            self.report.plugin_failed(pod, str(failure))
            self.queue.retry(attempt, self.clock.monotonic())
            return None
        except Exception as error:
            # A rule that fails for one pod must not keep the others from being scheduled.
            logger.exception("Scheduling decision failed", extra={"pod": pod.key})
            self.report.error(pod, Reason.SCHEDULER_ERROR, f"{type(error).__name__}: {error}")
            self.queue.retry(attempt, self.clock.monotonic())
            return None

    def invalid(self, pod: Pod, rejection: Rejection) -> None:
        """The pod cannot be scheduled until it is changed."""
        self.report.invalid(pod, rejection.reason, whole_text(rejection))

    def _is_assumed(self, pod: Pod) -> bool:
        placement = self.cache.assumed().get(pod.key)
        return placement is not None and placement.pod.uid == pod.uid

    def _due(self, attempt: Attempt) -> Pod | None:
        """Return the pod of the attempt, None if it is gone or has a node by now: then the attempt is done."""
        pod = self.queue.get(attempt.pod.key)
        if pod is None or pod.uid != attempt.pod.uid or self._is_assumed(pod):
            self.queue.done(attempt)
            return None
        return pod

    async def _decide(self, attempt: Attempt, pod: Pod, view: ClusterView) -> Work | None:
        profile = self.configuration.current.profiles[pod.scheduler_name]
        began, moment = self.clock.monotonic(), self.post_filter.moment(pod)
        work = partial(self.post_filter.decide, pod, view, profile, self.decider, moment)
        decision = await self.decided(pod, view, work)
        fits = not isinstance(decision, Unschedulable)
        self.metrics.decided(pod.scheduler_name, self.clock.monotonic() - began, fits=fits)
        if isinstance(decision, ScheduleResult):
            return self.place(attempt, decision, view, began) if self._due(attempt) is not None else None
        explain = partial(_explained, decision, partial(self.post_filter.victims, decision, view, profile, moment))
        diagnosis, answer = await self.decided(pod, view, explain)
        if self._due(attempt) is None:
            return None
        self.post_filter.nominate(pod, answer, moment)
        return self._rejected(attempt, pod, decision, diagnosis, answer)

    def place(
        self, attempt: Attempt, placement: ScheduleResult, view: ClusterView, began: float | None = None
    ) -> Work | None:
        """Assume a placement decided in this view; return the work that executes it, None if that is not possible.

        `began` is when the decision began, by the monotonic clock; None if it took no time.
        """
        rejection = self._reject_taken(placement, view) or self.cache.assume(
            placement, self.binding_cycle.plugins.reserves
        )
        if rejection is not None:
            self.report.lost(placement.pod, rejection.reason)
            self.queue.retry(attempt, self.clock.monotonic())
            return None
        self.post_filter.assumed(placement.pod, placement.node)
        node = view.node(placement.node)
        zone = node.zone if node is not None else ""
        return self._carry_out(attempt, placement, zone, self.clock.monotonic() if began is None else began)

    def _reject_taken(self, placement: ScheduleResult, view: ClusterView) -> Rejection | None:
        """Return what others have taken of the node since the view was made: a decision aside takes time."""
        now = self.cache.view(self.clock.now())
        storage, node = now.storage, now.node(placement.node)
        if storage.pools is not view.storage.pools and node is not None:
            claims = placement.volumes.provision
            too_much = reject_sum(claims, node.node, storage.snapshot, storage.pools, now.now, certain=False)
            if too_much is not None:
                return too_much
        if now.nodes is view.nodes:
            return None
        return reject_taken(placement, node, storage.snapshot)

    def _rejected(
        self,
        attempt: Attempt,
        pod: Pod,
        unschedulable: Unschedulable,
        diagnosis: Diagnosis,
        answer: Preemption | NoPreemption,
    ) -> Work | None:
        if isinstance(answer, Preemption):
            self.metrics.preempted(len(answer.victims))
            self.report.rejected(pod, diagnosis, diagnosis.text(), answer.node)
            return self._clear(attempt, pod, unschedulable, diagnosis, answer)
        hints = diagnosis.hints | {EVICTION} if answer.protected else diagnosis.hints
        self.queue.failed(attempt, hints, self.clock.monotonic(), wanted_by(unschedulable))
        self.report.rejected(pod, diagnosis, diagnosis.text(answer.why), None if answer.waits else "")
        return None

    async def _clear(
        self, attempt: Attempt, pod: Pod, unschedulable: Unschedulable, diagnosis: Diagnosis, preemption: Preemption
    ) -> None:
        """Nominate a node for a pod. The pod waits for its victims to end, or is retried if they cannot be evicted."""
        try:
            rejection = await self.post_filter.evict(await self._withdrawn(preemption, pod), pod)
        except LeadershipLost:
            raise
        except Exception as error:
            logger.exception("Preemption failed", extra={"pod": pod.key, "node": preemption.node})
            rejection = f"{type(error).__name__}: {error}"
        now = self.clock.monotonic()
        if rejection:
            self.report.rejected(pod, diagnosis, diagnosis.text(f"preemption: {rejection}."), "")
            self.queue.retry(attempt, now)
        else:
            self.queue.failed(attempt, diagnosis.hints, now, wanted_by(unschedulable))
        self.wake()

    async def _withdrawn(self, preemption: Preemption, pod: Pod) -> Preemption:
        """Withdraw victims that have no node yet, and return the preemption of the others: an eviction is a deletion.

        Source: PreemptPod in pkg/scheduler/framework/preemption/executor.go. Beyond it, a Binding that was sent is
        waited for, and a pod is evicted only once it is known to have its node.
        """
        victims: list[Pod] = []
        for victim in preemption.victims:
            if victim.node_name:
                victims.append(victim)
                continue
            await self.binding_cycle.withdraw(victim, f"preemption by pod {pod.uid}")
            if await self.assignments.has_node(victim):
                victims.append(victim)
            else:
                self.report.withdrawn(victim, pod, preemption.node)
        return replace(preemption, victims=tuple(victims))

    async def _carry_out(self, attempt: Attempt, placement: ScheduleResult, zone: str, began: float) -> None:
        pod, decided = placement.pod, self.clock.monotonic()
        if self.binding_cycle.has_work_before(placement):
            self.report.expected(placement)
        try:
            rejection = await self.binding_cycle.carry_out(placement)
        except LeadershipLost:
            raise
        except KubeError as error:
            self._take_back(attempt, placement, Reason.SCHEDULER_ERROR, str(error))
        except PluginFailed as failure:
            self._take_back(attempt, placement, Reason.PLUGIN_FAILED, str(failure))
        except Exception as error:
            logger.exception("Binding failed", extra={"pod": pod.key, "node": placement.node})
            self._take_back(attempt, placement, Reason.SCHEDULER_ERROR, f"{type(error).__name__}: {error}")
        else:
            if rejection is not None:
                self._take_back(attempt, placement, rejection.reason, whole_text(rejection))
                return
            now = self.clock.monotonic()
            self.cache.bound(pod.key, now)
            self.queue.done(attempt)
            times = SchedulingTimes(now - attempt.since, now - began, now - decided)
            self.report.scheduled(placement, zone, times, attempt.number)

    def _take_back(self, attempt: Attempt, placement: ScheduleResult, reason: Reason, text: str) -> None:
        """Forget a placement that could not be executed: pods that were rejected because of it are retried."""
        pod, now = placement.pod, self.clock.monotonic()
        self.cache.forget(pod.key)
        if reason in _LOST or self.queue.get(pod.key) is None:
            self.report.lost(pod, reason)
        else:
            self.report.error(pod, reason, text, nominated="")
        self.queue.retry(attempt, now)
        for change in forgotten(placement, self.cache.snapshot()):
            self.queue.change(change, now)
        self.wake()


def _explained(
    unschedulable: Unschedulable, victims: Callable[[], Preemption | NoPreemption]
) -> tuple[Diagnosis, Preemption | NoPreemption]:
    return diagnose(unschedulable), victims()
