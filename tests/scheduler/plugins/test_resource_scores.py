"""The formulas against numbers worked out by hand from upstream's code."""

import pytest

from scheduler.framework.plugin import Score
from scheduler.framework.profile import Thresholds
from scheduler.plugins.resource_scores import Balanced, BinPack, LeastAllocated
from tests import builders
from tests.scheduler.plugin_results import scores, view

EQUAL = Thresholds()
NODE = builders.node("n1", allocatable={"cpu": "4", "memory": "8Gi"})


@pytest.mark.parametrize(
    ("plugin", "wanted", "there", "score"),
    [
        pytest.param(LeastAllocated(EQUAL), {"cpu": "1", "memory": "2Gi"}, {}, 75, id="least-quarter"),
        pytest.param(LeastAllocated(EQUAL), {"cpu": "1", "memory": "1Gi"}, {}, 81, id="least-rounds-each-down"),
        pytest.param(LeastAllocated(EQUAL), {"cpu": "1"}, {"cpu": "9"}, 50, id="least-overcommitted"),
        pytest.param(BinPack(EQUAL), {"cpu": "1", "memory": "2Gi"}, {}, 25, id="most-quarter"),
        pytest.param(BinPack(EQUAL), {"cpu": "1"}, {"cpu": "9"}, 50, id="most-overcommitted"),
        pytest.param(Balanced(EQUAL), {"cpu": "1", "memory": "2Gi"}, {}, 75, id="balance-unchanged"),
        pytest.param(Balanced(EQUAL), {"cpu": "4"}, {}, 50, id="balance-lost"),
        pytest.param(Balanced(EQUAL), {"cpu": "4"}, {"memory": "8Gi"}, 100, id="balance-won"),
    ],
)
def test_a_score(plugin: Score, wanted: dict[str, str], there: dict[str, str], score: int) -> None:
    cluster = view(NODE, builders.pod("there", node="n1", requests=there))
    assert scores(plugin, builders.pod(requests=wanted), cluster) == {"n1": score}


def test_a_pod_that_requests_nothing_changes_no_balance() -> None:
    assert scores(Balanced(EQUAL), builders.pod(), view(NODE)) is None


def test_weights_and_a_resource_that_only_some_pods_request() -> None:
    plugin = LeastAllocated(Thresholds(resources={"cpu": 3, "example.com/gpu": 1}))
    node = builders.node("n1", allocatable={"cpu": "4", "example.com/gpu": "2"})
    assert scores(plugin, builders.pod(requests={"cpu": "1"}), view(node)) == {"n1": 75}
    both = builders.pod(requests={"cpu": "1", "example.com/gpu": "2"})
    assert scores(plugin, both, view(node)) == {"n1": (3 * 75 + 0) // 4}


def test_a_node_that_has_none_of_a_resource_is_scored_by_the_others() -> None:
    node = builders.node("n1", allocatable={"cpu": "4", "memory": "0"})
    assert scores(LeastAllocated(EQUAL), builders.pod(requests={"cpu": "1"}), view(node)) == {"n1": 75}


def test_a_score_is_computed_again_when_the_node_changes() -> None:
    plugin, pod = LeastAllocated(EQUAL), builders.pod("new", requests={"cpu": "2", "memory": "4Gi"})
    cluster = view(NODE)
    assert scores(plugin, pod, cluster) == {"n1": 50}
    assert scores(plugin, pod, cluster.with_pod(pod, "n1")) == {"n1": 0}
