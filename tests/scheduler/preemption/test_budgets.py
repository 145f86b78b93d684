"""Which evictions the budgets leave room for."""

import pytest

from kube.rules.disruption import DisruptionBudget
from scheduler.preemption.budgets import Budgets
from tests import builders

WEB = {"app": "web"}


def budget(allowed: int, name: str = "web") -> DisruptionBudget:
    return builders.budget(name, labels=WEB, allowed=allowed)


@pytest.mark.parametrize(
    ("budgets", "beyond"),
    [
        pytest.param([], [], id="none"),
        pytest.param([budget(3)], [], id="room-for-all"),
        pytest.param([budget(2)], ["c"], id="for-the-first-two"),
        pytest.param([budget(0)], ["a", "b", "c"], id="for-no-pod"),
        pytest.param([budget(3), budget(3, "again")], ["a", "b", "c"], id="two-budgets-the-api-rejects"),
        pytest.param([builders.budget(labels=WEB, namespace="other")], [], id="of-another-namespace"),
        pytest.param([builders.budget(labels={"app": "db"})], [], id="of-other-pods"),
        pytest.param([builders.budget()], ["a", "b", "c"], id="of-all-pods"),
    ],
)
def test_pods_beyond_the_budgets(budgets: list[DisruptionBudget], beyond: list[str]) -> None:
    pods = [builders.pod(name, labels=WEB) for name in "abc"]
    limits = Budgets(budgets)
    assert [pod.name for pod in limits.beyond(pods)] == beyond
    assert [pod.name for pod in pods if limits.never(pod)] == (beyond if len(beyond) == 3 else [])


def test_a_pod_that_is_being_deleted_uses_up_nothing() -> None:
    leaving, staying = builders.pod("a", labels=WEB, deleting=True), builders.pod("b", labels=WEB)
    assert Budgets([budget(1)]).beyond([leaving, staying]) == []
    assert not Budgets([budget(0)]).never(leaving)
