"""The loop over pods: plan, probe the chosen volumes, plan again, write, and report the result.

A key is a pod, not an event: each reconciliation starts from the present state, and a pod that has what it needs costs
nothing.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Final

from binder.controllers.head_start import HeadStart
from binder.controllers.planner import Planner
from binder.controllers.wakeups import Wakeups
from binder.matching.matching import binding_mode, class_of
from binder.matching.rejection import Reason
from binder.model.decision import Applied, Decision, Finish, Lost, Mode, Outdated, Placement, Reject, Reserve, Wait
from binder.model.demand import MAX_CLAIMS
from binder.planning.commitment import scheduler_may_serve
from binder.planning.pod_claims import all_bound, begun, claims_of, nothing_left, open_claims
from binder.reporting.announce import Announcer
from binder.reporting.observe import BindMetrics
from binder.writers.actor import Actor
from binder.writers.health_gate import HealthGate
from binder.writers.scheduling_gate import KnownClaim, SchedulingGate
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
"""Plans with probes in between, before the pod yields to others."""
MAX_PROBE_SECONDS: Final = 1.0
"""Seconds that probes may take without making the plan too old to execute."""
HINT_AFTER: Final = 5.0
"""Seconds after which a pod that its scheduler may be working on gets its hint.

A hint changes the volume, so that a concurrent write of kube-scheduler fails, and a pod with several claims may be left
with only some of them bound (volumebinding bindAPIUpdate). While a scheduler is active for any pod, others may only be
waiting for their turn in its queue.
"""
HINT_AT_LATEST: Final = 30.0
"""Seconds after which a pod gets its hint however busy schedulers are, unless a bind of its own is in progress."""
COMMIT_AFTER: Final = 5.0
"""Seconds for which schedulers must have begun no bind before volumes are committed to a pod reported as unschedulable,
and for which a pod with several claims must have been servable.

What makes it possible to serve the pod (a new volume, a claim that its scheduler had not seen yet) makes kube-scheduler
try it and others again. It commits volumes claim by claim, and keeps what it committed before it lost one to us.
"""
COMMIT_AT_LATEST: Final = 30.0
"""Seconds after which volumes are committed to such a pod however busy schedulers are."""
FIRST_RETRY: Final = 1.0
MAX_RETRY_SECONDS: Final = 60.0
"""Seconds. A rejected pod, or one that lost a volume, is retried after this, growing; a relevant change wakes it
sooner.
"""

KEEP_AT_MOST: Final = 30.0
"""Seconds for which a pod that has its volumes stays behind its gate because its room is booked for others.

kube-scheduler places those within seconds. If it cannot for a reason that is not known here, the pod does not wait for
ever.
"""


@dataclass(slots=True)
class _History:
    """A pod's history: consecutive rejections, losses and gates that could not be removed."""

    rejections: int = 0
    losses: int = 0
    gates_kept: int = 0
    kept_since: float | None = None

    def kept_gate(self) -> int:
        """Count another failure to remove its scheduling gate."""
        self.gates_kept += 1
        return self.gates_kept


@dataclass(slots=True)
class Reconciler:
    """Reconciles pods. Everything it needs is handed in; `run` belongs inside a term of the lease."""

    store: Store
    planner: Planner
    gate: HealthGate
    actor: Actor
    scheduling_gate: SchedulingGate
    announcer: Announcer
    wakeups: Wakeups
    queue: WorkQueue[str]
    clock: Clock
    rng: Random
    metrics: BindMetrics
    _histories: dict[str, _History] = field(default_factory=dict)
    _standing: dict[str, Reason] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)
    _seen_at: dict[str, float] = field(default_factory=dict)
    _looked_at: dict[str, float] = field(default_factory=dict)
    _servable_since: dict[str, float] = field(default_factory=dict)
    _at_work: float = float("-inf")
    _head_start: HeadStart = field(init=False)

    def __post_init__(self) -> None:
        self._head_start = HeadStart(self.clock)

    async def run(self) -> None:
        """Reconcile until the queue is shut down. Start it when all kinds are synced, not before."""
        await self.planner.prepare()
        with ExitStack() as stack:
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
        self._seen_at.setdefault(key, self.clock.monotonic())
        wait = self._seconds_to_hint(pod)
        if wait > 0 and not begun(pod, self.store.snapshot()):
            self._standing[key] = Reason.PROGRESSING
            return wait
        if begun(pod, self.store.snapshot()):
            self._notice_bind(pod)
        decision = await self._decide(key)
        if isinstance(decision, Finish) and (wait := self._head_start.seconds_left(key)) > 0:
            self._standing[key] = Reason.PROGRESSING
            return wait
        self._head_start.forget(key)
        if decision is None:
            return FIRST_RETRY
        if isinstance(decision, Reserve) and (wait := self._seconds_to_write(decision)) > 0:
            self.planner.settled(key)
            self._standing[key] = Reason.PROGRESSING
            return wait
        return await self._carry_out(pod, decision, known)

    async def _carry_out(self, pod: Pod, decision: Decision, known: Mapping[str, KnownClaim]) -> float | None:
        if isinstance(decision, Reserve | Finish):
            self._standing[pod.key] = Reason.ALREADY_RESERVED
            return await self._act(decision, known)
        self._standing[pod.key] = decision.reason
        if isinstance(decision, Reject):
            return self._reject(decision) if self._may_keep(decision) else await self._lift(pod, known, None)
        wake = None if decision.until is None else max(0.0, (decision.until - self.clock.now()).total_seconds())
        if nothing_left(decision, self.store.snapshot()):
            return await self._lift(pod, known, wake, node=decision.node)
        return wake

    async def _resolve_doubts(self, key: str) -> None:
        """Read the volumes that an earlier attempt may have written: until then they count as written for the pod."""
        doubts = self.planner.doubts(key)
        if doubts:
            await self.actor.read(doubts)
            self.planner.settled(key)

    async def _let_go(self, pod: Pod, known: Mapping[str, KnownClaim]) -> float | None:
        """A pod that lacks no volume: behind our gate it waits as long as its room is booked for other pods."""
        if not known:
            return await self._done(pod.key, pod, known)
        decision = await self.planner.decide(pod.key)
        if decision is None:
            return FIRST_RETRY
        keeping = {Reason.NO_NODE_FITS, Reason.OTHER_POD_PENDING}
        if isinstance(decision, Reject) and decision.reason in keeping and self._may_keep(decision):
            self._standing[pod.key] = decision.reason
            return self._reject(decision)
        return await self._done(pod.key, pod, known, node=decision.node if isinstance(decision, Wait) else "")

    def _may_keep(self, decision: Reject) -> bool:
        """Whether the pod stays behind its gate: with its volumes, and room that is booked for others, not for ever."""
        history, now = self._history(decision.pod.key), self.clock.monotonic()
        if decision.reason is not Reason.OTHER_POD_PENDING:
            history.kept_since = None
            return True
        if history.kept_since is None:
            history.kept_since = now
        return now - history.kept_since < KEEP_AT_MOST

    def pending(self) -> Iterator[tuple[Claim, Reason]]:
        """Yield the unbound claims of pods reconciled so far, and what each waits for."""
        snapshot = self.store.snapshot()
        for key, reason in self._standing.items():
            pod = snapshot.pods.get(key)
            for claim in open_claims(pod, snapshot) if pod is not None else ():
                yield claim, reason

    def _notice_bind(self, pod: Pod) -> None:
        """Note that a bind of the pod was begun: by its scheduler, unless the pod has a gate."""
        self._head_start.noticed(pod.key)
        if not pod.scheduling_gates:
            self._at_work = self.clock.monotonic()

    def _seconds_to_hint(self, pod: Pod) -> float:
        """Return how long the pod still waits for a hint."""
        if not scheduler_may_serve(pod):
            return 0.0
        now = self.clock.monotonic()
        if begun(pod, self.store.snapshot()):
            self._looked_at[pod.key] = self._at_work = now
        since = self._looked_at.setdefault(pod.key, now)
        return min(max(since, self._at_work) + HINT_AFTER, since + HINT_AT_LATEST) - now

    def _seconds_to_write(self, decision: Reserve) -> float:
        """Return how long its scheduler still has for another attempt at the pod."""
        pod = decision.pod
        if pod.scheduling_gates or scheduler_may_serve(pod):
            return self._seconds_to_hint(pod)
        now = self.clock.monotonic()
        since = self._servable_since.setdefault(pod.key, now)
        quiet_since = self._at_work if len(decision.placements) == 1 else max(since, self._at_work)
        return min(quiet_since + COMMIT_AFTER, since + COMMIT_AT_LATEST) - now

    async def _decide(self, key: str) -> Decision | None:
        """Plan until every chosen volume has a recent verdict; None if that takes too long or the pod is gone."""
        for _ in range(ROUNDS):
            decision = await self.planner.decide(key)
            if not isinstance(decision, Reserve | Finish):
                return decision
            began = self.clock.monotonic()
            if not await self._probed(decision):
                return decision
            if self.clock.monotonic() - began <= MAX_PROBE_SECONDS and self.planner.stands(decision):
                return decision
        self.planner.settled(key)
        return None

    async def _probed(self, decision: Reserve | Finish) -> bool:
        try:
            return await self.gate.probe(decision.volumes, self.clock.now())
        except BaseException:
            self.planner.settled(decision.pod.key)
            raise

    async def _act(self, decision: Reserve | Finish, known: Mapping[str, KnownClaim]) -> float | None:
        for placement in decision.placements:
            self._since.setdefault(placement.claim.key, self.clock.monotonic())
        try:
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
        self._histories.pop(decision.pod.key, None)
        held = {placement.claim.key for placement in decision.placements}
        unread = {key: claim for key, claim in known.items() if key not in held}
        prebound = decision.placements if isinstance(decision, Reserve) and decision.mode is Mode.PREBIND else ()
        try:
            return await self._lift(
                decision.pod, unread, None, node=_node_of(decision), prebound=prebound, waits=outcome.gate_waits
            )
        finally:
            self.planner.settled(decision.pod.key)

    async def _lift(
        self,
        decided: Pod,
        unread: Mapping[str, KnownClaim],
        wake: float | None,
        *,
        node: str = "",
        prebound: Sequence[Placement] = (),
        waits: bool = False,
    ) -> float | None:
        """Release the pod to kube-scheduler; return when to retry, soon if that did not work. It has room on `node`.

        A pod recreated under the name since the decision is reconciled separately.
        """
        pod = self.store.snapshot().pods.get(decided.key)
        if pod is None or pod.uid != decided.uid or pod.finished or pod.deleting:
            return wake
        try:
            lifted = await self.scheduling_gate.lift(pod, unread, node=node, prebound=prebound, waits=waits)
        finally:
            self.planner.settled(pod.key)
        if lifted:
            return wake
        return backoff(self._history(pod.key).kept_gate(), FIRST_RETRY, MAX_RETRY_SECONDS, self.rng.random())

    def _history(self, key: str) -> _History:
        return self._histories.setdefault(key, _History())

    def _again(self, decision: Reserve | Finish, why: str) -> float:
        """Plan again at once; only a pod that needs it repeatedly waits longer each time."""
        self.planner.settled(decision.pod.key)
        logger.info("Reservation lost; replanning the pod", extra={"pod": decision.pod.key, "error": why})
        history = self._history(decision.pod.key)
        history.losses += 1
        if history.losses == 1:
            return 0.0
        return backoff(history.losses - 1, FIRST_RETRY / 10, MAX_RETRY_SECONDS, self.rng.random())

    def _reject(self, decision: Reject) -> float:
        self._servable_since.pop(decision.pod.key, None)
        snapshot = self.store.snapshot()
        claims = open_claims(decision.pod, snapshot)
        for claim in claims:
            binding = binding_mode(claim, snapshot.classes) or ""
            self.metrics.attempted(class_of(claim), binding, success=False)
            self.metrics.failed(class_of(claim), decision.reason)
        self.announcer.rejected(decision, claims if len(claims) <= MAX_CLAIMS else ())
        wait = self._later(decision)
        if decision.reason is Reason.OTHER_POD_PENDING:
            wait = min(wait, KEEP_AT_MOST / 3)
        self.wakeups.rejected(decision.pod.key, _classes(claims or claims_of(decision.pod, snapshot)), wait)
        return wait

    def _later(self, decision: Decision) -> float:
        """Return the growing delay in seconds before a pod that got nothing is retried."""
        history = self._history(decision.pod.key)
        history.rejections += 1
        return backoff(history.rejections, FIRST_RETRY, MAX_RETRY_SECONDS, self.rng.random())

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
                now = self.clock.monotonic()
                self.metrics.reserved_after(name, binding, now - self._seen_at.get(decision.pod.key, now))

    def _claim_changed(self, old: Claim | None, new: Claim | None) -> None:
        if new is None:
            self._since.pop(old.key if old is not None else "", None)
        elif new.phase == "Bound" and (since := self._since.pop(new.key, None)) is not None:
            binding = binding_mode(new, self.store.snapshot().classes) or ""
            self.metrics.bound(class_of(new), binding, self.clock.monotonic() - since)

    async def _done(
        self, key: str, pod: Pod | None, known: Mapping[str, KnownClaim], *, node: str = ""
    ) -> float | None:
        """The pod is gone or lacks no volume. Its retries and Events are remembered until its gate is removed."""
        self._head_start.finished(key)
        self.planner.settled(key)
        self.wakeups.forget(key)
        self._standing.pop(key, None)
        self._looked_at.pop(key, None)
        self._servable_since.pop(key, None)
        self._seen_at.pop(key, None)
        again = None if pod is None else await self._lift(pod, known, None, node=node)
        if again is None:
            self.announcer.forget(key)
            self._histories.pop(key, None)
        return again


def _node_of(decision: Reserve | Finish) -> str:
    return decision.node if isinstance(decision, Reserve) else ""


def _classes(claims: Iterable[Claim]) -> set[str]:
    return {class_of(claim) for claim in claims}
