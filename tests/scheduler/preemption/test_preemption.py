"""On which node others are evicted for a pod, and when none are."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from binder.matching.rejection import Reason, Rejection
from kube.objects import model
from kube.objects.constraints import Constraints, PodTerm, SpreadConstraint
from kube.objects.labels import LabelSelector
from kube.objects.model import Record
from scheduler.framework.plugin import Eviction, Filter, NodeRule, PreFilter
from scheduler.preemption.preemption import (
    NEVER,
    NO_VICTIMS,
    NOT_ENOUGH,
    NOT_HELPFUL,
    WAITING,
    NoPreemption,
    Preemption,
    candidates_wanted,
)
from scheduler.state.cluster import ClusterView
from scheduler.volumes.volumes import PodInfo
from tests import builders
from tests.scheduler.plugin_results import view
from tests.scheduler.preemptions import NOW, PROFILE, chosen, preempt

FIRST, SECOND = (builders.node(name, allocatable={"cpu": "4"}) for name in ("n1", "n2"))
NEW = builders.pod("new", priority=10, requests={"cpu": "4"})


def on(node: str, *pods: tuple[int, str, float]) -> list[model.Pod]:
    """Pods by priority, cpu and the hours they have run."""
    return [
        builders.pod(
            f"{node}-{number}",
            node=node,
            phase="Running",
            priority=priority,
            requests={"cpu": cpu},
            started=NOW - timedelta(hours=hours),
        )
        for number, (priority, cpu, hours) in enumerate(pods)
    ]


@pytest.mark.parametrize(
    ("first", "second", "node"),
    [
        pytest.param([(5, "4", 1)], [(4, "4", 9)], "n2", id="the-lower-highest-priority"),
        pytest.param([(5, "2", 1), (4, "2", 1)], [(5, "2", 1), (3, "2", 1)], "n2", id="the-smaller-sum-of-priorities"),
        pytest.param([(5, "2", 1), (-9, "2", 1)], [(5, "4", 9)], "n2", id="one-more-never-makes-the-sum-smaller"),
        pytest.param(
            [(5, "2", 1), (-(2**31), "2", 1)], [(5, "4", 9)], "n2", id="fewer-where-the-other-one-counts-nothing"
        ),
        pytest.param(
            [(5, "2", 9), (4, "2", 1)], [(5, "2", 1), (4, "2", 9)], "n2", id="the-later-start-of-the-most-important"
        ),
        pytest.param(
            [(5, "2", 1), (5, "2", 9)], [(5, "2", 8), (5, "2", 8)], "n2", id="of-the-oldest-of-the-most-important"
        ),
        pytest.param([(5, "4", 1)], [(5, "4", 1)], "n1", id="the-first"),
    ],
)
def test_criteria(first: list[tuple[int, str, float]], second: list[tuple[int, str, float]], node: str) -> None:
    result = preempt(NEW, view(FIRST, SECOND, *on("n1", *first), *on("n2", *second)))
    assert isinstance(result, Preemption)
    assert result.node == node


def test_a_node_whose_budget_would_be_exceeded_is_not_chosen_however_cheap() -> None:
    cheap = builders.pod("cheap", node="n1", priority=1, requests={"cpu": "4"}, labels={"app": "web"})
    records: list[Record] = [FIRST, SECOND, cheap, *on("n2", (9, "4", 1))]
    assert chosen(NEW, *records) == ("n1", ["cheap"])
    assert chosen(NEW, *records, budgets=[builders.budget(labels={"app": "web"})]) == ("n2", ["n2-0"])


def test_a_pod_that_never_preempts_waits_for_room() -> None:
    modest = builders.pod("new", priority=10, requests={"cpu": "4"}, constraints=Constraints(preempts=False))
    assert preempt(modest, view(FIRST, *on("n1", (1, "4", 1)))) == NoPreemption(NEVER, waits=True)


def evicted(priority: int = 1, *, by: bool = True) -> model.Pod:
    return builders.pod("out", node="n1", priority=priority, requests={"cpu": "4"}, deleting=True, evicted=by)


NOMINATED = builders.pod("new", priority=10, requests={"cpu": "4"}, nominated_node="n1")


@pytest.mark.parametrize(
    ("pod", "there", "node"),
    [
        pytest.param(NOMINATED, [evicted()], None, id="victims-on-their-way-out"),
        pytest.param(NOMINATED, [evicted(by=False)], "n2", id="who-leaves-for-another-reason-may-take-long"),
        pytest.param(NOMINATED, [evicted(11)], "n2", id="who-is-better-was-no-victim"),
        pytest.param(NOMINATED, on("n1", (1, "4", 1)), "n2", id="another-pod-took-the-room"),
        pytest.param(NEW, [evicted()], "n2", id="another-pod-had-it-evicted"),
    ],
)
def test_a_pod_waits_for_its_victims(pod: model.Pod, there: Sequence[model.Pod], node: str | None) -> None:
    result = preempt(pod, view(FIRST, SECOND, *there, *on("n2", (0, "4", 1))))
    assert result == NoPreemption(WAITING, waits=True) if node is None else isinstance(result, Preemption)
    assert node is None or (isinstance(result, Preemption) and result.node == node)


def test_a_node_that_became_impossible_is_waited_for_no_longer() -> None:
    cordoned = builders.node("n1", unschedulable=True)
    result = preempt(NOMINATED, view(cordoned, SECOND, evicted(), *on("n2", (0, "4", 1))))
    assert isinstance(result, Preemption)
    assert result.node == "n2"


def test_waits_for_evictions_that_no_watch_has_shown_yet() -> None:
    cluster = view(FIRST, SECOND, *on("n1", (0, "4", 1)), *on("n2", (1, "4", 1)))
    first = preempt(NEW, cluster)
    assert isinstance(first, Preemption)
    going = {victim.uid for victim in first.victims}
    assert preempt(NEW, cluster, nominated={first.node: [NEW]}, going=going) == NoPreemption(WAITING, waits=True)


def test_a_pod_whose_claim_is_missing_evicts_no_pod() -> None:
    needy = builders.pod("new", priority=10, claims=["data"])
    assert chosen(needy, FIRST, *on("n1", (1, "4", 1))) == (f"preemption: 0/1 nodes are available: 1 {NOT_HELPFUL}.")


def test_a_node_that_is_too_small_is_not_searched_for_victims() -> None:
    large = builders.pod("new", priority=10, requests={"cpu": "9"})
    assert chosen(large, FIRST, *on("n1", (1, "4", 1))) == f"preemption: 0/1 nodes are available: 1 {NOT_HELPFUL}."


def test_reports_for_every_node_why_it_is_no_candidate() -> None:
    labelled = builders.node("n3", labels={"disk": "ssd"}, allocatable={"cpu": "4"})
    picky = builders.pod("new", priority=10, requests={"cpu": "4"}, node_selector={"disk": "ssd"})
    assert chosen(picky, FIRST, SECOND, labelled, *on("n3", (10, "4", 1))) == (
        f"preemption: 0/3 nodes are available: 1 {NO_VICTIMS}, 2 {NOT_HELPFUL}."
    )


class Picky(Filter):
    """Rejects one node whatever runs there, and declares nothing about preemption."""

    name = "Picky"

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule:
        return NodeRule(lambda state: _STRANGE if state.name == "n1" else None)


class PickyForGood(Picky):
    eviction = Eviction.UNMOVED


_STRANGE = Rejection(Reason.NODE_SELECTOR_MISMATCH, "n1", "a node that is allowed", "another one")


@pytest.mark.parametrize(
    ("plugin", "text"), [(Picky(), NOT_ENOUGH), (PickyForGood(), NOT_HELPFUL)], ids=["incremental", "unmoved"]
)
def test_a_node_that_another_filter_rejects_anyhow_is_not_cleared(plugin: Filter, text: str) -> None:
    profile = replace(PROFILE, filters=(*PROFILE.filters, plugin))
    cheap, dear = on("n1", (1, "4", 1)), on("n2", (9, "4", 1))
    result = preempt(NEW, view(FIRST, SECOND, *cheap, *dear), profile=profile)
    assert isinstance(result, Preemption)
    assert result.node == "n2"
    nobody = preempt(NEW, view(FIRST, *cheap), profile=profile)
    assert nobody == NoPreemption(f"preemption: 0/1 nodes are available: 1 {text}.")


class OnlySecond(PreFilter):
    """Confines every pod to one node, and does not look at nodes."""

    name = "OnlySecond"

    def confine(self, info: PodInfo, cluster: ClusterView) -> int:
        return sum(1 << state.number for state in cluster.nodes if state.name == "n2")


def test_a_node_that_the_pod_is_not_confined_to_is_not_cleared() -> None:
    profile = replace(PROFILE, pre_filters=(*PROFILE.pre_filters, OnlySecond()))
    result = preempt(NEW, view(FIRST, SECOND, *on("n1", (1, "4", 1)), *on("n2", (9, "4", 1))), profile=profile)
    assert isinstance(result, Preemption)
    assert result.node == "n2"


def test_what_rejects_a_node_first_decides_whether_evictions_could_help_there() -> None:
    """Fewer pods of the label would cure the spread; that none of another label is near is not reported as well."""
    web = {"app": "web"}
    spread = SpreadConstraint(1, builders.HOSTNAME, selector=LabelSelector(builders.pairs(web)))
    near = PodTerm(builders.HOSTNAME, LabelSelector((("app", "cache"),)))
    there = builders.pod("there", node="n1", priority=1, requests={"cpu": "1"}, labels=web)
    small = {"priority": 10, "requests": {"cpu": "1"}, "labels": web}
    alone = builders.pod("new", constraints=Constraints(affinity=(near,)), **small)  # type: ignore[arg-type]
    both = builders.pod("new", constraints=Constraints(affinity=(near,), spread=(spread,)), **small)  # type: ignore[arg-type]
    records: list[Record] = [FIRST, SECOND, there]
    assert chosen(alone, *records) == f"preemption: 0/2 nodes are available: 2 {NOT_HELPFUL}."
    assert chosen(both, *records) == (f"preemption: 0/2 nodes are available: 1 {NOT_HELPFUL}, 1 {NOT_ENOUGH}.")


class Companion(Filter):
    """Wants a pod of the label on the node, or none of it, and looks at the whole cluster; says nothing of itself."""

    name = "Companion"

    def __init__(self, *, near: bool) -> None:
        self._near = near

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule:
        places = {state.name for state in cluster.nodes for pod in state.pods if ("app", "web") in pod.labels}
        return NodeRule(lambda state: None if (state.name in places) == self._near else _STRANGE)


def test_no_pod_is_evicted_for_nothing_by_a_filter_that_says_nothing_of_preemption() -> None:
    """It allows the node only as long as the victim is there."""
    profile = replace(PROFILE, filters=(*PROFILE.filters, Companion(near=True)))
    web = builders.pod("web", node="n1", priority=1, requests={"cpu": "4"}, labels={"app": "web"})
    result = preempt(NEW, view(FIRST, web), profile=profile)
    assert result == NoPreemption(f"preemption: 0/1 nodes are available: 1 {NOT_ENOUGH}.")


def test_pods_are_evicted_for_a_filter_that_says_nothing_of_preemption() -> None:
    profile = replace(PROFILE, filters=(*PROFILE.filters, Companion(near=False)))
    web = builders.pod("web", node="n1", priority=1, requests={"cpu": "1"}, labels={"app": "web"})
    other = builders.pod("other", node="n1", priority=0, requests={"cpu": "1"})
    small = builders.pod("new", priority=10, requests={"cpu": "1"})
    result = preempt(small, view(FIRST, web, other), profile=profile)
    assert isinstance(result, Preemption)
    assert [victim.name for victim in result.victims] == ["web"]


def test_a_filter_that_the_profile_leaves_out_is_not_called_for_nominated_pods() -> None:
    profile = replace(PROFILE, filters=tuple(plugin for plugin in PROFILE.filters if plugin.name != "InterPodAffinity"))
    web = LabelSelector((("app", "web"),))
    apart = Constraints(anti_affinity=(PodTerm(builders.HOSTNAME, web),))
    new = builders.pod("new", priority=10, requests={"cpu": "2"}, labels={"app": "web"})
    better = builders.pod("better", priority=10, requests={"cpu": "2"}, constraints=apart)
    result = preempt(new, view(FIRST, *on("n1", (1, "4", 1))), nominated={"n1": [better]}, profile=profile)
    assert isinstance(result, Preemption)


def test_no_nodes_no_words() -> None:
    assert chosen(NEW) == ""


@pytest.mark.parametrize(("nodes", "wanted"), [(3, 3), (100, 100), (500, 100), (1_000, 100), (5_000, 500)], ids=str)
def test_how_many_candidates_are_compared(nodes: int, wanted: int) -> None:
    assert candidates_wanted(nodes) == wanted


def test_pods_begin_their_search_at_different_nodes() -> None:
    nodes = [builders.node(f"n{number:03}", allocatable={"cpu": "4"}) for number in range(300)]
    cluster = view(*nodes, *(pod for node in nodes for pod in on(node.name, (1, "4", 1))))
    pods = [builders.pod(f"new-{number}", priority=10, requests={"cpu": "4"}) for number in range(8)]
    results = [preempt(pod, cluster) for pod in pods]
    assert len({result.node for result in results if isinstance(result, Preemption)}) > 4
    assert results == [preempt(pod, cluster) for pod in pods]
