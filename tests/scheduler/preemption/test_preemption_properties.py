"""Whatever the cluster: who is evicted is less important, not protected, enough, and not one too many."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from kube.objects import model
from kube.objects.constraints import Constraints, HostPort, PodTerm, SpreadConstraint
from kube.objects.labels import LabelSelector
from kube.rules.disruption import DisruptionBudget
from scheduler.cycle.cycle import Unschedulable, decide, judge
from scheduler.framework.plugin import Eviction, Filter
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.preemption import NoPreemption, Preemptor
from scheduler.preemption.victims import Trial, question_of, victims_on
from scheduler.state.cluster import ClusterView
from tests import builders
from tests.scheduler.plugin_results import view
from tests.scheduler.preemptions import NOW, PROFILE

NODES = [builders.node(f"n{number}", allocatable={"cpu": "4"}) for number in range(3)]
WEB = LabelSelector((("app", "web"),))
SAID = (
    None,
    None,
    Constraints(ports=(HostPort(80),)),
    Constraints(anti_affinity=(PodTerm(builders.HOSTNAME, WEB),)),
    Constraints(spread=(SpreadConstraint(1, builders.HOSTNAME, selector=WEB),)),
)


@st.composite
def pods(draw: st.DrawFn, name: str, node: str = "") -> model.Pod:
    return builders.pod(
        name,
        node=node,
        priority=draw(st.integers(0, 3)) if node else 3,
        requests={"cpu": str(draw(st.integers(0, 4)))},
        labels={"app": draw(st.sampled_from(("web", "db")))},
        constraints=draw(st.sampled_from(SAID)),
        started=NOW - timedelta(minutes=draw(st.integers(0, 5))),
        deleting=draw(st.integers(0, 9)) == 0,
    )


@st.composite
def placed(draw: st.DrawFn) -> list[model.Pod]:
    return [draw(pods(f"p{number}", f"n{number % 3}")) for number in range(draw(st.integers(1, 10)))]


budgets = st.lists(
    st.builds(
        lambda app, allowed: builders.budget(f"{app}-{allowed}", labels={"app": app}, allowed=allowed),
        st.sampled_from(("web", "db")),
        st.integers(0, 2),
    ),
    max_size=2,
    unique_by=lambda budget: budget.name,
)


def fits(pod: model.Pod, cluster: ClusterView, node: str) -> bool:
    state = cluster.node(node)
    assert state is not None
    judgement = judge(pod, cluster, PROFILE)
    return bool(judgement.allowed_nodes >> state.number & 1) and judgement.why(state) is None


def without(cluster: ClusterView, node: str, *gone: model.Pod) -> ClusterView:
    for pod in gone:
        cluster = cluster.without_pod(pod.key, node)
    return cluster


@given(placed(), pods("new"), budgets)
def test_victims(there: list[model.Pod], new: model.Pod, budgets: list[DisruptionBudget]) -> None:
    cluster = view(*NODES, *there)
    decision = decide(new, cluster, PROFILE)
    if not isinstance(decision, Unschedulable):
        return
    answer = Preemptor().preempt(decision, PROFILE, Budgets(budgets), {})
    if isinstance(answer, NoPreemption):
        for state in cluster.nodes:
            free = [
                pod
                for pod in state.pods
                if pod.priority < new.priority and (pod.deleting or not _covered(pod, budgets))
            ]
            assert not fits(new, without(cluster, state.name, *free), state.name)
        return
    assert answer.victims
    assert all(victim.priority < new.priority and victim.node_name == answer.node for victim in answer.victims)
    left = without(cluster, answer.node, *answer.victims)
    assert fits(new, left, answer.node)
    for victim in answer.victims:
        assert not fits(new, left.with_pod(victim, answer.node), answer.node), f"{victim.name} could have stayed"
    for budget in budgets:
        assert sum(budget.covers(victim) and not victim.deleting for victim in answer.victims) <= budget.allowed
    assert all(victim.deleting or len(_covered(victim, budgets)) < 2 for victim in answer.victims)


def _covered(pod: model.Pod, budgets: list[DisruptionBudget]) -> list[DisruptionBudget]:
    return [budget for budget in budgets if budget.covers(pod)]


@given(placed(), pods("new"), budgets)
def test_victims_are_the_same_with_and_without_nominated_pods_counted(
    there: list[model.Pod], new: model.Pod, budgets: list[DisruptionBudget]
) -> None:
    cluster = view(*NODES, *there)
    question = question_of(judge(new, cluster, PROFILE), cluster, PROFILE)
    for state in cluster.nodes:
        quick = victims_on(Trial.on(question, state), Budgets(budgets), (), NOW)
        thorough = victims_on(Trial.on(question.with_nominated(), state), Budgets(budgets), (), NOW)
        assert quick == thorough


def silent(plugin: Filter) -> Filter:
    """The same filter, that says nothing of what preemption has to know."""
    kind = type(plugin)
    made: Filter = object.__new__(type(kind.__name__, (kind,), {"eviction": Eviction.UNKNOWN}))
    made.__dict__.update(plugin.__dict__)
    return made


SILENT = replace(PROFILE, filters=tuple(map(silent, PROFILE.filters)))


@given(placed(), pods("new"), pods("nominated"), budgets)
def test_filters_that_say_nothing_of_preemption_choose_the_same_victims(
    there: list[model.Pod], new: model.Pod, nominated: model.Pod, budgets: list[DisruptionBudget]
) -> None:
    cluster = view(*NODES, *there)
    decision, silently = decide(new, cluster, PROFILE), decide(new, cluster, SILENT)
    if not isinstance(decision, Unschedulable) or not isinstance(silently, Unschedulable):
        assert decision == silently
        return
    for kept in ({}, {"n1": [nominated]}):
        answer = Preemptor().preempt(decision, PROFILE, Budgets(budgets), kept)
        other = Preemptor().preempt(silently, SILENT, Budgets(budgets), kept)
        assert type(answer) is type(other)
        assert isinstance(answer, NoPreemption) or answer == other
