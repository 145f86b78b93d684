"""Nodes that are being cleared for a pod are not given to others meanwhile."""

from datetime import timedelta

from kube.objects import model
from kube.objects.constraints import Constraints, PodTerm
from kube.objects.labels import LabelSelector
from scheduler.cycle.cycle import decide
from scheduler.framework.plugin import ScheduleResult
from scheduler.preemption.nominations import Nominations, Reserving, on_nominated, outranked, stands
from tests import builders
from tests.scheduler.plugin_results import view
from tests.scheduler.preemptions import PROFILE

NODE = builders.node("n1", allocatable={"cpu": "4"})


def pod(name: str, priority: int, cpu: str = "4") -> model.Pod:
    return builders.pod(name, priority=priority, requests={"cpu": cpu})


def test_keeps_the_last_nomination_of_each_pod() -> None:
    nominations = Nominations()
    first, second = pod("first", 1), pod("second", 2)
    nominations.put(first, "n1")
    nominations.put(second, "n1")
    assert nominations.by_node() == {"n1": [first, second]}
    nominations.put(first, "n2")
    assert (nominations.of(first.key), nominations.of(second.key)) == ("n2", "n1")
    nominations.put(first, "")
    nominations.remove(second.key)
    nominations.remove("default/unknown")
    assert nominations.by_node() == {}
    assert nominations.of(first.key) == ""


def test_a_node_is_kept_from_pods_that_are_not_better() -> None:
    cluster, nominated = view(NODE), {"n1": [pod("waiting", 5)], "gone": [pod("lost", 5)]}
    for other in (pod("worse", 4), pod("equal", 5)):
        assert not isinstance(decide(other, Reserving().view(cluster, other, nominated), PROFILE), ScheduleResult)
    for other in (pod("better", 6), pod("waiting", 5)):
        assert Reserving().view(cluster, other, nominated) is cluster
    assert Reserving().view(cluster, pod("any", 0), {}) is cluster


def test_a_better_pod_takes_the_nomination_away() -> None:
    low, equal = pod("low", 4), pod("equal", 5)
    assert outranked(pod("new", 5), "n1", {"n1": [low, equal], "n2": [low]}) == [low]


def test_the_nominated_node_is_tried_by_itself() -> None:
    cluster, waiting = view(NODE, builders.node("n2")), pod("waiting", 5)
    decision = on_nominated(waiting, "n1", cluster, PROFILE)
    assert isinstance(decision, ScheduleResult)
    assert decision.node == "n1"
    assert on_nominated(waiting, "n1", cluster.with_pod(pod("other", 5), "n1"), PROFILE) is None
    assert on_nominated(waiting, "unknown", cluster, PROFILE) is None


def test_the_neighbourhood_of_a_pod_that_is_not_there_yet_does_not_count() -> None:
    near = Constraints(affinity=(PodTerm(builders.HOSTNAME, LabelSelector((("app", "web"),))),))
    follower = builders.pod("follower", constraints=near)
    leader = builders.pod("leader", labels={"app": "web"}, priority=5)
    cluster = view(NODE)
    crowded = Reserving().view(cluster, follower, {"n1": [leader]})
    placement = decide(follower, crowded, PROFILE)
    assert isinstance(placement, ScheduleResult)
    assert not stands(placement, cluster, PROFILE)
    assert stands(placement, crowded, PROFILE)


def test_what_is_shown_stays_the_same_while_nothing_changes_that_a_decider_remembers() -> None:
    cluster, reserving = view(NODE, builders.node("n2")), Reserving()
    nominated = {"n1": [pod("waiting", 5)]}
    first = reserving.view(cluster, pod("a", 0), nominated)
    later = cluster.at(builders.EPOCH + timedelta(seconds=1))
    second = reserving.view(later, pod("b", 0), nominated)
    assert second.nodes is first.nodes
    assert second.now == later.now
    crowded = reserving.view(cluster.with_pod(pod("c", 0), "n2"), pod("d", 0), nominated)
    assert [len(state.pods) for state in crowded.nodes] == [1, 1]
    more = {"n1": [pod("waiting", 5)], "n2": [pod("another", 5)]}
    assert [len(state.pods) for state in reserving.view(cluster, pod("e", 0), more).nodes] == [1, 1]
    assert reserving.view(cluster, pod("urgent", 9), more) is cluster
