"""Preemption in the scheduling loop: nodes are nominated for pods that fit nowhere, and kept for them meanwhile.

Source: PostFilter and the handling of nominatedNodeName in pkg/scheduler/schedule_one.go.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kube.objects.model import Pod
from kube.rules.disruption import DisruptionBudget
from kube.store.collection import Collection
from scheduler.cycle.cycle import Unschedulable, judge
from scheduler.framework.plugin import ScheduleResult
from scheduler.framework.profile import Profile
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.nominations import ByNode, Nominations, Reserving, on_nominated, outranked, stands
from scheduler.preemption.preemption import NoPreemption, Preemption, Preemptor
from scheduler.state.cluster import ClusterView, Place


class DecidesPods(Protocol):
    """Decides where a pod goes (scheduler.cycle.memoized_cycle.Decider)."""

    def decide(self, pod: Pod, view: ClusterView, profile: Profile) -> ScheduleResult | Unschedulable: ...


class EvictsPods(Protocol):
    """Evicts pods (scheduler.standalone.evict.Evictor)."""

    def going(self) -> frozenset[str]:
        """Return the uids of pods whose eviction was accepted and may not be visible yet."""

    async def evict(self, preemption: Preemption, preemptor: Pod, budgets: Budgets) -> str:
        """Evict all victims; return why that failed, empty if it did not."""


class NominationSink(Protocol):
    """Writes the status of pods (scheduler.standalone.pod_status.PodStatus)."""

    def nominate(self, pod: Pod, node: str) -> None:
        """Queue the nominated node of the pod, empty for none."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a decision depends on beside the pod, the view and the profile: taken before it, and constant during it.

    `kept` is the node nominated for the pod itself.
    """

    nominated: ByNode
    kept: str
    budgets: Budgets
    going: frozenset[str]


Renounced = Callable[[Pod, str], None]
"""Called with a waiting pod and the node that is not nominated for it any more."""


class PostFilter:
    """Keeps the nominated nodes. For one term: a new one reads them from the pods' status.

    `listeners` are notified of each nomination that ends otherwise than with the pod on that node: pods that were
    rejected because of it may fit now. They are notified here, because no watch shows it at that moment, or at all.
    """

    def __init__(self, budgets: Collection[DisruptionBudget], evictor: EvictsPods, status: NominationSink) -> None:
        self.listeners: list[Renounced] = []
        self._budgets = budgets
        self._evictor = evictor
        self._status = status
        self._nominations = Nominations()
        self._reserving = Reserving()
        self._counted: tuple[Mapping[str, DisruptionBudget], Budgets] | None = None
        self._preemptor = Preemptor()

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Follow the waiting pods. Events without a node do not affect a decision that they do not show yet.

        Must not be called for pods that count on a node already: events about their waiting are late.
        """
        pod = new or old
        if pod is None:
            return
        known = old if old is not None and new is not None and old.uid == new.uid else None
        if new is None or new.deleting or (known is not None and known.nominated_node and not new.nominated_node):
            self._notify(self._nominations.remove(pod.key))
        elif new.nominated_node and (known is None or known.nominated_node != new.nominated_node):
            self._notify(self._nominations.put(new, new.nominated_node))
        else:
            kept = self._nominations.of(new.key) if known is not None else ""
            self._notify(self._nominations.put(new, kept))

    def kept(self) -> ByNode:
        """Return the pods with nominated nodes, by node."""
        return self._nominations.by_node()

    def assumed(self, pod: Pod, node: str) -> None:
        """The pod counts on a node from now on."""
        gone = self._nominations.remove(pod.key)
        if gone is not None and gone[1] != node:
            self._notify(gone)

    def _notify(self, gone: Place | None) -> None:
        if gone is not None:
            for listener in self.listeners:
                listener(*gone)

    def moment(self, pod: Pod) -> Moment:
        """Return what a decision about the pod depends on now."""
        return Moment(self.kept(), self._nominations.of(pod.key), self._budgets_now(), self._evictor.going())

    def decide(
        self, pod: Pod, view: ClusterView, profile: Profile, decider: DecidesPods, moment: Moment
    ) -> ScheduleResult | Unschedulable:
        """Decide about a pod: its nominated node first, and never one that is nominated for a pod of higher
        priority.

        This and `victims` may run in another thread, one at a time: what changes is in the moment.
        """
        if not moment.nominated:
            return decider.decide(pod, view, profile)
        crowded = self._reserving.view(view, pod, moment.nominated)
        on_kept = on_nominated(pod, moment.kept, crowded, profile) if moment.kept else None
        decision = on_kept or decider.decide(pod, crowded, profile)
        if isinstance(decision, ScheduleResult) and crowded is not view and not stands(decision, view, profile):
            return Unschedulable(judge(pod, view, profile), view)
        return decision

    def victims(
        self, unschedulable: Unschedulable, view: ClusterView, profile: Profile, moment: Moment
    ) -> Preemption | NoPreemption:
        """Return the victims for a pod that was rejected in this view."""
        if unschedulable.cluster is not view:
            unschedulable = Unschedulable(judge(unschedulable.judgement.info.pod, view, profile), view)
        return self._preemptor.preempt(unschedulable, profile, moment.budgets, moment.nominated, moment.going)

    def nominate(self, pod: Pod, room: Preemption | NoPreemption, moment: Moment) -> None:
        """Nominate the node whose pods are to be evicted, from now on; end the pod's nomination if there is none."""
        if isinstance(room, Preemption):
            for loser in outranked(pod, room.node, moment.nominated):
                self._status.nominate(loser, "")
                self._notify(self._nominations.remove(loser.key))
            self._notify(self._nominations.put(pod, room.node))
        elif not room.waits:
            self._notify(self._nominations.remove(pod.key))

    async def evict(self, preemption: Preemption, pod: Pod) -> str:
        """Evict the victims; return why that failed, and then the nomination ends. Raises LeadershipLost."""
        rejection = await self._evictor.evict(preemption, pod, self._budgets_now())
        if rejection and self._nominations.of(pod.key) == preemption.node:
            self._notify(self._nominations.remove(pod.key))
        return rejection

    def _budgets_now(self) -> Budgets:
        """Return the budgets of this moment; the same object while none changes."""
        items = self._budgets.items
        if self._counted is None or self._counted[0] is not items:
            self._counted = items, Budgets(items.values())
        return self._counted[1]
