"""For a pod that fits no node: the node on which evictions cost least.

Source: pkg/scheduler/framework/preemption/preemption.go, with the six criteria of pickOneNodeForPreemption. One
difference is intended: a node where a disruption budget would be exceeded is no candidate at all, so the first
criterion is always a tie. And nothing is random: where nodes are sampled, the pod's uid determines where to begin.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zlib import crc32

from kube.objects.model import Pod
from scheduler.cycle.cycle import Unschedulable, passing
from scheduler.cycle.rejections import Alike, numbers_of, rejected_by, rejections, states_of
from scheduler.framework.plugin import Filter, NodeRule
from scheduler.framework.profile import Profile
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.victims import Helpless, Question, Trial, question_of, victims_on
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.state.node_memory import NodeMemory

MIN_CANDIDATES: Final = 100
MIN_CANDIDATES_PERCENTAGE: Final = 10
"""At least this many nodes are compared (minCandidateNodesAbsolute, minCandidateNodesPercentage)."""

_OFFSET: Final = 2**31
"""Added to each priority, so that one more victim never makes a sum smaller."""

NEVER: Final = "preemption: not eligible due to preemptionPolicy=Never."
WAITING: Final = "preemption: not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NOT_ENOUGH: Final = "node(s) would not fit the pod even without all pods of lower priority"
PROTECTED: Final = "node(s) whose pods of lower priority are protected by disruption budgets"

_NO_PRIORITY: Final = 2**31
"""That of a node without pods: there are none to evict."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Evict the victims, the most important first, and the pod fits the node. Some may be terminating already."""

    node: str
    victims: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class NoPreemption:
    """No pod is evicted, and why. The pod keeps its nominated node if `waits`.

    `protected`: there is a node where only disruption budgets forbid it, and those change with time.
    """

    why: str
    waits: bool = False
    protected: bool = False


class Preemptor:
    """Finds victims. It caches the lowest priority on each node, which never changes a result."""

    def __init__(self) -> None:
        self._lowest: NodeMemory[int] = NodeMemory()

    def preempt(
        self,
        unschedulable: Unschedulable,
        profile: Profile,
        budgets: Budgets,
        nominated: Mapping[str, Sequence[Pod]],
        going: Container[str] = (),
    ) -> Preemption | NoPreemption:
        """Return the victims for a pod that fits no node.

        `nominated` are the pods with nominated nodes, by node. `going` are uids of pods whose eviction was accepted,
        whether the cluster shows it yet or not.
        """
        pod, cluster = unschedulable.judgement.info.pod, unschedulable.cluster
        if pod.constraints is not None and not pod.constraints.preempts:
            return NoPreemption(NEVER, waits=True)
        question = question_of(unschedulable.judgement, cluster, profile)
        curable = _curable(unschedulable, question, profile)
        if _waits(pod, cluster, curable, nominated, going):
            return NoPreemption(WAITING, waits=True)
        lowest = self._lowest.answers("lowest priority", curable, _lowest_priority)
        inhabited = [state for state, least in zip(curable, lowest, strict=True) if least < pod.priority]
        counts = Counter({NOT_HELPFUL: len(cluster.nodes) - len(curable), NO_VICTIMS: len(curable) - len(inhabited)})
        candidates = _candidates(question, inhabited, budgets, nominated, counts)
        if candidates:
            return min(candidates, key=lambda candidate: cost(candidate.victims, cluster.now))
        return NoPreemption(_text(len(cluster.nodes), counts), protected=bool(counts[PROTECTED]))


def cost(victims: Sequence[Pod], now: datetime) -> tuple[int, int, int, float]:
    """Return the cost of an eviction; the smallest is chosen, of equal ones the first.

    The highest priority; the sum of priorities; the number of victims; and how long the longest-running of those with
    the highest priority has been running.
    """
    highest = victims[0].priority
    oldest = min(pod.started or now for pod in victims if pod.priority == highest)
    return highest, sum(pod.priority + _OFFSET for pod in victims), len(victims), -oldest.timestamp()


def candidates_wanted(nodes: int) -> int:
    """Return how many candidates are enough (calculateNumCandidates)."""
    return min(nodes, max(MIN_CANDIDATES, nodes * MIN_CANDIDATES_PERCENTAGE // 100))


def _candidates(
    question: Question,
    nodes: Sequence[NodeInfo],
    budgets: Budgets,
    nominated: Mapping[str, Sequence[Pod]],
    counts: Counter[str],
) -> list[Preemption]:
    """Return enough candidates; the reasons against other nodes are added to the counts."""
    wanted = candidates_wanted(len(nodes))
    start = crc32(question.pod.uid.encode()) % len(nodes) if wanted < len(nodes) else 0
    crowded = question.with_nominated() if nominated else question
    candidates: list[Preemption] = []
    for state in (*nodes[start:], *nodes[:start]):
        beside = [other for other in nominated.get(state.name, ()) if _precedes(other, question.pod)]
        victims = victims_on(Trial.on(crowded if beside else question, state), budgets, beside, question.cluster.now)
        if isinstance(victims, Helpless):
            counts[PROTECTED if victims.protected else NOT_ENOUGH] += 1
            continue
        candidates.append(Preemption(state.name, victims))
        if len(candidates) >= wanted:
            break
    return candidates


def _precedes(nominated: Pod, pod: Pod) -> bool:
    return nominated.priority >= pod.priority and nominated.uid != pod.uid


def _curable(unschedulable: Unschedulable, question: Question, profile: Profile) -> Sequence[NodeInfo]:
    """Return the nodes that reject the pod for a reason that evictions might resolve (status Unschedulable)."""
    if unschedulable.judgement.rejection is not None:
        return ()
    cluster, alike = question.cluster, Alike(unschedulable)
    curable = cluster.index.everything
    for pre_filter in profile.pre_filters:
        confined = pre_filter.confine(question.info, cluster)
        curable &= confined if isinstance(confined, int) else curable
    for rule in question.unmoved:
        curable &= ~rejected_by(rule, curable, alike)
    for unresolvable in (rule.unresolvable for rule in question.local if rule.unresolvable is not None):
        curable &= ~numbers_of(filter(unresolvable, states_of(curable, cluster)))
    # Where there is no room either, that is what is reported, and room can be made.
    roomy = passing(question.local, states_of(_incurable(question.wide, curable, alike), cluster))
    return states_of(curable & ~numbers_of(roomy), cluster)


def _incurable(rules: Iterable[tuple[Filter, NodeRule]], nodes: int, alike: Alike) -> int:
    """Return those of the nodes whose first rejection evictions cannot resolve."""
    incurable = 0
    for plugin, rule in rules:
        for reason, rejected in rejections(plugin, rule, nodes, alike) if plugin.unresolvable else ():
            incurable |= rejected if reason in plugin.unresolvable else 0
        nodes &= ~rejected_by(rule, nodes, alike)
    return incurable


def _waits(
    pod: Pod,
    cluster: ClusterView,
    curable: Sequence[NodeInfo],
    nominated: Mapping[str, Sequence[Pod]],
    going: Container[str],
) -> bool:
    """Whether pods are already terminating for it (PodEligibleToPreemptOthers)."""
    name = next((node for node, pods in nominated.items() if any(other.uid == pod.uid for other in pods)), "")
    state = cluster.node(name or pod.nominated_node)
    if state is None or all(state is not candidate for candidate in curable):
        return False
    lower = (other for other in state.pods if other.priority < pod.priority)
    return any(other.uid in going or (other.deleting and other.evicted) for other in lower)


def _lowest_priority(state: NodeInfo) -> int:
    return min((pod.priority for pod in state.pods), default=_NO_PRIORITY)


def _text(nodes: int, counts: Mapping[str, int]) -> str:
    reasons = ", ".join(sorted(f"{count} {text}" for text, count in counts.items() if count))
    return f"preemption: 0/{nodes} nodes are available: {reasons}." if reasons else ""
