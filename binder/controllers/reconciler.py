"""The loop over pods: plan, probe the chosen volumes, plan again, write, and report the result.

A key is a pod, not an event: each reconciliation starts from the present state, and a pod that has what it needs costs
nothing.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Final

from binder.controllers.deference import Deference
from binder.controllers.planner import Planner
from binder.controllers.pod_progress import KEEP_AT_MOST, PodProgress
from binder.controllers.wakeups import Wakeups
from binder.matching.matching import binding_mode, class_of
from binder.matching.rejection import Reason
from binder.model.decision import (
    Applied,
    Decision,
    Finish,
    Lost,
    Mode,
    Outdated,
    Provision,
    Reject,
    Reserve,
)
from binder.model.demand import MAX_CLAIMS
from binder.new_nodes.templates import is_new
from binder.planning.pod_claims import all_bound, begun, claims_of, nothing_left, open_claims
from binder.reporting.announce import Announcer
from binder.reporting.metrics import BindingMetrics
from binder.reporting.tracing import Tracing, facts_of
from binder.writers.actor import Actor
from binder.writers.health_gate import MAX_SLOW, PATIENCE, HealthGate
from binder.writers.scheduling_gate import KnownClaim, SchedulingGate
from binder.writers.selected_nodes import SelectedNodes
from kube.backoff import backoff
from kube.clock import Clock
from kube.errors import TerminalError
from kube.objects.model import Claim, Pod
from kube.store.store import Store
from kube.workqueue import WorkQueue

logger = logging.getLogger(__name__)

PODS_AT_ONCE: Final = 1000
"""Pods that may be collected, wait for a driver or be written concurrently. Writers have their own limit."""
ROUNDS: Final = 10
"""Plans with probes in between, before the pod yields to others: together far shorter than an Unknown is believed, so
that none of them offers a volume that was Unknown in an earlier one.
"""
MAX_PROBE_SECONDS: Final = PATIENCE
"""Seconds that probes may take without making the plan too old to execute."""
FIRST_RETRY: Final = 1.0
MAX_RETRY_SECONDS: Final = 60.0
"""Seconds. A rejected pod, or one that lost a volume, is retried after this, growing; a relevant change wakes it
sooner.
"""

_KEEPING: Final = frozenset({Reason.NO_NODE_FITS, Reason.OTHER_POD_PENDING})


@dataclass(slots=True)
class Reconciler:
    """Reconciles pods. Everything it needs is handed in; `run` belongs inside a term of the lease."""

    store: Store
    planner: Planner
    gate: HealthGate
    actor: Actor
    selected_nodes: SelectedNodes
    scheduling_gate: SchedulingGate
    announcer: Announcer
    wakeups: Wakeups
    queue: WorkQueue[str]
    clock: Clock
    rng: Random
    metrics: BindingMetrics
    tracing: Tracing
    _pods: dict[str, PodProgress] = field(default_factory=dict)
    _reserved_at: dict[str, float] = field(default_factory=dict)
    """When volumes were chosen for claims that are not bound yet, by the claims' keys."""
    _deference: Deference = field(init=False)

    def __post_init__(self) -> None:
        self._deference = Deference(self.store, self.clock)

    async def run(self) -> None:
        """Reconcile until the queue is shut down. Start it when all kinds are synced, not before."""
        await self.planner.prepare()
        with ExitStack() as stack:
            stack.enter_context(self.gate.following())
            stack.enter_context(self.planner.following())
            stack.enter_context(self.store.claims.listening(self._claim_changed))
            stack.enter_context(self.wakeups.following())
            await self.queue.run(PODS_AT_ONCE, self.handle)

    async def handle(self, key: str) -> float | None:
        """Do what the pod needs now; return the seconds until the next reconciliation, None if a change will trigger
        it.
        """
        await self._resolve_doubts(key)
        pod = self.store.snapshot().pods.get(key)
        known = {} if pod is None else self.scheduling_gate.known_claims(pod)
        if pod is None or pod.finished or not pod.claims:
            return await self._done(key, pod, known)
        if all_bound(pod, self.store.snapshot()):
            return await self._let_go(pod, known)
        progress = self._progress(key)
        if progress.seen_at is None:
            progress.seen_at = self.clock.monotonic()
        if begun(pod, self.store.snapshot()):
            self._deference.bind_begun(pod)
        elif (wait := self._deference.seconds_left(pod)) > 0:
            progress.waits_for = Reason.PROGRESSING
            return wait
        with self.tracing.attempt(pod):
            return await self._attempt(pod, known)

    async def _attempt(self, pod: Pod, known: Mapping[str, KnownClaim]) -> float | None:
        key = pod.key
        decision = await self._probed_decision(key)
        if isinstance(decision, Finish) and (wait := self._deference.seconds_left(pod, decision)) > 0:
            self._progress(key).waits_for = Reason.PROGRESSING
            return wait
        self._deference.taken_over(key)
        if decision is None:
            return FIRST_RETRY
        if isinstance(decision, Reserve) and (wait := self._deference.seconds_left(decision.pod, decision)) > 0:
            self.planner.settled(key)
            self._progress(key).waits_for = Reason.PROGRESSING
            return wait
        return await self._carry_out(pod, decision, known)

    async def _probed_decision(self, key: str) -> Decision | None:
        """Plan, and probe what was chosen, until all of it has a recent verdict; None if that takes too long or the pod
        is gone.

        If it takes too long because drivers do not report on volumes, the pod is rejected for that.
        """
        withheld: Reject | None = None
        for _ in range(ROUNDS):
            decision = await self._plan(key)
            if not isinstance(decision, Reserve | Finish | Provision) or not decision.volumes:
                return decision
            began = self.clock.monotonic()
            try:
                # After a first volume without a verdict, those that may be chosen next are probed as well.
                spare = () if withheld is None else await self.planner.spare(decision, MAX_SLOW)
                with self.tracing.step("probe"):
                    probed = await self.gate.probe(decision.volumes, self.clock.now(), spare)
            except BaseException:
                self.planner.settled(key)
                raise
            in_time = self.clock.monotonic() - began <= MAX_PROBE_SECONDS
            if not probed or (in_time and self.planner.stands(decision)):
                return decision
            withheld = self.planner.withheld(decision) or withheld
        self.planner.settled(key)
        return withheld

    async def _plan(self, key: str) -> Decision | None:
        with self.tracing.step("plan") as span:
            decision = await self.planner.decide(key)
            span.note(facts_of(decision))
            return decision

    async def _carry_out(self, pod: Pod, decision: Decision, known: Mapping[str, KnownClaim]) -> float | None:
        if isinstance(decision, Reserve | Finish):
            self._progress(pod.key).waits_for = Reason.ALREADY_RESERVED
            return await self._act(decision, known)
        if isinstance(decision, Provision):
            return await self._provision(decision)
        self._progress(pod.key).waits_for = decision.reason
        if isinstance(decision, Reject):
            return self._reject(decision) if self._may_keep(decision) else await self._lift(pod, known, None)
        wake = None if decision.until is None else max(0.0, (decision.until - self.clock.now()).total_seconds())
        if nothing_left(decision, self.store.snapshot()):
            if is_new(decision.node) and not await self.selected_nodes.await_node(pod):
                return FIRST_RETRY
            return await self._lift(pod, known, wake, decision)
        return wake

    async def _resolve_doubts(self, key: str) -> None:
        """Read the volumes that an earlier attempt may have written: until then they count as written for the pod."""
        doubts, claims = self.planner.doubts(key), self.planner.doubted_claims(key)
        if doubts or claims:
            await self.actor.read(doubts)
            await self.selected_nodes.read(claims)
            self.planner.settled(key)

    async def _let_go(self, pod: Pod, known: Mapping[str, KnownClaim]) -> float | None:
        """A pod that lacks no volume: behind our gate it waits as long as its room is booked for other pods."""
        if not known:
            return await self._done(pod.key, pod, known)
        with self.tracing.attempt(pod):
            return await self._lift_with_room(pod, known)

    async def _lift_with_room(self, pod: Pod, known: Mapping[str, KnownClaim]) -> float | None:
        decision = await self._plan(pod.key)
        if decision is None:
            return FIRST_RETRY
        if isinstance(decision, Reject) and decision.reason in _KEEPING and self._may_keep(decision):
            self._progress(pod.key).waits_for = decision.reason
            return self._reject(decision)
        committed = self._progress(pod.key).committed
        unread = {key: claim for key, claim in known.items() if not {pod.uid, claim.uid} <= committed}
        return await self._done(pod.key, pod, unread, decision)

    def _may_keep(self, decision: Reject) -> bool:
        return self._progress(decision.pod.key).may_keep(decision, self.clock.monotonic())

    def pending(self) -> Iterator[tuple[Claim, Reason]]:
        """Yield the unbound claims of pods reconciled so far, and what each waits for."""
        snapshot = self.store.snapshot()
        for key, progress in self._pods.items():
            pod = snapshot.pods.get(key) if progress.waits_for is not None else None
            for claim in open_claims(pod, snapshot) if pod is not None else ():
                assert progress.waits_for is not None
                yield claim, progress.waits_for

    def waiting(self) -> Mapping[str, Reason]:
        """Return for each pod reconciled so far, by key, what it waits for."""
        return {key: each.waits_for for key, each in self._pods.items() if each.waits_for is not None}

    def undecided(self) -> Iterator[str]:
        """Yield the keys of pods without a node that lack volumes and were not decided on or not reported yet."""
        snapshot, now = self.store.snapshot(), self.clock.monotonic()
        for key, pod in snapshot.pods.items():
            if not pod.claims or pod.finished or pod.deleting or pod.node_name or all_bound(pod, snapshot):
                continue
            known = self._pods.get(key, PodProgress())
            if known.is_withheld(now) or known.waits_for in {None, Reason.PROGRESSING}:
                yield key

    async def _act(self, decision: Reserve | Finish, known: Mapping[str, KnownClaim]) -> float | None:
        for placement in decision.placements:
            self._reserved_at.setdefault(placement.claim.key, self.clock.monotonic())
        try:
            with self.tracing.step("write"):
                outcome = await self.actor.act(decision)
        except TerminalError as error:
            self.planner.settled(decision.pod.key)
            logger.warning(
                "Reservation rejected by the API server", extra={"pod": decision.pod.key, "error": str(error)}
            )
            self.announcer.write_rejected(decision.pod, error.message)
            return self._later(decision)
        except BaseException:
            self.planner.doubted(decision.pod.key)
            raise
        if isinstance(outcome, Outdated):
            return self._again(decision, outcome.why)
        self._count(decision, outcome)
        if isinstance(outcome, Lost):
            self.announcer.lost(decision, outcome)
            return self._again(decision, outcome.why)
        self.announcer.reserved(decision)
        self.wakeups.forget(decision.pod.key)
        self._progress(decision.pod.key).forget_failures()
        held = {placement.claim.key: placement.claim.uid for placement in decision.placements}
        if isinstance(decision, Reserve) and decision.mode is Mode.PREBIND:
            self._progress(decision.pod.key).committed = frozenset((decision.pod.uid, *held.values()))
        unread = {key: claim for key, claim in known.items() if key not in held}
        return await self._lift(decision.pod, unread, None, decision)

    async def _provision(self, decision: Provision) -> float | None:
        """Have the volumes of the pod made on one node. Its gate stays until all of its claims are bound."""
        self._progress(decision.pod.key).waits_for = Reason.PROVISIONING
        try:
            with self.tracing.step("write"):
                outcome = await self.selected_nodes.select(decision)
        except BaseException as error:
            self.planner.doubted(decision.pod.key)
            if not isinstance(error, TerminalError):
                raise
            self.announcer.write_rejected(decision.pod, error.message)
            return self._later(decision)
        self.planner.settled(decision.pod.key)
        if isinstance(outcome, Outdated):
            return self._again(decision, outcome.why)
        self.announcer.node_selected(decision)
        self.wakeups.forget(decision.pod.key)
        self._progress(decision.pod.key).forget_failures()
        return None

    async def _lift(
        self,
        decided: Pod,
        unread: Mapping[str, KnownClaim],
        wake: float | None,
        decision: Decision | None = None,
    ) -> float | None:
        """Release the pod to kube-scheduler; return when to retry, soon if that did not work.

        A pod recreated under the name since the decision is reconciled separately, and one whose claims the PV
        controller has yet to bind is reconciled when they are bound.
        """
        pod = self.store.snapshot().pods.get(decided.key)
        try:
            if pod is None or pod.uid != decided.uid or pod.finished or pod.deleting:
                return wake
            if self.scheduling_gate.awaits_bind(pod):
                return wake
            if await self.scheduling_gate.lift(pod, unread, decision):
                return wake
        finally:
            self.planner.settled(decided.key)
        progress = self._progress(pod.key)
        progress.gates_kept += 1
        return backoff(progress.gates_kept, FIRST_RETRY, MAX_RETRY_SECONDS, self.rng.random())

    def _progress(self, key: str) -> PodProgress:
        return self._pods.setdefault(key, PodProgress())

    def _again(self, decision: Reserve | Finish | Provision, why: str) -> float:
        """Plan again at once; only a pod that needs it repeatedly waits longer each time."""
        self.planner.settled(decision.pod.key)
        logger.info("Reservation lost; replanning the pod", extra={"pod": decision.pod.key, "error": why})
        progress = self._progress(decision.pod.key)
        progress.losses += 1
        if progress.losses == 1:
            return 0.0
        return backoff(progress.losses - 1, FIRST_RETRY / 10, MAX_RETRY_SECONDS, self.rng.random())

    def _reject(self, decision: Reject) -> float:
        self._deference.not_servable(decision.pod.key)
        snapshot = self.store.snapshot()
        claims = open_claims(decision.pod, snapshot)
        for claim in claims:
            binding = binding_mode(claim, snapshot.classes) or ""
            self.metrics.attempted(class_of(claim), binding, success=False)
            self.metrics.failed(class_of(claim), decision.reason)
        progress, wait = self._progress(decision.pod.key), self._later(decision)
        untold = progress.seconds_to_report(decision.reason, self.clock.monotonic())
        if untold > 0:
            wait = min(wait, untold)
        else:
            self.announcer.rejected(decision, claims if len(claims) <= MAX_CLAIMS else ())
        if decision.reason is Reason.OTHER_POD_PENDING:
            wait = min(wait, KEEP_AT_MOST / 3)
        self.wakeups.rejected(decision.pod.key, _classes(claims or claims_of(decision.pod, snapshot)), wait)
        return wait

    def _later(self, decision: Decision) -> float:
        """Return the growing delay in seconds before a pod that got nothing is retried."""
        progress = self._progress(decision.pod.key)
        progress.rejections += 1
        return backoff(progress.rejections, FIRST_RETRY, MAX_RETRY_SECONDS, self.rng.random())

    def _count(self, decision: Reserve | Finish, outcome: Applied | Lost) -> None:
        classes = self.store.snapshot().classes
        for placement in decision.placements:
            binding = binding_mode(placement.claim, classes) or ""
            name = class_of(placement.claim)
            success = isinstance(outcome, Applied)
            self.metrics.attempted(name, binding, success=success)
            if isinstance(outcome, Lost):
                self.metrics.failed(name, outcome.reason)
            elif isinstance(decision, Reserve):
                now, seen_at = self.clock.monotonic(), self._progress(decision.pod.key).seen_at
                self.metrics.reserved_after(name, binding, 0.0 if seen_at is None else now - seen_at)

    def _claim_changed(self, old: Claim | None, new: Claim | None) -> None:
        if new is None:
            self._reserved_at.pop(old.key if old is not None else "", None)
        elif new.phase == "Bound" and (since := self._reserved_at.pop(new.key, None)) is not None:
            binding = binding_mode(new, self.store.snapshot().classes) or ""
            self.metrics.bound(class_of(new), binding, self.clock.monotonic() - since)

    async def _done(
        self, key: str, pod: Pod | None, known: Mapping[str, KnownClaim], decision: Decision | None = None
    ) -> float | None:
        """The pod is gone or lacks no volume. Its retries and Events are remembered until its gate is removed."""
        self._deference.done(key)
        self.planner.settled(key)
        self.wakeups.forget(key)
        if key in self._pods:
            self._pods[key].done()
        again = None if pod is None else await self._lift(pod, known, None, decision)
        if again is None:
            self.announcer.forget(key)
            self._pods.pop(key, None)
        return again


def _classes(claims: Iterable[Claim]) -> set[str]:
    return {class_of(claim) for claim in claims}
