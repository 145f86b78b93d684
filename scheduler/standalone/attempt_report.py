"""Reports the results of attempts: Events and the pod's condition for people, counts for metrics.

Texts, reasons and actions are kube-scheduler's (pkg/scheduler/schedule_one.go, finishBinding and
handleSchedulingFailure), so tools that parse them keep working.
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
from scheduler.standalone.metrics import SchedulerMetrics, SchedulingTimes
from scheduler.standalone.pod_status import SCHEDULER_ERROR, UNSCHEDULABLE, SchedulingStatus

logger = logging.getLogger(__name__)


class StatusSink(Protocol):
    """Writes the status of pods (scheduler.standalone.pod_status.PodStatus)."""

    def queue(self, pod: Pod, report: SchedulingStatus) -> bool:
        """Queue a status to be written; return whether it is new."""

    def nominate(self, pod: Pod, node: str) -> None:
        """Queue the nominated node to be written; the rest of the status stays."""

    def forget(self, pod_key: str) -> None:
        """Stop writing about the pod."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The result of an attempt: a placement, or a reason and a sentence.

    `rejected`: no node fits; otherwise something went wrong.
    """

    pod: Pod
    placement: ScheduleResult | None = None
    zone: str = ""
    reason: Reason | None = None
    text: str = ""
    rejected: bool = False


class AttemptReport:
    """Which result is reported where. `endings` are notified of each attempt when it ends."""

    def __init__(self, events: EventSink, status: StatusSink, metrics: SchedulerMetrics) -> None:
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

    def rejected(self, pod: Pod, diagnosis: Diagnosis, text: str, nominated: str | None) -> None:
        """No node fits the pod. `nominated` is the node nominated for it, see `SchedulingStatus`."""
        self._metrics.failed(pod.scheduler_name, diagnosis.reason, error=False)
        self._complain(pod, SchedulingStatus(UNSCHEDULABLE, text, nominated))
        self._end(Ending(pod, reason=diagnosis.reason, text=text, rejected=True))

    def invalid(self, pod: Pod, reason: Reason, text: str) -> None:
        self._metrics.failed(pod.scheduler_name, reason, error=False)
        self._complain(pod, SchedulingStatus(UNSCHEDULABLE, text))

    def error(self, pod: Pod, reason: Reason, text: str, nominated: str | None = None) -> None:
        """Something else went wrong: the pod will be retried. `nominated` as in `SchedulingStatus`."""
        self._metrics.failed(pod.scheduler_name, reason, error=True)
        if self._complain(pod, SchedulingStatus(SCHEDULER_ERROR, text, nominated)):
            # In the log too: without rights there is neither an Event nor a condition.
            logger.warning("Scheduling attempt failed", extra={"pod": pod.key, "error": text})
        self._end(Ending(pod, reason=reason, text=text))

    def plugin_failed(self, pod: Pod, text: str) -> None:
        """A plugin failed for the pod, which is in the log already: the pod will be retried."""
        self._metrics.failed(pod.scheduler_name, Reason.PLUGIN_FAILED, error=True)
        self._complain(pod, SchedulingStatus(SCHEDULER_ERROR, text))
        self._end(Ending(pod, reason=Reason.PLUGIN_FAILED, text=text))

    def lost(self, pod: Pod, reason: Reason) -> None:
        """The pod is gone or another writer was faster: nothing to report to people."""
        self._metrics.failed(pod.scheduler_name, reason, error=True)
        self._end(Ending(pod, reason=reason, text="the pod was deleted or already has a node"))

    def expected(self, placement: ScheduleResult) -> None:
        """The pod will be on its node when its volumes are bound, which takes a while: autoscalers may read that."""
        self._status.nominate(placement.pod, placement.node)

    def withdrawn(self, victim: Pod, preemptor: Pod, node: str) -> None:
        """A pod lost its node to one of higher priority before it was assigned; it waits again."""
        self._events.publish(preempted(victim, preemptor, node, " before it was assigned"))

    def _end(self, ending: Ending) -> None:
        for observer in self.endings:
            observer(ending)

    def _complain(self, pod: Pod, report: SchedulingStatus) -> bool:
        """Write it; return whether it was new. As Events repeats are sent too: they become a series, which is kept
        alive.
        """
        news = self._status.queue(pod, report)
        self._publish(pod, "Warning", "FailedScheduling", "Scheduling", report.message)
        return news

    def _publish(self, pod: Pod, kind: str, reason: str, action: str, note: str) -> None:
        self._events.publish(EventDraft(ObjectRef.of_pod(pod), None, kind, reason, action, note, pod.scheduler_name))


def preempted(victim: Pod, preemptor: Pod, node: str, when: str = "") -> EventDraft:
    """Return the Event about a victim, in kube-scheduler's words."""
    note = f"Preempted by pod {preemptor.uid} on node {node}{when}"
    by = preemptor.scheduler_name
    return EventDraft(
        ObjectRef.of_pod(victim), ObjectRef.of_pod(preemptor), "Normal", "Preempted", "Preempting", note, by
    )
