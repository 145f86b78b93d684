"""Evicts victims through the eviction API, which rejects whatever a disruption budget forbids. Nothing is deleted.

Source: actuatePodPreemption in pkg/scheduler/framework/preemption/executor.go, which deletes. Its condition
DisruptionTarget is not written here: the eviction API writes its own (addConditionAndDeletePod in
pkg/registry/core/pod/storage/eviction.go).
"""

import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kube.client.api import KubeApi
from kube.client.event_recorder import EventSink
from kube.client.reflector import SILENCE_SECONDS
from kube.clock import Clock
from kube.errors import KubeError, NotFound
from kube.objects.api_resource import PODS
from kube.objects.model import Pod
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.preemption import Preemption
from scheduler.standalone.attempt_report import preempted

PATIENCE: Final = 2 * SILENCE_SECONDS
"""Seconds for which an evicted pod counts as terminating although no watch shows it: a watch may be half-open."""

logger = logging.getLogger(__name__)


class _Answer(msgspec.Struct):
    """The Status in the response to an eviction; for a pod of two budgets the rejection is in its body."""

    status: str = ""
    message: str = ""


class Evictor:
    """Evicts pods, under the Lease of `api`."""

    def __init__(self, api: KubeApi, events: EventSink, clock: Clock) -> None:
        self._api = api
        self._events = events
        self._clock = clock
        self._since: dict[str, float] = {}

    def going(self) -> frozenset[str]:
        """Return the uids of pods whose eviction was accepted and may not be visible yet."""
        now = self._clock.monotonic()
        self._since = {uid: since for uid, since in self._since.items() if now - since < PATIENCE}
        return frozenset(self._since)

    async def evict(self, preemption: Preemption, preemptor: Pod, budgets: Budgets) -> str:
        """Evict all victims; return why that failed, empty if it did not.

        Those that budgets cover come first and the first rejection ends it, so that as few as possible are evicted in
        vain. Raises LeadershipLost.
        """
        for victim in in_order(preemption.victims, budgets):
            if victim.uid in self.going():
                continue
            try:
                rejection = await self._evict(victim)
            except NotFound:
                self._since[victim.uid] = self._clock.monotonic()
                continue
            except (KubeError, msgspec.DecodeError) as error:
                rejection = str(error)
            if rejection:
                logger.info("Eviction rejected", extra={"pod": victim.key, "node": preemption.node, "error": rejection})
                return f"could not evict pod {victim.key}: {rejection}"
            # A preemptor of higher priority may have had the same victim evicted before this response arrived.
            if victim.uid not in self.going():
                self._events.publish(preempted(victim, preemptor, preemption.node))
            self._since[victim.uid] = self._clock.monotonic()
        return ""

    async def _evict(self, victim: Pod) -> str:
        raw = await self._api.create(PODS, eviction(victim), victim.namespace, name=victim.name, subresource="eviction")
        answer = msgspec.json.decode(raw, type=_Answer)
        return answer.message if answer.status == "Failure" else ""


def in_order(victims: Sequence[Pod], budgets: Budgets) -> list[Pod]:
    """Return the victims that are not terminating already, those that may be rejected first."""
    staying = [victim for victim in victims if not victim.deleting]
    return sorted(staying, key=lambda victim: not budgets.of(victim))


def eviction(victim: Pod) -> dict[str, Any]:
    """Return the Eviction. With the uid it cannot apply to another pod of that name."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": victim.namespace, "name": victim.name},
        "deleteOptions": {"preconditions": {"uid": victim.uid}},
    }
