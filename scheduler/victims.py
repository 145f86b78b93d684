"""Which pods have to leave a node so that another one fits: as few and as unimportant ones as possible.

Source: SelectVictimsOnNode in pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, and
RunFilterPluginsWithNominatedPods in pkg/scheduler/framework/runtime/framework.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from binder.rejection import Reason
from kube.model import Pod
from scheduler.budgets import Budgets
from scheduler.cluster import ClusterView
from scheduler.cycle import Judgement
from scheduler.node_rules import NodeAffinity, NodeReady, TaintToleration
from scheduler.node_state import NodeState, node_state, state_with_pod
from scheduler.plugin import Filter, NodeRule
from scheduler.profile import Profile
from scheduler.reservation_filters import LocalStorage, ReservedVolume, VolumeHealth
from scheduler.resource_fit import NodePorts, NodeResourcesFit
from scheduler.volume_filters import NodeVolumeLimits, VolumeBinding, VolumeZone

UNMOVED: Final = frozenset(
    one.name
    for one in (
        NodeReady,
        TaintToleration,
        NodeAffinity,
        ReservedVolume,
        VolumeHealth,
        VolumeBinding,
        LocalStorage,
        VolumeZone,
    )
)
"""Filters that do not look at pods that are there: what they refuse, no eviction cures."""

LOCAL: Final = frozenset(one.name for one in (NodePorts, NodeResourcesFit, NodeVolumeLimits))
"""Filters whose prepared rule looks at a node's state alone. All others are prepared anew when pods come and go."""

INCURABLE: Final = frozenset({Reason.POD_AFFINITY_MISMATCH, Reason.TOPOLOGY_LABEL_MISSING})
"""What the others say of a node where fewer pods will not help (UnschedulableAndUnresolvable upstream)."""


@dataclass(frozen=True, slots=True)
class Question:
    """Does the pod fit, if other pods were on a node? The filters that have to be asked for the answer.

    `everything_wide` are those not in LOCAL, `wide` the ones of them that had something to say of this pod.
    """

    judgement: Judgement
    unmoved: tuple[NodeRule, ...]
    local: tuple[NodeRule, ...]
    wide: tuple[Filter, ...]
    everything_wide: tuple[Filter, ...]

    @property
    def pod(self) -> Pod:
        return self.judgement.info.pod

    def with_nominated(self) -> "Question":
        """Return the question to ask where pods are added that the judgement did not know of."""
        return replace(self, wide=self.everything_wide)


def question_of(judgement: Judgement, profile: Profile) -> Question:
    rules = dict(judgement.rules)
    others = tuple(one for one in profile.filters if one.name not in UNMOVED | LOCAL)
    return Question(
        judgement=judgement,
        unmoved=tuple(rule for name, rule in judgement.rules if name in UNMOVED),
        local=tuple(rule for name, rule in judgement.rules if name in LOCAL),
        wide=tuple(one for one in others if one.name in rules),
        everything_wide=others,
    )


@dataclass(frozen=True, slots=True)
class Trial:
    """A node with some pods gone or added. `cluster` is up to date only for filters that look beyond the node."""

    question: Question
    cluster: ClusterView
    state: NodeState

    def without(self, gone: Sequence[Pod]) -> "Trial":
        state = self.state
        if self.question.wide:
            return self._moved(self.cluster.with_moves([((pod, state.name), None) for pod in gone]))
        keys = {pod.key for pod in gone}
        left = [pod for pod in state.pods if pod.key not in keys]
        return replace(self, state=node_state(state.number, state.node, left, self.cluster.storage.snapshot))

    def having(self, more: Pod) -> "Trial":
        if self.question.wide:
            return self._moved(self.cluster.with_pod(more, self.state.name))
        return Trial(self.question, self.cluster, state_with_pod(self.state, more, self.cluster.storage.snapshot))

    def _moved(self, cluster: ClusterView) -> "Trial":
        return Trial(self.question, cluster, cluster.nodes[self.state.number])

    def fits(self) -> bool:
        """Whether the pod fits. What no eviction cures is not asked again."""
        state, info = self.state, self.question.judgement.info
        if any(rule.why(state) is not None for rule in self.question.local):
            return False
        rules = (one.rule(info, self.cluster) for one in self.question.wide)
        return all(rule is None or allows(rule, state) for rule in rules)

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


def allows(rule: NodeRule, state: NodeState) -> bool:
    return bool(rule.among >> state.number & 1) if rule.among is not None else rule.why(state) is None


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
