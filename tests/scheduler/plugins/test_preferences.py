from collections.abc import Sequence

import pytest

from kube.objects.constraints import Constraints, PreferredNodes
from kube.objects.labels import NodeSelectorTerm, Requirement
from kube.objects.model import Taint, Toleration
from scheduler.framework.profile import AddedAffinity, Thresholds
from scheduler.plugins.preferences import PreferNoSchedule, PreferredNodeAffinity, normalised
from tests import builders
from tests.scheduler.plugin_results import scores, view

NODES = [
    builders.node("n1", labels={"disk": "ssd"}, taints=[Taint("busy", "PreferNoSchedule")]),
    builders.node("n2", labels={"disk": "ssd", "rank": "1"}),
    builders.node("n3", taints=[Taint("busy", "PreferNoSchedule"), Taint("old", "PreferNoSchedule")]),
]


def wish(weight: int, key: str) -> PreferredNodes:
    return PreferredNodes(weight, NodeSelectorTerm((Requirement(key, "Exists"),)))


def test_preferences_add_up_and_the_best_node_gets_all() -> None:
    pod = builders.pod(constraints=Constraints(preferred_nodes=(wish(30, "disk"), wish(10, "rank"))))
    assert scores(PreferredNodeAffinity(Thresholds()), pod, view(*NODES)) == {"n1": 75, "n2": 100, "n3": 0}


def test_a_preference_without_requirements_prefers_nothing() -> None:
    pod = builders.pod(constraints=Constraints(preferred_nodes=(PreferredNodes(5, NodeSelectorTerm()),)))
    assert scores(PreferredNodeAffinity(Thresholds()), pod, view(*NODES)) == {"n1": 0, "n2": 0, "n3": 0}


def test_a_pod_without_preferences_is_not_scored_by_them() -> None:
    assert scores(PreferredNodeAffinity(Thresholds()), builders.pod(), view(*NODES)) is None


def test_preferences_of_the_profile_are_added_to_those_of_every_pod() -> None:
    plugin = PreferredNodeAffinity(Thresholds(added_affinity=AddedAffinity(preferred=(wish(10, "rank"),))))
    pod = builders.pod(constraints=Constraints(preferred_nodes=(wish(30, "disk"),)))
    assert scores(plugin, pod, view(*NODES)) == {"n1": 75, "n2": 100, "n3": 0}
    assert scores(plugin, builders.pod(), view(*NODES)) == {"n1": 0, "n2": 100, "n3": 0}


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], {"n1": 50, "n2": 100, "n3": 0}, id="fewest-first"),
        pytest.param([Toleration("old", "Exists")], {"n1": 0, "n2": 100, "n3": 0}, id="one-tolerated"),
        pytest.param([Toleration("old", "Exists", "", "NoSchedule")], {"n1": 50, "n2": 100, "n3": 0}, id="effect"),
        pytest.param([Toleration(operator="Exists")], None, id="all-tolerated"),
    ],
)
def test_taints_that_only_prefer_others(tolerations: Sequence[Toleration], expected: dict[str, int] | None) -> None:
    assert scores(PreferNoSchedule(), builders.pod(tolerations=tolerations), view(*NODES)) == expected


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([0, 0], [0, 0]), ([1, 3], [33, 100]), ([], []), ([2, 2], [100, 100])],
    ids=["none", "rounded-down", "no-nodes", "all-alike"],
)
def test_scaling(counts: list[int], expected: list[int]) -> None:
    assert normalised(counts) == expected
