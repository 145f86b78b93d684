"""A node is cleared for a pod once, kept for it, and given up when that comes to nothing."""

import asyncio

from msgspec.structs import replace

from kube.objects import model
from kube.objects.constraints import Constraints, PodTerm
from kube.objects.labels import LabelSelector
from kube.rules.disruption import DisruptionBudget
from kube.store.collection import Collection
from scheduler.cycle.cycle import Unschedulable, decide
from scheduler.framework.plugin import ScheduleResult
from scheduler.framework.profile import Profile
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.preemption import WAITING, NoPreemption, Preemption
from scheduler.standalone.post_filter import PostFilter
from scheduler.state.cluster import ClusterView
from tests import builders
from tests.scheduler.plugin_results import view
from tests.scheduler.preemptions import PROFILE

NODES = [builders.node(name, allocatable={"cpu": "4"}) for name in ("n1", "n2")]


class Plain:
    """Decides without a memory, and counts."""

    def __init__(self) -> None:
        self.decisions = 0

    def decide(self, pod: model.Pod, view: ClusterView, profile: Profile) -> ScheduleResult | Unschedulable:
        self.decisions += 1
        return decide(pod, view, profile)


class Evictions:
    """Accepts evictions, or rejects them."""

    def __init__(self) -> None:
        self.rejection = ""
        self.uids: set[str] = set()
        self.budgets: list[Budgets] = []

    def going(self) -> frozenset[str]:
        return frozenset(self.uids)

    async def evict(self, preemption: Preemption, preemptor: model.Pod, budgets: Budgets) -> str:
        self.budgets.append(budgets)
        if not self.rejection:
            self.uids.update(victim.uid for victim in preemption.victims)
        return self.rejection


class World:
    """Room is made, and who lost a nomination is noted."""

    def __init__(self, *records: model.Record) -> None:
        self.cluster = view(*records)
        self.evictions = Evictions()
        self.budgets: Collection[DisruptionBudget] = Collection()
        self.losers: list[str] = []
        self.decider = Plain()
        self.room = PostFilter(self.budgets, self.evictions, self)

    def nominate(self, pod: model.Pod, node: str) -> None:
        assert not node
        self.losers.append(pod.name)

    def decide(self, pod: model.Pod) -> ScheduleResult | Unschedulable:
        return self.room.decide(pod, self.cluster, PROFILE, self.decider, self.room.moment(pod))

    def preempt(self, pod: model.Pod) -> Preemption | NoPreemption:
        moment = self.room.moment(pod)
        decision = self.decide(pod)
        assert isinstance(decision, Unschedulable)
        answer = self.room.victims(decision, self.cluster, PROFILE, moment)
        self.room.nominate(pod, answer, moment)
        return answer

    def place(self, pod: model.Pod) -> str | None:
        decision = self.decide(pod)
        return decision.node if isinstance(decision, ScheduleResult) else None


def pod(name: str, priority: int, cpu: str = "4", node: str = "", **more: object) -> model.Pod:
    return builders.pod(name, priority=priority, requests={"cpu": cpu}, node=node, **more)  # type: ignore[arg-type]


def cleared(preemption: Preemption | NoPreemption) -> tuple[str, list[str]]:
    assert isinstance(preemption, Preemption)
    return preemption.node, [victim.name for victim in preemption.victims]


OLD = [pod("old-1", 1, node="n1"), pod("old-2", 2, node="n2")]


def test_a_cleared_node_is_kept_until_the_pod_is_there() -> None:
    world, new = World(*NODES, *OLD), pod("new", 10)
    assert cleared(world.preempt(new)) == ("n1", ["old-1"])
    world.cluster = world.cluster.without_pod("default/old-1", "n1")
    assert world.place(pod("other", 10)) is None
    assert world.place(new) == "n1"
    world.room.assumed(new, "n1")
    assert world.place(pod("other", 10)) == "n1"


def test_two_pods_do_not_have_the_same_victims_evicted() -> None:
    world = World(*NODES, *OLD)
    assert cleared(world.preempt(pod("first", 10))) == ("n1", ["old-1"])
    assert cleared(world.preempt(pod("second", 10))) == ("n2", ["old-2"])
    rejected = world.preempt(pod("third", 10))
    assert isinstance(rejected, NoPreemption)
    assert not rejected.waits


def test_two_pods_share_a_node_that_is_cleared_for_both() -> None:
    there = [pod(name, priority, "2", node="n1") for name, priority in (("a", 1), ("b", 2), ("c", 3))]
    world = World(builders.node("n1", allocatable={"cpu": "6"}), *there)
    assert cleared(world.preempt(pod("first", 10, "2"))) == ("n1", ["a"])
    assert cleared(world.preempt(pod("second", 10, "2"))) == ("n1", ["b", "a"])


def test_a_better_pod_takes_a_node_that_is_being_cleared() -> None:
    world, low = World(*NODES[:1], *OLD[:1]), pod("low", 5)
    world.preempt(low)
    assert cleared(world.preempt(pod("high", 10))) == ("n1", ["old-1"])
    assert world.losers == ["low"]
    assert isinstance(world.preempt(low), NoPreemption)


def test_waits_while_its_victims_leave() -> None:
    world, new = World(*NODES, *OLD), pod("new", 10)
    preemption = world.preempt(new)
    assert isinstance(preemption, Preemption)
    assert asyncio.run(world.room.evict(preemption, new)) == ""
    assert world.preempt(new) == NoPreemption(WAITING, waits=True)
    world.evictions.uids.clear()
    assert cleared(world.preempt(new)) == ("n1", ["old-1"])


def test_a_node_whose_pods_cannot_be_evicted_is_given_up() -> None:
    world, new = World(*NODES, *OLD), pod("new", 10)
    world.evictions.rejection = "no"
    preemption = world.preempt(new)
    assert isinstance(preemption, Preemption)
    assert asyncio.run(world.room.evict(preemption, new)) == "no"
    world.cluster = world.cluster.without_pod("default/old-1", "n1")
    assert world.place(pod("other", 10)) == "n1"


def test_the_nominated_node_is_taken_although_another_one_scores_higher() -> None:
    world, new = World(*NODES, pod("small", 1, "1", node="n1")), pod("new", 10, "1")
    assert world.place(new) == "n2"
    world.room.pod_changed(None, replace(new, nominated_node="n1"))
    before = world.decider.decisions
    assert world.place(new) == "n1"
    assert world.decider.decisions == before
    # When it does not fit there the others are looked at.
    world.cluster = world.cluster.with_pod(pod("large", 20, node="n1"), "n1")
    assert world.place(new) == "n2"


def test_follows_what_the_pods_status_says() -> None:
    world, waiting, other = World(*NODES[:1]), pod("waiting", 5), pod("other", 1)
    nominated = replace(waiting, nominated_node="n1")
    world.room.pod_changed(None, nominated)
    assert world.place(other) is None
    world.room.pod_changed(nominated, replace(nominated, resource_version=2))
    assert world.place(other) is None
    world.room.pod_changed(nominated, waiting)
    assert world.place(other) == "n1"
    world.room.pod_changed(waiting, nominated)
    world.room.pod_changed(nominated, None)
    assert world.place(other) == "n1"
    world.room.pod_changed(None, None)


def test_events_older_than_the_decision_do_not_undo_it() -> None:
    world, new = World(*NODES[:1], *OLD[:1]), pod("new", 10)
    world.preempt(new)
    world.room.pod_changed(new, replace(new, resource_version=2))
    world.cluster = world.cluster.without_pod("default/old-1", "n1")
    assert world.place(pod("other", 10)) is None


def test_a_pod_that_cannot_have_others_evicted_loses_its_nomination() -> None:
    world, new = World(*NODES[:1], pod("better", 20, node="n1")), pod("new", 10)
    world.room.pod_changed(None, replace(new, nominated_node="n1"))
    rejected = world.preempt(new)
    assert isinstance(rejected, NoPreemption)
    assert not rejected.waits
    world.cluster = world.cluster.without_pod("default/better", "n1")
    assert world.place(pod("other", 1)) == "n1"


def test_only_budgets_forbid_it() -> None:
    world, new = World(*NODES[:1], *OLD[:1]), pod("new", 10)
    world.budgets.upsert(builders.budget())
    rejected = world.preempt(new)
    assert isinstance(rejected, NoPreemption)
    assert rejected.protected
    world.budgets.delete("default/budget")
    assert cleared(world.preempt(new)) == ("n1", ["old-1"])


def test_a_pod_with_affinity_does_not_go_where_the_other_is_only_nominated() -> None:
    near = Constraints(affinity=(PodTerm(builders.HOSTNAME, LabelSelector((("app", "web"),))),))
    world, follower = World(*NODES), pod("follower", 0, "1", constraints=near)
    world.room.pod_changed(None, pod("leader", 5, "1", labels={"app": "web"}, nominated_node="n1"))
    assert world.place(follower) is None


async def test_budgets_are_grouped_again_only_when_one_changes() -> None:
    world, pod = World(builders.node("n1")), builders.pod("web")
    for changes in (False, False, True):
        if changes:
            world.budgets.upsert(builders.budget())
        await world.room.evict(Preemption("n1", ()), pod)
    first, second, third = world.evictions.budgets
    assert first is second
    assert third is not first
