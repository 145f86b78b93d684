"""The formulas against numbers worked out by hand from upstream's code."""

import pytest

from kube.objects import model
from kube.objects.constraints import SCHEDULE_ANYWAY, Constraints, PodTerm, SpreadConstraint, WeightedPodTerm
from kube.objects.labels import LabelSelector
from scheduler.plugins.neighbour_scores import PreferredPodAffinity, SoftTopologySpread
from tests import builders
from tests.scheduler.plugin_results import scores, view

WEB = LabelSelector((("app", "web"),))
TERM = PodTerm(builders.ZONE, WEB)
NODES = [builders.node("a1", zone="a"), builders.node("b1", zone="b"), builders.node("c1", zone="c")]


def web(name: str, node: str, constraints: Constraints | None = None) -> model.Pod:
    return builders.pod(name, node=node, labels={"app": "web"}, constraints=constraints)


NEAR, APART = (
    Constraints(preferred_affinity=(WeightedPodTerm(10, TERM),)),
    Constraints(preferred_anti_affinity=(WeightedPodTerm(10, TERM),)),
)
HARD = Constraints(affinity=(TERM,))


@pytest.mark.parametrize(
    ("constraints", "there", "expected"),
    [
        pytest.param(NEAR, [web("p", "a1")], {"a1": 100, "b1": 0, "c1": 0}, id="near"),
        pytest.param(NEAR, [web("p", "a1"), web("q", "a1"), web("r", "b1")], {"a1": 100, "b1": 50, "c1": 0}, id="more"),
        pytest.param(APART, [web("p", "a1")], {"a1": 0, "b1": 100, "c1": 100}, id="apart"),
        pytest.param(None, [web("p", "a1", NEAR)], {"a1": 100, "b1": 0, "c1": 0}, id="wanted-there"),
        pytest.param(None, [web("p", "a1", APART)], {"a1": 0, "b1": 100, "c1": 100}, id="unwanted-there"),
        pytest.param(
            None, [web("p", "a1", HARD), web("q", "b1", NEAR)], {"a1": 10, "b1": 100, "c1": 0}, id="needed-there"
        ),
        pytest.param(NEAR, [], None, id="no-pod-there"),
        pytest.param(None, [web("p", "a1")], None, id="nothing-said"),
    ],
)
def test_preferred_pod_affinity(
    constraints: Constraints | None, there: list[model.Pod], expected: dict[str, int] | None
) -> None:
    assert scores(PreferredPodAffinity(), web("new", "", constraints), view(*NODES, *there)) == expected


def softly(key: str = builders.ZONE, skew: int = 1) -> Constraints:
    return Constraints(spread=(SpreadConstraint(skew, key, SCHEDULE_ANYWAY, WEB),))


@pytest.mark.parametrize(
    ("constraints", "there", "expected"),
    [
        # Weight of three domains: ln 5 = 1.609; two pods 3.219 -> 3, one pod 1.609 -> 2; 100 * (3 + 0 - s) // 3.
        pytest.param(
            softly(), [web("p", "a1"), web("q", "a1"), web("r", "b1")], {"a1": 0, "b1": 33, "c1": 100}, id="by-zone"
        ),
        pytest.param(softly(), [], {"a1": 100, "b1": 100, "c1": 100}, id="no-pod-there"),
        # A skew of 3 adds 2 everywhere: 5, 4 and 2.
        pytest.param(
            softly(skew=3),
            [web("p", "a1"), web("q", "a1"), web("r", "b1")],
            {"a1": 40, "b1": 60, "c1": 100},
            id="a-larger-skew-waters-it-down",
        ),
        pytest.param(softly(builders.HOSTNAME), [web("p", "a1")], {"a1": 0, "b1": 100, "c1": 100}, id="by-host"),
    ],
)
def test_soft_spread(constraints: Constraints, there: list[model.Pod], expected: dict[str, int]) -> None:
    assert scores(SoftTopologySpread(), web("new", "", constraints), view(*NODES, *there)) == expected


def test_a_node_without_the_label_comes_last() -> None:
    homeless = builders.node("x1", zone=None)
    result = scores(SoftTopologySpread(), web("new", "", softly()), view(*NODES, homeless, web("p", "a1")))
    assert result == {"a1": 0, "b1": 100, "c1": 100, "x1": 0}


def test_only_domains_of_nodes_that_fit_are_weighed() -> None:
    cluster = view(*NODES, web("p", "a1"))
    assert scores(SoftTopologySpread(), web("new", "", softly()), cluster, ["b1", "c1"]) == {"b1": 100, "c1": 100}


def test_a_pod_without_soft_constraints_is_not_scored_by_them() -> None:
    assert scores(SoftTopologySpread(), web("new", ""), view(*NODES)) is None
