"""Schedules the pods of a simulated cluster with several concurrent workers, in simulated time.

The workers decide with the real plugins on the state that they see when they begin, and write with compare-and-set when
they are done, as schedulers that share a cluster do. The durations of decisions and writes are a model, so that the
same seed gives the same result to the byte on every machine; see the constants.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from random import Random
from typing import Final

from binder.matching.rejection import Reason
from kube.objects.constraints import NO_CONSTRAINTS
from kube.objects.model import Pod
from scheduler.cycle.cycle import Judgement, Unschedulable, decide, judge, nodes_wanted
from scheduler.framework.containment import PluginFailed
from scheduler.framework.plugin import ScheduleResult
from scheduler.framework.profile import Profile
from scheduler.queue.validation import reject_pod
from scheduler.simulator.simulated_cluster import SimulatedCluster, SimulatedState
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo

DECISION: Final = 2_000
"""Microseconds that a decision takes, and one more for every node."""
WRITES: Final = (2_000, 8_000)
"""Microseconds from which the duration of a write to the API server is drawn. Writes block no worker."""
_NODES_SAMPLED: Final = 128
"""Nodes, evenly spread, that are evaluated for the reason why a pod fits nowhere."""
_MAX_ATTEMPTS: Final = 2
"""Attempts at a pod that other pods may make schedulable, conflicts not counted."""


@dataclass(slots=True)
class SimulationOutcome:
    """The result for the pods. Times are in simulated microseconds from the beginning.

    `latencies` are those of the pods that were bound, `failures` the pods that were not, by the most common reason.
    `revisions` counts decisions that were revised because their input had changed, `conflicts` those of them that did
    not hold.
    """

    latencies: list[int] = field(default_factory=list)
    failed: dict[str, Reason] = field(default_factory=dict)
    revisions: int = 0
    conflicts: int = 0
    decisions: int = 0
    duration: int = 0

    @property
    def failures(self) -> Counter[Reason]:
        return Counter(self.failed.values())


@dataclass(frozen=True, slots=True)
class _Attempt:
    pod: Pod
    number: int
    seen: SimulatedState
    decision: ScheduleResult | Unschedulable | PluginFailed


class Simulation:
    """Runs once."""

    def __init__(self, cluster: SimulatedCluster, profile: Profile, concurrent: int, seed: int) -> None:
        self.outcome = SimulationOutcome()
        self._cluster = cluster
        self._profile = profile
        self._idle = concurrent
        self._random = Random(seed)
        self._now = 0
        self._waiting: list[tuple[tuple[int, float, str], int, Pod]] = []
        self._running: list[tuple[int, int, _Attempt]] = []
        self._hopeful: list[Pod] = []

    def run(self, pods: Iterable[Pod], progress: Callable[[], None] = lambda: None) -> SimulationOutcome:
        """Schedule the pods, all of them present from the start. `progress` is called when a pod is finished.

        Pods that the scheduler would not queue, because they are gated or invalid, fail at once.
        """
        for pod in pods:
            aside = _kept_aside(pod)
            if aside is None:
                self._wait(pod, 1)
            else:
                self.outcome.failed[pod.key] = aside
                progress()
        while self._waiting or self._running or self._hopeful:
            self._begin()
            if not self._running:
                self._try_again()
                continue
            self._now, _, attempt = heappop(self._running)
            self._idle += 1
            if self._finish(attempt):
                progress()
        self.outcome.duration = max([self._now, self.outcome.duration])
        return self.outcome

    def _wait(self, pod: Pod, attempt: int) -> None:
        heappush(self._waiting, (self._profile.queue_sort.key(pod), attempt, pod))

    def _begin(self) -> None:
        """Assign a pod to every idle worker."""
        while self._idle and self._waiting:
            _, number, pod = heappop(self._waiting)
            self._idle -= 1
            self.outcome.decisions += 1
            state = self._cluster.state
            decision = self._decided(pod, state.view)
            done = self._now + DECISION + len(state.view.nodes)
            heappush(self._running, (done, self.outcome.decisions, _Attempt(pod, number, state, decision)))

    def _decided(self, pod: Pod, view: ClusterView) -> ScheduleResult | Unschedulable | PluginFailed:
        try:
            return decide(pod, view, self._profile, self._start(len(view.nodes)))
        except PluginFailed as failure:
            return failure

    def _start(self, nodes: int) -> int:
        """Return the node at which the search begins: after those of the previous decision, as kube-scheduler
        rotates.
        """
        looked_at = nodes_wanted(nodes, self._profile.percentage_of_nodes_to_score)
        step = looked_at if looked_at < nodes else 1
        return self.outcome.decisions * step % nodes if nodes else 0

    def _finish(self, attempt: _Attempt) -> bool:
        """Apply a decision; return whether the pod is finished."""
        if isinstance(attempt.decision, PluginFailed):
            self.outcome.failed[attempt.pod.key] = Reason.PLUGIN_FAILED
            return True
        if isinstance(attempt.decision, Unschedulable):
            self.outcome.failed[attempt.pod.key] = _commonest(attempt.decision)
            if attempt.number < _MAX_ATTEMPTS and _may_be_helped(attempt.pod):
                self._hopeful.append(attempt.pod)
                return False
            return True
        if not self._cluster.place(attempt.decision, attempt.seen, self._revised, self._now):
            self.outcome.conflicts += 1
            self._wait(attempt.pod, attempt.number)
            return False
        self.outcome.failed.pop(attempt.pod.key, None)
        volumes = attempt.decision.volumes
        writes = 1 + 2 * (len(volumes.volumes) + len(volumes.provision))
        bound = self._now + sum(self._random.randint(*WRITES) for _ in range(writes))
        self.outcome.latencies.append(bound)
        self.outcome.duration = max(self.outcome.duration, bound)
        return True

    def _revised(self, placement: ScheduleResult, view: ClusterView) -> ScheduleResult | None:
        self.outcome.revisions += 1
        node = view.node(placement.node)
        try:
            judgement = judge(placement.pod, view, self._profile)
            if node is None or judgement.why(node) is not None:
                return None
        except PluginFailed:
            # Decided again, where the same failure ends it.
            return None
        return replace(placement, volumes=judgement.info.choice(node).own)

    def _try_again(self) -> None:
        for pod in self._hopeful:
            self._wait(pod, _MAX_ATTEMPTS)
        self._hopeful.clear()


def _kept_aside(pod: Pod) -> Reason | None:
    rejected = reject_pod(pod)
    if rejected is not None:
        return rejected.reason
    return Reason.POD_GATED if pod.scheduling_gates else None


def _may_be_helped(pod: Pod) -> bool:
    """Whether pods placed later may make a node fit: they only take room, but the pod may require one of them
    nearby.
    """
    constraints = pod.constraints or NO_CONSTRAINTS
    return bool(constraints.affinity or constraints.spread)


def _commonest(decision: Unschedulable) -> Reason:
    judgement, nodes = decision.judgement, decision.cluster.nodes
    if judgement.rejection is not None:
        return judgement.rejection.reason
    sample = nodes[:: max(1, len(nodes) // _NODES_SAMPLED)]
    try:
        return _commonest_of(judgement, sample)
    except PluginFailed:
        return Reason.PLUGIN_FAILED


def _commonest_of(judgement: Judgement, sample: Sequence[NodeInfo]) -> Reason:
    reasons = Counter(rejection.reason for node in sample if (rejection := judgement.why(node)) is not None)
    return max(reasons, key=lambda reason: (reasons[reason], reason), default=Reason.NO_NODE_FITS)
