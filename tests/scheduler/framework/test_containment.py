"""Errors of plugins from other distributions become PluginFailed, and each is reported; answers of good ones pass."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Node
from scheduler.cycle.cycle import Unschedulable, decide, judge
from scheduler.cycle.memoized_cycle import Decider
from scheduler.framework.cluster_event import ClusterEvent
from scheduler.framework.containment import PluginFailed
from scheduler.framework.plugin import Filter, NodeRule, Plugin, PreFilter, Score, ScoreAlone, ScoreChoice
from scheduler.framework.profile import Profile
from scheduler.framework.queueing_hint import QueueingHint
from scheduler.framework.registry import build
from scheduler.plugins.registry import REGISTRY, default_data
from scheduler.queue.hints import may_help
from scheduler.queue.unschedulable_pods import UnschedulablePods
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.volume_binding import VolumeChoice
from scheduler.volumes.volumes import PodInfo
from tests import builders
from tests.scheduler.plugin_results import view

POD = builders.pod()
CLUSTER = view(builders.node("n1"), builders.node("n2"))


class Failures:
    """The messages of failures, as reported."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def plugin_failed(self, failure: PluginFailed) -> None:
        self.messages.append(str(failure))


def broken(*_: object) -> bool:
    raise KeyError("x")


class Everything(PreFilter, Filter, ScoreAlone, ScoreChoice):
    """Does nothing in particular, at each extension point."""

    name = "Everything"
    answer: object = ()

    def confine(self, info: PodInfo, cluster: ClusterView) -> int | Rejection | None:
        return None

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        return NodeRule(lambda _: None, cache_key=())

    def scores(self, info: PodInfo, cluster: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        return [5 if state.name == "n2" else 0 for state in nodes]

    def cache_key(self, info: PodInfo) -> tuple[()]:
        return ()

    def of_choice(self, info: PodInfo, choice: VolumeChoice) -> int:
        return 0


def profile_with(plugin: type[Plugin], failures: Failures) -> Profile:
    data, registry = default_data("test"), REGISTRY.with_installed([plugin], failures)
    return build(
        replace(
            data,
            pre_filters=(*data.pre_filters, *(name for name in registry.pre_filters if name == plugin.name)),
            filters=(*data.filters, *(name for name in registry.filters if name == plugin.name)),
            scores={**data.scores, **({plugin.name: 100} if plugin.name in registry.scores else {})},
        ),
        registry,
    )


def test_a_good_plugin_does_what_it_does() -> None:
    failures = Failures()
    profile = profile_with(Everything, failures)
    placement = Decider().decide(POD, CLUSTER, profile)
    assert not isinstance(placement, Unschedulable)
    assert (placement.node, failures.messages) == ("n2", [])
    assert isinstance(profile.scores[-1].plugin, ScoreAlone)


class Confines(Everything):
    def confine(self, info: PodInfo, cluster: ClusterView) -> int | Rejection | None:
        raise KeyError("x")


class Prepares(Everything):
    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        raise KeyError("x")


class Judges(Everything):
    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        return NodeRule(broken)  # type: ignore[arg-type]


class Answers(Everything):
    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        return NodeRule(lambda _: "no")  # type: ignore[arg-type, return-value]


class ScoresTooMuch(Everything):
    def scores(self, info: PodInfo, cluster: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int]:
        return [101 for _ in nodes]


class ScoresTooFew(Everything):
    def scores(self, info: PodInfo, cluster: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int]:
        return [1]


class Leaves(Everything):
    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        raise SystemExit(1)


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (Confines, "in PreFilter: KeyError: 'x'"),
        (Prepares, "in Filter: KeyError: 'x'"),
        (Judges, "in Filter: KeyError: 'x'"),
        (Answers, "in Filter: TypeError: an answer of type str"),
        (ScoresTooMuch, "in Score: ValueError: expected 2 whole numbers from 0 to 100, one for each node"),
        (ScoresTooFew, "in Score: ValueError: expected 2 whole numbers from 0 to 100, one for each node"),
        (Leaves, "in Filter: SystemExit: 1"),
    ],
)
def test_what_it_raises_names_it(plugin: type[Plugin], message: str) -> None:
    failures = Failures()
    profile = profile_with(plugin, failures)
    with pytest.raises(PluginFailed) as failed:
        Decider().decide(POD, CLUSTER, profile)
    assert str(failed.value) == f"plugin Everything failed {message}"
    assert failures.messages == [str(failed.value)]


def test_a_plugin_that_cannot_be_made_is_named() -> None:
    class Unmade(Everything):
        def __init__(self) -> None:
            raise ValueError("no")

    with pytest.raises(PluginFailed, match="plugin Everything failed in its constructor: ValueError: no"):
        profile_with(Unmade, Failures())


def test_a_plugin_is_made_once_for_all_it_does() -> None:
    made: list[object] = []

    class Counted(Everything):
        def __init__(self) -> None:
            made.append(self)

    profile_with(Counted, Failures())
    assert len(made) == 1


def test_a_hint_that_fails_wakes_the_pod() -> None:
    class Restless(Filter):
        name = "Restless"
        queueing_hint = QueueingHint(frozenset({Node}), broken, shape=broken)

        def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
            return NodeRule(lambda state: Rejection(Reason.REJECTED_BY_PLUGIN, state.name, "this", "that"))

    failures = Failures()
    plugin = profile_with(Restless, failures).filters[-1]
    change = ClusterEvent(None, builders.node("new"))
    assert may_help(POD, frozenset({plugin.queueing_hint}), change)
    filed = UnschedulablePods()
    filed.add(POD, frozenset({plugin.queueing_hint}), None)
    assert filed.helped_by(change) == [POD.key]
    assert set(failures.messages) == {"plugin Restless failed in QueueingHint: KeyError: 'x'"}


def test_a_hint_that_works_has_the_same_results_when_contained() -> None:
    class Calm(Filter):
        name = "Calm"
        queueing_hint = QueueingHint(
            frozenset({Node}), lambda *_: False, coarse=lambda *_: False, shape=lambda pod, _: pod.namespace
        )

        def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
            return None

    class Plain(Calm):
        name = "Plain"
        queueing_hint = QueueingHint(frozenset({Node}), lambda *_: True)

    failures = Failures()
    calm, plain = (profile_with(each, failures).filters[-1].queueing_hint for each in (Calm, Plain))
    change = ClusterEvent(None, builders.node("new"))
    assert calm.coarse is not None
    assert calm.shape is not None
    assert (calm.helps(POD, change, None), calm.coarse(POD, change, None)) == (False, False)
    assert calm.shape(POD, None) == POD.namespace
    assert (plain.coarse, plain.shape, plain.helps(POD, change, None)) == (None, None, True)
    assert failures.messages == []


def test_plugins_of_this_distribution_are_not_wrapped() -> None:
    profile = profile_with(Everything, Failures())
    plugins = [*profile.filters[:-1], *(weighted.plugin for weighted in profile.scores[:-1])]
    assert {type(plugin) for plugin in plugins} <= {*REGISTRY.filters.values(), *REGISTRY.scores.values()}
    assert judge(POD, CLUSTER, profile).rejection is None
    assert not isinstance(decide(POD, CLUSTER, profile), Unschedulable)


class Preferring(Score):
    """A score that compares nodes."""

    name = "Preferring"

    def scores(self, info: PodInfo, cluster: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        return None


def test_a_score_stays_of_its_kind() -> None:
    plugin = profile_with(Preferring, Failures()).scores[-1].plugin
    assert not isinstance(plugin, ScoreAlone | ScoreChoice)
    assert plugin.name == "Preferring"
