"""What is remembered never changes a decision."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields

from binder.matching.rejection import Reason, Rejection
from kube.objects import model
from kube.objects.constraints import SCHEDULE_ANYWAY, Constraints, HostPort, SpreadConstraint
from kube.objects.labels import LabelSelector
from scheduler.cycle.cycle import Unschedulable, decide
from scheduler.cycle.memoized_cycle import MAX_RENEWED_NODES, MAX_TEMPLATES, Decider
from scheduler.framework.plugin import Filter, NodeRule, ScheduleResult
from scheduler.framework.profile import Profile
from scheduler.framework.registry import build
from scheduler.plugins.registry import REGISTRY, default_data, default_profile
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.volumes import PodInfo
from tests import builders
from tests.scheduler import clusters
from tests.scheduler.plugin_results import best_placements, view

PROFILE = default_profile("test")
PACKING = build(replace(default_data("packing"), scores={"BinPack": 1, "PreferNoSchedule": 1}), REGISTRY)


def node_of(decision: ScheduleResult | Unschedulable) -> str | None:
    return decision.node if isinstance(decision, ScheduleResult) else None


@st.composite
def templates(draw: st.DrawFn) -> model.Pod:
    """Few of them, so that pods of one template meet."""
    plain = builders.pod(
        labels=draw(clusters.apps),
        requests=draw(st.sampled_from(({}, {"cpu": "1"}, {"cpu": "3", "memory": "1Gi"}))),
        tolerations=draw(st.sampled_from(((), (model.Toleration(operator="Exists"),)))),
        node_selector=draw(st.sampled_from(({}, {}, {"zone": "a"}))),
        constraints=draw(st.sampled_from((None, None, Constraints(ports=(HostPort(80),))))),
    )
    outspoken = with_fields(draw(clusters.pods("web")), requests=builders.resources({"cpu": "1"}))
    return draw(st.sampled_from((plain, plain, outspoken)))


@settings(deadline=None, max_examples=25)
@given(clusters.clusters(), st.lists(templates(), min_size=1, max_size=3), st.data())
def test_decides_as_if_each_pod_were_the_first(
    records: list[model.Node | model.Pod], kinds: list[model.Pod], data: st.DataObject
) -> None:
    cluster, decider = view(*records), Decider()
    running: list[tuple[str, str]] = []
    for number in range(12):
        pod = with_fields(data.draw(st.sampled_from(kinds)), name=f"web-{number}")
        profile = data.draw(st.sampled_from((PROFILE, PROFILE, PROFILE, PACKING)))
        decision = decider.decide(pod, cluster, profile)
        assert is_among(decision, best_placements(pod, cluster, profile))
        if isinstance(decision, ScheduleResult):
            cluster = cluster.with_pod(pod, decision.node)
            running.append((pod.key, decision.node))
        else:
            assert [str(rejection) for rejection in decision.rejections()] == [
                str(rejection) for rejection in rejections_of(pod, cluster, profile)
            ]
        cluster = data.draw(st.sampled_from((cluster, cluster, changed(cluster, running, data))))


def is_among(decision: ScheduleResult | Unschedulable, best: Mapping[str, ScheduleResult]) -> bool:
    return best.get(decision.node) == decision if isinstance(decision, ScheduleResult) else not best


def rejections_of(pod: model.Pod, cluster: ClusterView, profile: Profile) -> list[object]:
    decision = decide(pod, cluster, profile)
    assert isinstance(decision, Unschedulable)
    return list(decision.rejections())


def changed(cluster: ClusterView, running: list[tuple[str, str]], data: st.DataObject) -> ClusterView:
    """A pod ends, a node goes, or one changes or appears."""
    kind = data.draw(st.sampled_from(("pod", "gone", "node")))
    if running and kind == "pod":
        return cluster.without_pod(*running[-1])
    if len(cluster.nodes) > 1 and kind == "gone":
        return cluster.without_node(cluster.nodes[0].name)
    node = data.draw(clusters.nodes())[-1]
    return cluster.with_node(node)


def many_nodes(count: int) -> ClusterView:
    return view(*(builders.node(f"n{number:03}", zone="ab"[number % 2]) for number in range(count)))


def test_a_pod_that_says_little_is_shown_every_node() -> None:
    cluster, decider = many_nodes(120), Decider()
    everything = replace(PROFILE, percentage_of_nodes_to_score=100)
    for number in range(130):
        pod = builders.pod(f"web-{number}", requests={"cpu": "1"})
        decision = decider.decide(pod, cluster, PROFILE)
        assert is_among(decision, best_placements(pod, cluster, everything))
        cluster = cluster.with_pod(pod, decision.node) if isinstance(decision, ScheduleResult) else cluster
    assert {len(state.pods) for state in cluster.nodes} == {1, 2}


def test_other_searches_go_round() -> None:
    cluster, decider = many_nodes(120), Decider()
    spread = SpreadConstraint(1, builders.ZONE, SCHEDULE_ANYWAY, LabelSelector((("app", "web"),)))
    first = builders.pod("first", constraints=Constraints(spread=(spread,)))
    assert node_of(decider.decide(first, cluster, PROFILE)) == "n000"
    assert node_of(decider.decide(first, cluster, PROFILE)) == "n100"
    assert node_of(decider.decide(first, cluster, PROFILE)) == "n080"
    assert node_of(decider.decide(first, many_nodes(60), PROFILE)) == "n000"


def test_more_templates_than_are_remembered() -> None:
    cluster, decider = many_nodes(3), Decider()
    for number in range(MAX_TEMPLATES + 2):
        pod = builders.pod(requests={"cpu": f"{number}m"})
        # A template of one pod: it goes on where the one before it ended.
        assert node_of(decider.decide(pod, cluster, PROFILE)) == f"n00{number % 3}"


class Counting(Filter):
    """Counts how many nodes are judged."""

    name = "Counting"

    def __init__(self) -> None:
        self.judged = 0

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        def why(state: NodeInfo) -> None:
            self.judged += 1

        return NodeRule(why, cache_key=info.pod.requests)


def test_a_template_is_remembered_while_many_others_come_and_under_other_profiles() -> None:
    cluster, decider, counting = many_nodes(120), Decider(), Counting()
    profiles = [replace(PROFILE, scheduler_name=name, filters=(counting,)) for name in ("one", "other")]
    pods = [builders.pod(f"web-{number}", requests={"cpu": f"{number}m"}) for number in range(200)]
    for profile in profiles:
        for pod in pods:
            decider.decide(pod, cluster, profile)
    first, counting.judged = counting.judged, 0
    assert first == len(profiles) * len(pods) * len(cluster.nodes)
    for pod in pods:
        for profile in profiles:
            decider.decide(pod, cluster, profile)
    assert counting.judged == 0


@pytest.mark.parametrize("templates", [1, 64, 65, 400])
@pytest.mark.parametrize("nodes", [300, 900])
def test_pods_of_many_templates_in_turn_evaluate_few_nodes(templates: int, nodes: int) -> None:
    """No more than changed since the template's last pod, and of many no more in a larger cluster."""
    decider, counting = Decider(), Counting()
    cluster, profile = many_nodes(nodes), replace(PROFILE, filters=(counting,))
    counts: list[int] = []
    for number in range(2 * templates):
        pod = builders.pod(f"web-{number}", requests={"cpu": f"{number % templates + 1}m"})
        decision = decider.decide(pod, cluster, profile)
        assert isinstance(decision, ScheduleResult)
        cluster = cluster.with_pod(pod, decision.node)
        counts.append(counting.judged)
        counting.judged = 0
    assert max(counts) <= MAX_RENEWED_NODES


def test_as_many_nodes_are_evaluated_as_the_percentage_says() -> None:
    """The default, 0, leaves it to us; all others are a promise."""
    cluster, decider, counting = many_nodes(600), Decider(), Counting()
    profile = replace(PROFILE, filters=(counting,), percentage_of_nodes_to_score=50)
    for number in range(3):
        decider.decide(builders.pod(requests={"cpu": f"{number + 1}m"}), cluster, profile)
    assert counting.judged == 3 * 300


class Last(Filter):
    """Takes one node only, and says nothing by which that could be remembered."""

    name = "Last"

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        rejection = Rejection(Reason.NO_NODE_FITS, "node", "the last one", "another one")
        return NodeRule(lambda state: None if state.number == len(cluster.nodes) - 1 else rejection)


def test_the_only_node_is_found_among_many_that_were_not_evaluated_yet() -> None:
    profile = replace(PROFILE, filters=(Counting(), Last()))
    assert node_of(Decider().decide(builders.pod(), many_nodes(600), profile)) == "n599"


# Large nodes, on which a small pod makes no difference to any score for a while.
SPREADING = build(replace(default_data("spread"), scores={"LeastAllocated": 1, "PreferNoSchedule": 1}), REGISTRY)
SMALL = {"cpu": "125m", "memory": "128Mi"}
SOFTLY = Constraints(spread=(SpreadConstraint(1, "rack", SCHEDULE_ANYWAY, LabelSelector((("app", "web"),))),))


@settings(deadline=None, max_examples=60)
@given(
    count=st.integers(1, 8),
    cpus=st.sampled_from(("4", "100", "1000")),
    pods=st.integers(1, 30),
    profile=st.sampled_from((PROFILE, SPREADING)),
    constraints=st.sampled_from((None, SOFTLY)),
)
def test_pods_of_a_template_are_spread_over_equal_nodes(
    count: int, cpus: str, pods: int, profile: Profile, constraints: Constraints | None
) -> None:
    """With a difference of one at most, although for a while none of the scores tells the nodes apart.

    The pods want as much processor as memory: else Balanced would prefer the nodes that have such a pod already.
    """
    size = {"cpu": cpus, "memory": f"{cpus}Gi", "pods": "110"}
    cluster, decider = view(*(builders.node(f"n{number}", allocatable=size) for number in range(count))), Decider()
    for number in range(pods):
        pod = builders.pod(f"web-{number}", requests=SMALL, constraints=constraints)
        decision = decider.decide(pod, cluster, profile)
        assert isinstance(decision, ScheduleResult)
        assert is_among(decision, best_placements(pod, cluster, profile))
        cluster = cluster.with_pod(pod, decision.node)
    filled = [len(state.pods) for state in cluster.nodes]
    assert max(filled) - min(filled) <= 1


def test_each_of_two_templates_in_turn_is_spread() -> None:
    """The second must not get the nodes that the first passes over."""
    size = {"cpu": "1000", "memory": "1000Gi", "pods": "110"}
    cluster, decider = view(*(builders.node(f"n{number}", allocatable=size) for number in range(2))), Decider()
    places: list[list[str]] = [[], []]
    for number in range(8):
        requests = (SMALL, {"cpu": "250m", "memory": "256Mi"})[number % 2]
        pod = builders.pod(f"web-{number}", requests=requests)
        node = str(node_of(decider.decide(pod, cluster, PROFILE)))
        places[number % 2].append(node)
        cluster = cluster.with_pod(pod, node)
    assert [sorted(nodes) for nodes in places] == [["n0", "n0", "n1", "n1"]] * 2


@pytest.mark.parametrize("nodes", [0, 1], ids=["no node", "a full node"])
def test_nowhere_to_go(nodes: int) -> None:
    cluster, decider = many_nodes(nodes), Decider()
    decision = decider.decide(builders.pod(requests={"cpu": "100"}), cluster, PROFILE)
    assert isinstance(decision, Unschedulable)
    assert len(list(decision.rejections())) == nodes
