import pytest
from hypothesis import given, settings

from binder.matching.rejection import Reason, Rejection
from kube.objects import model
from scheduler.cycle.cycle import Unschedulable, decide, feasible, judge, nodes_wanted, totals
from scheduler.framework.plugin import ScheduleResult
from scheduler.framework.profile import ProfileData
from scheduler.framework.registry import build
from scheduler.plugins.registry import REGISTRY, default_data, default_profile
from tests import builders
from tests.scheduler import clusters
from tests.scheduler.plugin_results import view

PROFILE = default_profile("ours")


def test_the_node_with_the_highest_total_wins() -> None:
    cluster = view(builders.node("n1"), builders.node("n2"), builders.pod("there", node="n1", requests={"cpu": "4"}))
    pod = builders.pod("new", requests={"cpu": "1"})
    placement = decide(pod, cluster, PROFILE)
    assert isinstance(placement, ScheduleResult)
    assert placement.node == "n2"


def test_among_equals_the_first_from_the_start_wins() -> None:
    cluster = view(*(builders.node(f"n{number}") for number in range(4)))
    decisions = [decide(builders.pod("new"), cluster, PROFILE, start) for start in range(4)]
    assert [decision.node for decision in decisions if isinstance(decision, ScheduleResult)] == ["n0", "n1", "n2", "n3"]


def test_a_placement_says_which_volumes_are_taken() -> None:
    cluster = view(
        builders.node("a1", zone="a"),
        builders.node("b1", zone="b"),
        builders.storage_class(),
        builders.claim(),
        builders.volume("pv-b", zone="b"),
    )
    placement = decide(builders.pod(claims=["data"]), cluster, PROFILE)
    assert isinstance(placement, ScheduleResult)
    assert placement.node == "b1"
    assert [(claim.key, volume.name) for claim, volume in placement.volumes.volumes] == [("default/data", "pv-b")]


def test_every_node_has_its_reason() -> None:
    cluster = view(
        builders.node("n1", labels={"disk": "hdd"}),
        builders.node("n2", labels={"disk": "ssd"}, taints=[model.Taint("gpu", "NoSchedule")]),
        builders.node("n3", labels={"disk": "ssd"}, allocatable={"cpu": "1"}),
    )
    decision = decide(builders.pod("new", requests={"cpu": "2"}, node_selector={"disk": "ssd"}), cluster, PROFILE)
    assert isinstance(decision, Unschedulable)
    assert {rejection.subject: rejection.reason for rejection in decision.rejections()} == {
        "n1": Reason.NODE_SELECTOR_MISMATCH,
        "n2": Reason.TAINT_NOT_TOLERATED,
        "n3": Reason.INSUFFICIENT_RESOURCES,
    }


def test_a_pod_rejected_as_a_whole_has_one_reason() -> None:
    decision = decide(builders.pod(claims=["gone"]), view(builders.node("n1"), builders.node("n2")), PROFILE)
    assert isinstance(decision, Unschedulable)
    assert [rejection.reason for rejection in decision.rejections()] == [Reason.CLAIM_NOT_FOUND]


def test_a_cluster_without_nodes() -> None:
    decision = decide(builders.pod(), view(), PROFILE)
    assert isinstance(decision, Unschedulable)
    assert list(decision.rejections()) == []


@pytest.mark.parametrize(
    ("nodes", "percentage", "wanted"),
    [(99, 5, 99), (100, 0, 100), (1000, 0, 420), (5000, 0, 500), (20000, 0, 1000), (1000, 5, 100), (1000, 100, 1000)],
)
def test_how_many_nodes_are_enough(nodes: int, percentage: int, wanted: int) -> None:
    assert nodes_wanted(nodes, percentage) == wanted


def test_the_search_ends_when_enough_nodes_fit_and_goes_round() -> None:
    cluster = view(*(builders.node(f"n{number:03}") for number in range(300)))
    judgement = judge(builders.pod("new"), cluster, PROFILE)
    chosen = feasible(judgement, cluster, PROFILE, start=250)
    assert [node.number for node in chosen] == [*range(250, 300), *range(94)]
    assert len(chosen) == nodes_wanted(300, 0)


def test_weights_count() -> None:
    data = default_data("ours")
    weight_1 = build(ProfileData("x", data.queue_sort, (), (), {"LeastAllocated": 1}), REGISTRY)
    weight_3 = build(ProfileData("x", data.queue_sort, (), (), {"LeastAllocated": 3, "PreferNoSchedule": 5}), REGISTRY)
    cluster = view(builders.node("n1"))
    info = judge(builders.pod(requests={"cpu": "4"}), cluster, weight_1).info
    assert totals(info, cluster, weight_3, cluster.nodes) == [3 * totals(info, cluster, weight_1, cluster.nodes)[0]]


@settings(deadline=None, max_examples=50)
@given(clusters.clusters(), clusters.pods("new"))
def test_quick_forms_and_reasons_agree_for_all_filters_together(
    records: list[model.Node | model.Pod], pod: model.Pod
) -> None:
    cluster = view(*records)
    judgement = judge(pod, cluster, PROFILE)
    fitting = {node.name for node in feasible(judgement, cluster, PROFILE)}
    reasons: dict[str, Rejection | None] = {node.name: judgement.why(node) for node in cluster.nodes}
    assert fitting == {name for name, why in reasons.items() if why is None}
    decided = decide(pod, cluster, PROFILE)
    assert isinstance(decided, ScheduleResult) == bool(fitting)
    assert not isinstance(decided, ScheduleResult) or decided.node in fitting
