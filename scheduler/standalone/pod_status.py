"""Writes to a pod's status why it is not scheduled, and which node is nominated for it.

Only changes are written: an attempt that fails like the previous one costs no request, and a new process reads before
it writes. If several statuses of a pod are queued, only the latest is written. The form is that of
handleSchedulingFailure in pkg/scheduler/schedule_one.go: condition PodScheduled, status False.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from kube.backoff import backoff
from kube.client.api import KubeApi
from kube.clock import Clock
from kube.errors import Conflict, KubeError, NotFound, RetryableError
from kube.objects.api_resource import PODS
from kube.objects.model import Pod

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"

TRIES: Final = 4
WRITERS: Final = 4
"""Concurrent writes: binding pods has priority, and uses the other connections."""

_TYPE: Final = "PodScheduled"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SchedulingStatus:
    """The status to write to a pod. `nominated`: the nominated node, empty for none, None to leave it unchanged.

    Without a reason, no condition is written.
    """

    reason: str
    message: str
    nominated: str | None = None


_NOTHING: Final = SchedulingStatus("", "")


class PodStatus:
    """Writes in the background while `run` runs."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._last: dict[str, tuple[str, SchedulingStatus]] = {}
        self._wanted: dict[str, tuple[Pod, SchedulingStatus]] = {}
        self._writing: set[str] = set()
        self._something = asyncio.Event()
        self._complaint = ""

    def queue(self, pod: Pod, report: SchedulingStatus) -> bool:
        """Queue a status to be written; return whether it differs from the last one for the pod."""
        if self._last.get(pod.key) == (pod.uid, report):
            return False
        self._last[pod.key] = pod.uid, report
        self._wanted[pod.key] = pod, report
        self._something.set()
        return True

    def nominate(self, pod: Pod, node: str) -> None:
        """Queue the nominated node of a pod, empty for none; the rest of the status stays."""
        uid, report = self._last.get(pod.key, ("", _NOTHING))
        self.queue(pod, replace(report if uid == pod.uid else _NOTHING, nominated=node))

    def forget(self, pod_key: str) -> None:
        """Stop writing about a pod: it is assigned or gone."""
        self._last.pop(pod_key, None)
        self._wanted.pop(pod_key, None)

    async def run(self) -> None:
        """Write until cancelled. Raises LeadershipLost."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(self._write_all())

    async def _write_all(self) -> None:
        while True:
            # One write at a time for each pod: otherwise the older of two could be the last.
            while (key := next((key for key in self._wanted if key not in self._writing), None)) is None:
                self._something.clear()
                await self._something.wait()
            pod, report = self._wanted.pop(key)
            self._writing.add(key)
            try:
                await self._write(pod, report)
            except (KubeError, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
                self._complain(pod, error)
                if key not in self._wanted:
                    self._last.pop(key, None)  # It is written with the next attempt.
            finally:
                self._writing.discard(key)
                if key in self._wanted:
                    self._something.set()

    async def _write(self, pod: Pod, report: SchedulingStatus) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                document = msgspec.json.decode(await self._api.get(PODS, pod.name, pod.namespace))
                if _is_waiting(document, pod):
                    await self._patch(pod, report, document)
            except NotFound:
                return
            except RetryableError as error:
                if attempt == TRIES:
                    raise
                seconds = 0.0 if isinstance(error, Conflict) else backoff(attempt, 0.5, 10.0, 0.5)
                await self._clock.sleep(max(error.retry_after or 0.0, seconds))
            else:
                return

    async def _patch(self, pod: Pod, report: SchedulingStatus, document: dict[str, Any]) -> None:
        change = change_of(document, report, self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"))
        if not change:
            return
        await self._api.conditional_patch(
            PODS,
            pod.name,
            {"status": change},
            resource_version=document["metadata"]["resourceVersion"],
            namespace=pod.namespace,
            uid=pod.uid,
            subresource="status",
        )

    def _complain(self, pod: Pod, error: Exception) -> None:
        """Log a failure when it is new: it is the same for each pod."""
        complaint = f"{type(error).__name__} {getattr(error, 'reason', '')}"
        if complaint != self._complaint:
            logger.warning("Could not write pod status", extra={"pod": pod.key, "error": str(error)})
        self._complaint = complaint


def change_of(document: Mapping[str, Any], report: SchedulingStatus, now: str) -> dict[str, Any]:
    """Return the merge patch for a pod's status (its JSON); nothing if the status is as wanted already."""
    status = document.get("status") or {}
    conditions = status.get("conditions") or []
    before: dict[str, Any] = next((each for each in conditions if each.get("type") == _TYPE), {})
    change: dict[str, Any] = {}
    wanted = {"status": "False", "reason": report.reason, "message": report.message}
    if report.reason and any(before.get(key) != value for key, value in wanted.items()):
        since = before.get("lastTransitionTime", now) if before.get("status") == "False" else now
        condition = {"type": _TYPE, "lastProbeTime": None, "lastTransitionTime": since, **wanted}
        if generation := document["metadata"].get("generation"):
            condition["observedGeneration"] = generation
        change["conditions"] = [*(each for each in conditions if each.get("type") != _TYPE), condition]
    if report.nominated is not None and report.nominated != status.get("nominatedNodeName", ""):
        change["nominatedNodeName"] = report.nominated or None
    return change


def _is_waiting(document: Mapping[str, Any], pod: Pod) -> bool:
    return document["metadata"]["uid"] == pod.uid and not document["spec"].get("nodeName")
