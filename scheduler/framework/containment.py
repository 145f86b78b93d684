"""Runs plugins of other distributions so that their errors cost no more than the current attempt.

An exception of such a plugin becomes a PluginFailed that names it, and so does a result that breaks the contract. A
queueing hint that fails requeues the pod, as in kube-scheduler. Plugins of this distribution run directly.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from binder.matching.rejection import Rejection
from kube.objects.model import Pod
from scheduler.framework.cluster_event import ClusterEvent, Wanted
from scheduler.framework.plugin import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    Counts,
    Filter,
    NodeRule,
    Plugin,
    PreFilter,
    Score,
    ScoreAlone,
    ScoreChoice,
    Tally,
)
from scheduler.framework.queueing_hint import QueueingHint
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.volume_binding import VolumeChoice
from scheduler.volumes.volumes import PodInfo

T = TypeVar("T")
Kinds: TypeAlias = type[T] | tuple[type[T], ...]

_FACTS: Final = ("name", "messages", "eviction", "unresolvable", "explains")


class PluginFailed(Exception):
    """A plugin raised an exception, or returned an invalid result. `point` is the extension point."""

    def __init__(self, plugin: str, point: str, error: BaseException) -> None:
        super().__init__(f"plugin {plugin} failed in {point}: {type(error).__name__}: {error}")
        self.plugin = plugin
        self.point = point
        self.error = error


class FailureObserver(Protocol):
    """Is notified of every failure: for the log and the metric."""

    def plugin_failed(self, failure: PluginFailed, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Guard:
    """Calls one plugin."""

    plugin: str
    failures: FailureObserver

    def call(self, point: str, function: Callable[..., T], *args: object) -> T:
        """Return what the function returns. Raises PluginFailed."""
        try:
            return function(*args)
        except (Exception, SystemExit) as error:
            failure = PluginFailed(self.plugin, point, error)
            self.failures.plugin_failed(failure)
            raise failure from error

    def call_for(self, point: str, kinds: Kinds[T], function: Callable[..., T], *args: object) -> T:
        """Return what the function returns, which must be of these types. Raises PluginFailed."""
        return self.call(point, lambda: _of_kind(kinds, function, args))

    def guarded(self, point: str, function: Callable[..., T] | None) -> Callable[..., T] | None:
        """Return the function with its errors contained."""
        return None if function is None else lambda *args: self.call(point, function, *args)


def contained_pre_filter(plugin: PreFilter, failures: FailureObserver) -> PreFilter:
    """Return an equivalent plugin with its errors contained; so do the functions below."""
    made: PreFilter = _stating_the_same(_PreFilter, plugin, failures)
    return made


def contained_filter(plugin: Filter, failures: FailureObserver) -> Filter:
    made: Filter = _stating_the_same(_Filter, plugin, failures)
    return made


def contained_score(plugin: Score, failures: FailureObserver) -> Score:
    kinds: tuple[tuple[type[Any], type[Any]], ...] = ((ScoreAlone, _ScoreAlone), (ScoreChoice, _ScoreChoice))
    wrapper = next((wrapper for kind, wrapper in kinds if isinstance(plugin, kind)), _Score)
    made: Score = _stating_the_same(wrapper, plugin, failures)
    return made


def _stating_the_same(wrapper: type[Any], plugin: Plugin, failures: FailureObserver) -> Any:
    guard = Guard(plugin.name, failures)
    facts: dict[str, object] = {fact: getattr(plugin, fact) for fact in _FACTS if hasattr(plugin, fact)}
    facts["queueing_hint"] = _hint(plugin.queueing_hint, guard)
    return type(wrapper.__name__, (wrapper,), facts)(plugin, guard)


class _PreFilter(PreFilter):
    def __init__(self, plugin: PreFilter, guard: Guard) -> None:
        self._plugin, self._guard = plugin, guard

    def confine(self, info: PodInfo, cluster: ClusterView) -> int | Rejection | None:
        kinds = (int, Rejection, type(None))
        return self._guard.call_for("PreFilter", kinds, self._plugin.confine, info, cluster)

    def text(self, rejection: Rejection, info: PodInfo, cluster: ClusterView) -> str:
        return self._guard.call_for("PreFilter", str, self._plugin.text, rejection, info, cluster)


class _Filter(Filter):
    def __init__(self, plugin: Filter, guard: Guard) -> None:
        self._plugin, self._guard = plugin, guard

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        return self._guard.call("Filter", self._contained, info, cluster)

    def tally(self, info: PodInfo, cluster: ClusterView) -> Tally:
        return _Tally(self._guard.call("Filter", self._plugin.tally, info, cluster), self._guard)

    def _contained(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        rule = _of_kind((NodeRule, type(None)), self._plugin.rule, (info, cluster))
        if rule is None:
            return None
        hash(rule.cache_key)
        guard, why, fitting = self._guard, rule.why, rule.fitting
        return replace(
            rule,
            why=lambda state: guard.call_for("Filter", (Rejection, type(None)), why, state),
            fitting=guard.guarded("Filter", fitting),
            reasons=guard.guarded("Filter", rule.reasons),
            every=guard.guarded("Filter", rule.every),
            texts=guard.guarded("Filter", rule.texts),
            unresolvable=guard.guarded("Filter", rule.unresolvable),
        )


class _Tally:
    def __init__(self, tally: Tally, guard: Guard) -> None:
        self._tally, self._guard = tally, guard

    def counts(self, state: NodeInfo) -> Counts:
        return self._guard.call("Filter", self._tally.counts, state)

    def adds(self, pod: Pod, state: NodeInfo) -> Counts:
        return self._guard.call("Filter", self._tally.adds, pod, state)

    def allows(self, state: NodeInfo, counts: Counts) -> bool:
        return self._guard.call("Filter", self._tally.allows, state, counts)


class _Score(Score):
    def __init__(self, plugin: Score, guard: Guard) -> None:
        self._plugin, self._guard = plugin, guard

    def scores(self, info: PodInfo, cluster: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        return self._guard.call("Score", self._checked, info, cluster, nodes)

    def _checked(self, info: PodInfo, cluster: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        scores = self._plugin.scores(info, cluster, nodes)
        if scores is not None and (len(scores) != len(nodes) or not all(map(_is_score, scores))):
            raise ValueError(
                f"expected {len(nodes)} whole numbers from {MIN_NODE_SCORE} to {MAX_NODE_SCORE}, one for each node"
            )
        return scores


class _ScoreAlone(_Score, ScoreAlone):
    def __init__(self, plugin: ScoreAlone, guard: Guard) -> None:
        super().__init__(plugin, guard)
        self._cache_key = plugin.cache_key

    def cache_key(self, info: PodInfo) -> Hashable:
        return self._guard.call("Score", _hashable, self._cache_key, info)


class _ScoreChoice(_Score, ScoreChoice):
    def __init__(self, plugin: ScoreChoice, guard: Guard) -> None:
        super().__init__(plugin, guard)
        self._of_choice = plugin.of_choice

    def of_choice(self, info: PodInfo, choice: VolumeChoice) -> int:
        return self._guard.call_for("Score", int, self._of_choice, info, choice)


def _hint(hint: QueueingHint, guard: Guard) -> QueueingHint:
    """Return a hint that requeues the pod if this one fails, and then treats it as unequal to all others."""

    def helps(pod: Pod, change: ClusterEvent, wanted: Wanted | None) -> bool:
        return _or(True, guard, hint.helps, pod, change, wanted)

    def coarse(pod: Pod, change: ClusterEvent, wanted: Wanted | None) -> bool:
        return hint.coarse is None or _or(True, guard, hint.coarse, pod, change, wanted)

    def shape(pod: Pod, wanted: Wanted | None) -> Hashable:
        key: Hashable = pod.key
        return None if hint.shape is None else _or(key, guard, _hashable, hint.shape, pod, wanted)

    return replace(
        hint,
        helps=helps,
        coarse=None if hint.coarse is None else coarse,
        shape=None if hint.shape is None else shape,
    )


def _or(fallback: T, guard: Guard, function: Callable[..., T], *args: object) -> T:
    try:
        return guard.call("QueueingHint", function, *args)
    except PluginFailed:
        return fallback


def _of_kind(kinds: Kinds[T], function: Callable[..., T], args: Sequence[object]) -> T:
    result = function(*args)
    if not isinstance(result, kinds):
        raise TypeError(f"an answer of type {type(result).__name__}")
    return result


def _hashable(function: Callable[..., Hashable], *args: object) -> Hashable:
    result = function(*args)
    hash(result)
    return result


def _is_score(score: object) -> bool:
    return type(score) is int and MIN_NODE_SCORE <= score <= MAX_NODE_SCORE
