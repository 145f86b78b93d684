"""Which pods have to be evicted from a node so that another one fits: as few and as unimportant ones as possible.

Source: SelectVictimsOnNode in pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, and
RunFilterPluginsWithNominatedPods in pkg/scheduler/framework/runtime/framework.go.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import add, sub
from typing import Final

from kube.objects.model import Pod
from scheduler.cycle.cycle import Judgement
from scheduler.framework.plugin import Counts, Eviction, Filter, NodeRule, Tally
from scheduler.framework.profile import Profile
from scheduler.preemption.budgets import Budgets
from scheduler.state.cluster import ClusterView, Move
from scheduler.state.node_info import NodeInfo, node_info, state_with_pod
from scheduler.volumes.volumes import PodInfo


@dataclass(frozen=True, slots=True)
class Question:
    """Whether the pod fits if other pods were on a node: everything needed to evaluate that.

    The rules and filters are sorted by what they declare (`Filter.eviction`). `unmoved` and `local` are prepared rules;
    `counting` are the filters with a tally, `tallies` those that apply to the pod, and `unknown` the filters that
    declare nothing: all of the profile, whether or not they apply.
    """

    info: PodInfo
    cluster: ClusterView
    unmoved: tuple[NodeRule, ...]
    local: tuple[NodeRule, ...]
    wide: tuple[tuple[Filter, NodeRule], ...]
    counting: tuple[Filter, ...]
    tallies: tuple[Tally, ...]
    unknown: tuple[Filter, ...]

    @property
    def pod(self) -> Pod:
        return self.info.pod

    def with_nominated(self) -> "Question":
        """Return the question for trials that add pods which the judgement did not include."""
        return replace(self, tallies=tuple(plugin.tally(self.info, self.cluster) for plugin in self.counting))


def question_of(judgement: Judgement, cluster: ClusterView, profile: Profile) -> Question:
    """Return the question about a pod that was judged in this cluster by this profile."""
    rules, info = judgement.rules, judgement.info
    return Question(
        info=info,
        cluster=cluster,
        unmoved=tuple(rule for plugin, rule in rules if plugin.eviction is Eviction.UNMOVED),
        local=tuple(rule for plugin, rule in rules if plugin.eviction is Eviction.LOCAL),
        wide=tuple((plugin, rule) for plugin, rule in rules if plugin.eviction in _WIDE),
        counting=tuple(plugin for plugin in profile.filters if plugin.eviction is Eviction.INCREMENTAL),
        tallies=tuple(plugin.tally(info, cluster) for plugin, _ in rules if plugin.eviction is Eviction.INCREMENTAL),
        unknown=tuple(plugin for plugin in profile.filters if plugin.eviction is Eviction.UNKNOWN),
    )


_WIDE: Final = frozenset({Eviction.INCREMENTAL, Eviction.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Trial:
    """A node with some pods removed or added. `counts` are those of the question's tallies, for this node.

    `cluster` shows the same, for filters that declare nothing; it is not maintained if there are none.
    """

    question: Question
    state: NodeInfo
    counts: tuple[Counts, ...]
    cluster: ClusterView

    @classmethod
    def on(cls, question: Question, state: NodeInfo) -> "Trial":
        return cls(question, state, tuple(tally.counts(state) for tally in question.tallies), question.cluster)

    def without(self, gone: Sequence[Pod]) -> "Trial":
        state, keys = self.state, {pod.key for pod in gone}
        left = [pod for pod in state.pods if pod.key not in keys]
        after = node_info(state.number, state.node, left, self.question.cluster.storage.snapshot)
        counts = self.counts
        for pod in gone if counts else ():
            counts = self._moved(counts, pod, sub)
        return Trial(self.question, after, counts, self._shown(((pod, state.name), None) for pod in gone))

    def having(self, more: Pod) -> "Trial":
        state = state_with_pod(self.state, more, self.question.cluster.storage.snapshot)
        counts = self._moved(self.counts, more, add) if self.counts else ()
        return Trial(self.question, state, counts, self._shown([(None, (more, state.name))]))

    def _shown(self, moves: Iterable[Move]) -> ClusterView:
        return self.cluster.with_moves(moves) if self.question.unknown else self.cluster

    def _moved(self, counts: tuple[Counts, ...], pod: Pod, change: Callable[[int, int], int]) -> tuple[Counts, ...]:
        added = (tally.adds(pod, self.state) for tally in self.question.tallies)
        return tuple(tuple(map(change, before, more)) for before, more in zip(counts, added, strict=True))

    def fits(self) -> bool:
        """Whether the pod fits. What no eviction can resolve is not evaluated again."""
        # Most trials succeed, and then no text needs to be formatted.
        for rule in self.question.local:
            if rule.why(self.state) is not None:
                return False
        counted = zip(self.question.tallies, self.counts, strict=True)
        if not all(tally.allows(self.state, counts) for tally, counts in counted):
            return False
        return all(self._allowed_by(plugin) for plugin in self.question.unknown)

    def _allowed_by(self, plugin: Filter) -> bool:
        """Whether a filter that declares nothing allows the node, prepared for the cluster as it would be."""
        node = self.cluster.nodes[self.state.number]
        rule = plugin.rule(self.question.info, self.cluster)
        return rule is None or rule.why(node) is None

    def fits_beside(self, nominated: Sequence[Pod]) -> bool:
        """Whether the pod fits both with and without pods for which the node is nominated.

        Without them too: a pod must not depend on being near to one that is not there yet.
        """
        if not nominated:
            return self.fits()
        crowded = self
        for pod in nominated:
            crowded = crowded.having(pod)
        return crowded.fits() and self.fits()


@dataclass(frozen=True, slots=True)
class Helpless:
    """Why a node is no candidate: `protected` if evictions would help, but budgets forbid them."""

    protected: bool


def victims_on(trial: Trial, budgets: Budgets, nominated: Sequence[Pod], now: datetime) -> tuple[Pod, ...] | Helpless:
    """Return the pods to evict from a node, the most important first.

    Tried without all pods of lower priority first; then each that can stay is added back, first those that a budget
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
    """Return the sort key of pods, the most important first: by priority, then by running time."""
    return -pod.priority, pod.started or now
