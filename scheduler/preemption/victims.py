"""Which pods have to leave a node so that another one fits: as few and as unimportant ones as possible.

Source: SelectVictimsOnNode in pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, and
RunFilterPluginsWithNominatedPods in pkg/scheduler/framework/runtime/framework.go.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import add, sub
from typing import Final

from binder.matching.rejection import Reason
from kube.objects.model import Pod
from scheduler.cycle.cycle import Judgement
from scheduler.framework.plugin import NodeRule
from scheduler.framework.profile import Profile
from scheduler.plugins.resource_fit import DiskConflict, NodePorts, NodeResourcesFit
from scheduler.plugins.volume_filters import NodeVolumeLimits
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.prefilter_extensions import TALLIES, Counts, Tally
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeState, node_state, state_with_pod
from scheduler.volumes.volumes import PodInfo

LOCAL: Final = frozenset(one.name for one in (NodePorts, NodeResourcesFit, DiskConflict, NodeVolumeLimits))
"""Filters whose prepared rule looks at a node's state alone. For those that look at pods beyond it there are tallies.

Of any other filter nothing is known, or it is known not to look at pods: what it refuses, no eviction cures.
"""

INCURABLE: Final = frozenset({Reason.POD_AFFINITY_MISMATCH, Reason.TOPOLOGY_LABEL_MISSING})
"""What the others say of a node where fewer pods will not help (UnschedulableAndUnresolvable upstream)."""


@dataclass(frozen=True, slots=True)
class Question:
    """Does the pod fit, if other pods were on a node? What has to be asked for the answer.

    `local` are the rules of LOCAL, `wide` those for which there are tallies, `unmoved` all others.
    """

    info: PodInfo
    cluster: ClusterView
    unmoved: tuple[NodeRule, ...]
    local: tuple[NodeRule, ...]
    wide: tuple[NodeRule, ...]
    tallies: tuple[Tally, ...]
    filters: frozenset[str]
    """Names of the profile's filters; those that had nothing to say of the pod are among them."""

    @property
    def pod(self) -> Pod:
        return self.info.pod

    def with_nominated(self) -> "Question":
        """Return the question to ask where pods are added of which the judgement did not know."""
        prepared = (prepare(self.info, self.cluster) for name, prepare in TALLIES.items() if name in self.filters)
        return replace(self, tallies=tuple(prepared))


def question_of(judgement: Judgement, cluster: ClusterView, profile: Profile) -> Question:
    """Return the question about a pod that was judged in this cluster by this profile."""
    rules, info = judgement.rules, judgement.info
    return Question(
        info=info,
        cluster=cluster,
        unmoved=tuple(rule for name, rule in rules if name not in LOCAL and name not in TALLIES),
        local=tuple(rule for name, rule in rules if name in LOCAL),
        wide=tuple(rule for name, rule in rules if name in TALLIES),
        tallies=tuple(TALLIES[name](info, cluster) for name, _ in rules if name in TALLIES),
        filters=frozenset(one.name for one in profile.filters),
    )


@dataclass(frozen=True, slots=True)
class Trial:
    """A node with some pods gone or added. `counts` are those of the question's tallies, for this node."""

    question: Question
    state: NodeState
    counts: tuple[Counts, ...]

    @classmethod
    def on(cls, question: Question, state: NodeState) -> "Trial":
        return cls(question, state, tuple(tally.counts(state) for tally in question.tallies))

    def without(self, gone: Sequence[Pod]) -> "Trial":
        state, keys = self.state, {pod.key for pod in gone}
        left = [pod for pod in state.pods if pod.key not in keys]
        after = node_state(state.number, state.node, left, self.question.cluster.storage.snapshot)
        counts = self.counts
        for pod in gone if counts else ():
            counts = self._moved(counts, pod, sub)
        return Trial(self.question, after, counts)

    def having(self, more: Pod) -> "Trial":
        state = state_with_pod(self.state, more, self.question.cluster.storage.snapshot)
        return Trial(self.question, state, self._moved(self.counts, more, add) if self.counts else ())

    def _moved(self, counts: tuple[Counts, ...], pod: Pod, change: Callable[[int, int], int]) -> tuple[Counts, ...]:
        added = (tally.adds(pod, self.state) for tally in self.question.tallies)
        return tuple(tuple(map(change, before, more)) for before, more in zip(counts, added, strict=True))

    def fits(self) -> bool:
        """Whether the pod fits. What no eviction cures is not asked again."""
        # Most trials succeed, and then nobody pays for the words.
        for rule in self.question.local:
            if rule.why(self.state) is not None:
                return False
        asked = zip(self.question.tallies, self.counts, strict=True)
        return all(tally.allows(self.state, counts) for tally, counts in asked)

    def fits_beside(self, nominated: Sequence[Pod]) -> bool:
        """Whether the pod fits both with and without pods for which the node is being cleared.

        Without them too: nobody may count on the neighbourhood of a pod that is not there yet.
        """
        if not nominated:
            return self.fits()
        crowded = self
        for pod in nominated:
            crowded = crowded.having(pod)
        return crowded.fits() and self.fits()


@dataclass(frozen=True, slots=True)
class Helpless:
    """Why a node is no candidate: `protected` when evicting pods would help, but budgets forbid it."""

    protected: bool


def victims_on(trial: Trial, budgets: Budgets, nominated: Sequence[Pod], now: datetime) -> tuple[Pod, ...] | Helpless:
    """Return the pods to evict from a node, the most important first.

    Tried without all pods of lower priority first; then each that can stay is put back, those first that a budget
    protects and then the important ones. `nominated` are pods of at least the pod's priority with this node nominated.
    """
    lower = sorted(
        (pod for pod in trial.state.pods if pod.priority < trial.question.pod.priority),
        key=lambda pod: importance(pod, now),
    )
    movable = [pod for pod in lower if not budgets.never(pod)]
    if not movable:
        return Helpless(protected=bool(lower))
    left = trial.without(movable)
    if not left.fits_beside(nominated):
        return Helpless(protected=len(movable) < len(lower) and trial.without(lower).fits_beside(nominated))
    beyond = {pod.key for pod in budgets.beyond(movable)}
    victims = []
    for pod in sorted(movable, key=lambda pod: pod.key not in beyond):
        spared = left.having(pod)
        if spared.fits_beside(nominated):
            left = spared
        else:
            victims.append(pod)
    victims.sort(key=lambda pod: importance(pod, now))
    return tuple(victims) if victims and not budgets.beyond(victims) else Helpless(protected=bool(victims))


def importance(pod: Pod, now: datetime) -> tuple[int, datetime]:
    """Return the sort key of pods, the most important first: by priority, then who has run longest."""
    return -pod.priority, pod.started or now
