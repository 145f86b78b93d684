"""Reads from the API server what became of a pod that was assigned and that no watch has shown.

A watch can be half-open for longer than an assignment takes to appear (kube.client.reflector.SILENCE_SECONDS), and a
node whose newest pods were forgotten meanwhile would look empty. kube-scheduler never forgets such a pod by itself
either (durationToExpireAssumedPod in pkg/scheduler/scheduler.go).
"""

import logging
from dataclasses import dataclass

import msgspec

from kube.client.api import KubeApi
from kube.clock import Clock
from kube.decoding.decode import decode_pod_record
from kube.errors import KubeError, NotFound
from kube.objects.api_resource import PODS
from kube.objects.model import Pod
from kube.store.collection import Collection
from scheduler.framework.plugin import ScheduleResult
from scheduler.standalone.cache import SchedulerCache

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NotAssigned:
    """A placement that had no effect. `waits`: the pod exists and has no node; else it is gone or has ended."""

    placement: ScheduleResult
    waits: bool


class AssignmentCheck:
    """Checks assignments that are overdue. `assigned` are the pods that have a node, according to a watch."""

    def __init__(self, api: KubeApi, assigned: Collection[Pod], cluster: SchedulerCache, clock: Clock) -> None:
        self._api = api
        self._assigned = assigned
        self._cluster = cluster
        self._clock = clock
        self._complaint = ""

    async def run(self) -> list[NotAssigned]:
        """Forget the overdue pods that have no node after all, and return them. The others are kept.

        If the API server does not respond, everything is kept until the next time.
        """
        ended: list[NotAssigned] = []
        for placement in self._cluster.overdue(self._clock.monotonic()):
            try:
                pod = await self._read(placement.pod)
            except (KubeError, msgspec.DecodeError) as error:
                self._complain(placement, error)
                break
            self._complaint = ""
            if self._cluster.assumed().get(placement.pod.key) is not placement:
                continue
            if pod is None or not pod.node_name or pod.finished:
                self._cluster.forget(placement.pod.key)
                ended.append(NotAssigned(placement, waits=pod is not None and not pod.finished))
                continue
            # What was read counts as if the watch had shown it. If that changes nothing, it is read again later.
            self._cluster.bound(pod.key, self._clock.monotonic())
            self._assigned.upsert(pod)
        return ended

    async def has_node(self, pod: Pod) -> bool:
        """Whether a pod is assigned; it is read from the API server if no watch has shown it. Raises KubeError."""
        shown = self._assigned.items.get(pod.key)
        if shown is not None and shown.uid == pod.uid:
            return True
        read = await self._read(pod)
        return read is not None and bool(read.node_name)

    async def _read(self, pod: Pod) -> Pod | None:
        """Return the pod from the API server; None if it is gone, even if another one has its name now."""
        try:
            read = decode_pod_record(await self._api.get(PODS, pod.name, pod.namespace))
        except NotFound:
            return None
        return read if read.uid == pod.uid else None

    def _complain(self, placement: ScheduleResult, error: Exception) -> None:
        """Log a failure when it is new."""
        complaint = type(error).__name__
        if complaint != self._complaint:
            logger.warning("Could not read assigned pod", extra={"pod": placement.pod.key, "error": str(error)})
        self._complaint = complaint
