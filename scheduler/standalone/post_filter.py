"""Preemption in the scheduling loop: nodes are nominated for pods that fit nowhere, and kept for them meanwhile.

Source: PostFilter and the handling of nominatedNodeName in pkg/scheduler/schedule_one.go.
"""

from collections.abc import Callable, Mapping
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

    def decide(
        self, pod: Pod, view: ClusterView, profile: Profile, decider: DecidesPods
    ) -> ScheduleResult | Unschedulable:
        """Decide about a pod: its nominated node first, and never one that is nominated for a pod of higher
        priority.
        """
        nominated = self.kept()
        if not nominated:
            return decider.decide(pod, view, profile)
        crowded = self._reserving.view(view, pod, nominated)
        decision = self._on_nominated(pod, crowded, profile) or decider.decide(pod, crowded, profile)
        if isinstance(decision, ScheduleResult) and crowded is not view and not stands(decision, view, profile):
            return Unschedulable(judge(pod, view, profile), view)
        return decision

    def _on_nominated(self, pod: Pod, view: ClusterView, profile: Profile) -> ScheduleResult | None:
        node = self._nominations.of(pod.key)
        return on_nominated(pod, node, view, profile) if node else None

    def preempt(self, unschedulable: Unschedulable, view: ClusterView, profile: Profile) -> Preemption | NoPreemption:
        """Return the victims for a pod that was rejected in this view. The node is nominated for it from now on."""
        pod, nominated = unschedulable.judgement.info.pod, self.kept()
        if unschedulable.cluster is not view:
            unschedulable = Unschedulable(judge(pod, view, profile), view)
        budgets = self._budgets_now()
        answer = self._preemptor.preempt(unschedulable, profile, budgets, nominated, self._evictor.going())
        if isinstance(answer, Preemption):
            for loser in outranked(pod, answer.node, nominated):
                self._status.nominate(loser, "")
                self._notify(self._nominations.remove(loser.key))
            self._notify(self._nominations.put(pod, answer.node))
        elif not answer.waits:
            self._notify(self._nominations.remove(pod.key))
        return answer

    async def evict(self, preemption: Preemption, pod: Pod) -> str:
        """Evict the victims; return why that failed, and then the nomination ends. Raises LeadershipLost."""
        refusal = await self._evictor.evict(preemption, pod, self._budgets_now())
        if refusal and self._nominations.of(pod.key) == preemption.node:
            self._notify(self._nominations.remove(pod.key))
        return refusal

    def _budgets_now(self) -> Budgets:
        """Return the budgets of this moment; the same object while none changes."""
        items = self._budgets.items
        if self._counted is None or self._counted[0] is not items:
            self._counted = items, Budgets(items.values())
        return self._counted[1]
