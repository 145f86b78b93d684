"""Preemption on small clusters."""

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime

from kube.objects import model
from kube.objects.model import Record
from kube.rules.disruption import DisruptionBudget
from scheduler.cycle.cycle import Unschedulable, decide
from scheduler.framework.profile import Profile
from scheduler.plugins.registry import default_profile
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.preemption import NoPreemption, Preemption, Preemptor
from scheduler.state.cluster import ClusterView
from tests import builders
from tests.scheduler.plugin_results import view

PROFILE = default_profile("zone-scheduler")
NOW = builders.EPOCH


def preempt(
    pod: model.Pod,
    cluster: ClusterView,
    budgets: Iterable[DisruptionBudget] = (),
    nominated: Mapping[str, Sequence[model.Pod]] | None = None,
    going: Container[str] = (),
    profile: Profile = PROFILE,
) -> Preemption | NoPreemption:
    decision = decide(pod, cluster, profile)
    assert isinstance(decision, Unschedulable), "the pod fits as it is"
    return Preemptor().preempt(decision, profile, Budgets(budgets), nominated or {}, going)


def chosen(
    pod: model.Pod,
    *records: Record,
    budgets: Iterable[DisruptionBudget] = (),
    nominated: Mapping[str, Sequence[model.Pod]] | None = None,
    now: datetime = NOW,
) -> tuple[str, list[str]] | str:
    """The node and the names of the victims, or why there are none."""
    result = preempt(pod, view(*records, now=now), budgets, nominated)
    if isinstance(result, NoPreemption):
        return result.why
    return result.node, [victim.name for victim in result.victims]
