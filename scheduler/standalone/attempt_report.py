"""Tells how attempts at pods ended: Events and the pod's condition for people, counts for metrics.

Texts, reasons and actions are kube-scheduler's (pkg/scheduler/schedule_one.go, finishBinding and
handleSchedulingFailure), so what reads them there reads them here.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from binder.matching.rejection import Reason
from kube.client.event_recorder import EventDraft, EventSink, ObjectRef
from kube.objects.model import Pod
from scheduler.cycle.diagnosis import Diagnosis
from scheduler.framework.plugin import ScheduleResult
from scheduler.standalone.pod_status import SCHEDULER_ERROR, UNSCHEDULABLE, Said

logger = logging.getLogger(__name__)


class StatusSink(Protocol):
    """Writes the status of pods (scheduler.standalone.pod_status.PodStatus)."""

    def say(self, pod: Pod, said: Said) -> bool:
        """Have it written; return whether it is news."""

    def nominate(self, pod: Pod, node: str) -> None:
        """Have it written which node is kept for the pod; what else was said of it stays."""

    def forget(self, pod_key: str) -> None:
        """Say nothing more of the pod."""


@dataclass(frozen=True, slots=True)
class SchedulingTimes:
    """Seconds until a pod was assigned: since it was first seen, in its last attempt, of that after the decision."""

    waited: float
    attempt: float
    binding: float


class AttemptMetrics(Protocol):
    """Counts attempts. `profile` is the pod's scheduler name; times are in seconds."""

    def decided(self, profile: str, seconds: float, *, fits: bool) -> None:
        """A decision was made; `fits` if it was for a node."""

    def scheduled(self, profile: str, zone: str, times: SchedulingTimes, attempts: int) -> None:
        """A pod was assigned to a node of that zone, in so many attempts."""

    def preempted(self, victims: int) -> None:
        """A node is being cleared for a pod: so many others have to leave it."""

    def failed(self, profile: str, reason: Reason, *, error: bool) -> None:
        """An attempt found no node; or, an `error`, one was found and the pod could not be brought there."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt at a pod ended: with a placement, or with a reason and a sentence.

    `refused`: no node fits, rather than that something went wrong.
    """

    pod: Pod
    placement: ScheduleResult | None = None
    zone: str = ""
    reason: Reason | None = None
    text: str = ""
    refused: bool = False


class AttemptReport:
    """What is told to whom. `endings` are told of each attempt when it ends."""

    def __init__(self, events: EventSink, status: StatusSink, metrics: AttemptMetrics) -> None:
        self.endings: list[Callable[[Ending], None]] = []
        self._events = events
        self._status = status
        self._metrics = metrics

    def scheduled(self, placement: ScheduleResult, zone: str, times: SchedulingTimes, attempts: int) -> None:
        """The pod is assigned."""
        pod = placement.pod
        self._metrics.scheduled(pod.scheduler_name, zone, times, attempts)
        self._status.forget(pod.key)
        note = f"Successfully assigned {pod.key} to {placement.node}"
        self._publish(pod, "Normal", "Scheduled", "Binding", note)
        self._end(Ending(pod, placement, zone))

    def refused(self, pod: Pod, diagnosis: Diagnosis, text: str, nominated: str | None) -> None:
        """No node fits the pod. `nominated` is the node that is being cleared for it, see `Said`."""
        self._metrics.failed(pod.scheduler_name, diagnosis.reason, error=False)
        self._complain(pod, Said(UNSCHEDULABLE, text, nominated))
        self._end(Ending(pod, reason=diagnosis.reason, text=text, refused=True))

    def invalid(self, pod: Pod, reason: Reason, text: str) -> None:
        """The pod asks for something that means nothing."""
        self._metrics.failed(pod.scheduler_name, reason, error=False)
        self._complain(pod, Said(UNSCHEDULABLE, text))

    def error(self, pod: Pod, reason: Reason, text: str, nominated: str | None = None) -> None:
        """Something else went wrong: it will be tried again. `nominated` as in `Said`."""
        self._metrics.failed(pod.scheduler_name, reason, error=True)
        if self._complain(pod, Said(SCHEDULER_ERROR, text, nominated)):
            # In the log too: without rights there is neither an Event nor a condition.
            logger.warning("Scheduling attempt failed", extra={"pod": pod.key, "error": text})
        self._end(Ending(pod, reason=reason, text=text))

    def plugin_failed(self, pod: Pod, text: str) -> None:
        """A plugin failed for the pod, which is in the log already: it will be tried again."""
        self._metrics.failed(pod.scheduler_name, Reason.PLUGIN_FAILED, error=True)
        self._complain(pod, Said(SCHEDULER_ERROR, text))
        self._end(Ending(pod, reason=Reason.PLUGIN_FAILED, text=text))

    def lost(self, pod: Pod, reason: Reason) -> None:
        """The pod is gone or somebody else was faster: nothing that people should hear of."""
        self._metrics.failed(pod.scheduler_name, reason, error=True)
        self._end(Ending(pod, reason=reason, text="the pod was deleted or already has a node"))

    def expected(self, placement: ScheduleResult) -> None:
        """The pod will be on its node when its volumes are bound, which takes a while: autoscalers may know."""
        self._status.nominate(placement.pod, placement.node)

    def withdrawn(self, victim: Pod, preemptor: Pod, node: str) -> None:
        """A pod lost its node to a better one before it was assigned; it waits again."""
        self._events.publish(preempted(victim, preemptor, node, " before it was assigned"))

    def _end(self, ending: Ending) -> None:
        for told in self.endings:
            told(ending)

    def _complain(self, pod: Pod, said: Said) -> bool:
        """Say it; return whether it was news. As Events repeats are said too: they become a series, which lives on."""
        news = self._status.say(pod, said)
        self._publish(pod, "Warning", "FailedScheduling", "Scheduling", said.message)
        return news

    def _publish(self, pod: Pod, kind: str, reason: str, action: str, note: str) -> None:
        self._events.publish(EventDraft(reference(pod), None, kind, reason, action, note, pod.scheduler_name))


def reference(pod: Pod) -> ObjectRef:
    """Return the pod as the object of an Event."""
    return ObjectRef("v1", "Pod", pod.name, pod.namespace, pod.uid)


def preempted(victim: Pod, preemptor: Pod, node: str, when: str = "") -> EventDraft:
    """Return the Event about a victim, in kube-scheduler's words."""
    note = f"Preempted by pod {preemptor.uid} on node {node}{when}"
    by = preemptor.scheduler_name
    return EventDraft(reference(victim), reference(preemptor), "Normal", "Preempted", "Preempting", note, by)
