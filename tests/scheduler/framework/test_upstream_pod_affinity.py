"""The tables of kube-scheduler's own unit tests, for preferred affinity to pods.

Of Kubernetes 1.37.1, below pkg/scheduler/framework/plugins: interpodaffinity/scoring_test.go (TestPreferredAffinity,
TestPreferredAffinityWithHardPodAffinitySymmetricWeight). Left out are values that the API server rejects, and the
plugin's arguments `ignorePreferredTermsOfExistingPods` and `hardPodAffinityWeight`, which have no counterpart here:
their defaults apply. Objects pass through the decoder, as those of a cluster do.
"""

from collections.abc import Sequence
from typing import Any, Final

import pytest

from kube.objects.model import Namespace, Record
from scheduler.plugins.neighbour_scores import PreferredPodAffinity
from tests.scheduler.framework.test_upstream_soft_spread import Labels, Object, node, pod
from tests.scheduler.plugin_results import scores, view

CHINA, INDIA, AZ1, AZ2 = {"region": "China"}, {"region": "India"}, {"az": "az1"}, {"az": "az2"}
CHINA_AZ1 = CHINA | AZ1
S1, S2, NO_LABELS = {"security": "S1"}, {"security": "S2"}, dict[str, str]()


def expressions(*requirements: tuple[str, str, Sequence[str]]) -> Object:
    return {
        "matchExpressions": [
            {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
            for key, operator, values in requirements
        ]
    }


def with_label(value: str) -> Object:
    return expressions(("security", "In", [value]))


def term(selector: Object, key: str, **more: Any) -> Object:
    return {"labelSelector": selector, "topologyKey": key, **more}


def preferring(*terms: tuple[int, Object]) -> Object:
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": weight, "podAffinityTerm": wanted} for weight, wanted in terms
        ]
    }


def requiring(*terms: Object) -> Object:
    return {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}


def near(*terms: tuple[int, Object]) -> Object:
    return {"podAffinity": preferring(*terms)}


def apart(*terms: tuple[int, Object]) -> Object:
    return {"podAntiAffinity": preferring(*terms)}


def of_team(operator: str) -> Object:
    return {"namespaceSelector": expressions(("team", operator, ["team1"]))}


WITH_S1 = near((5, term(with_label("S1"), "region")))
WITH_S2 = near((6, term(with_label("S2"), "region")))
AWAY_FROM_S1 = apart((5, term(with_label("S1"), "az")))
AWAY_FROM_S2 = apart((5, term(with_label("S2"), "az")))
WITH_S1_AWAY_FROM_S2 = near((8, term(with_label("S1"), "region"))) | AWAY_FROM_S2
LABELLED_AT_ALL = expressions(("security", "Exists", []), ("wrongkey", "DoesNotExist", []))
SEVERAL_OPERATORS = near(
    (8, term(expressions(("security", "NotIn", ["S1"]), ("security", "In", ["S2"])), "region")),
    (2, term(LABELLED_AT_ALL, "region")),
)
REQUIRED = {
    "podAffinity": requiring(
        term(expressions(("security", "In", ["S1", "value2"])), "region"), term(LABELLED_AT_ALL, "region")
    )
}
IN_TEAM = (5, term(with_label("S1"), "region", namespaces=["subteam2.team2"], **of_team("In")))
NOT_IN_TEAM = (5, term(with_label("S1"), "region", **of_team("NotIn")))
NAMESPACES: Final[Sequence[Record]] = [
    Namespace(name, f"uid-{name}", 1, (("team", name.split(".")[1]),))
    for name in ("subteam1.team1", "subteam2.team1", "subteam1.team2", "subteam2.team2")
]
T1_1, T1_2, T2_1, T2_2 = "subteam1.team1", "subteam2.team1", "subteam1.team2", "subteam2.team2"
THREE_PLACES = (CHINA, INDIA, AZ1)
Placed = tuple[int, Labels, Object, str]
"""Of a pod that is there: the number of its node, its labels, its affinity, its namespace."""


def at(number: int, labels: Labels, affinity: Object | None = None, namespace: str = "default") -> Placed:
    return number, labels, affinity or {}, namespace


def affinity_scores(
    labels: Labels,
    affinity: Object | None,
    places: Sequence[Labels],
    pods: Sequence[Placed],
    namespace: str = "default",
) -> list[int] | None:
    """Return the score of each node, numbered from 1."""
    nodes = [node(f"node{number}", has) for number, has in enumerate(places, 1)]
    placed = [
        pod(f"there-{place}", has, {"affinity": wants}, node=f"node{number}", namespace=where)
        for place, (number, has, wants, where) in enumerate(pods)
    ]
    new = pod("new", labels, {"affinity": affinity or {}}, namespace=namespace)
    given = scores(PreferredPodAffinity(), new, view(*nodes, *placed, *NAMESPACES))
    return None if given is None else [given[scored.name] for scored in nodes]


@pytest.mark.parametrize(
    ("labels", "affinity", "places", "pods", "expected"),
    [
        pytest.param(S1, None, THREE_PLACES, [], None, id="no affinity"),
        pytest.param(S1, WITH_S1, THREE_PLACES, [at(1, S1), at(2, S2), at(3, S1)], [100, 0, 0], id="near"),
        pytest.param(
            NO_LABELS, WITH_S1, (CHINA, CHINA_AZ1, INDIA), [at(1, S1)], [100, 100, 0], id="in the same region"
        ),
        pytest.param(
            *(S1, WITH_S2, (CHINA, INDIA, CHINA, CHINA, INDIA)),
            [at(1, S2), at(1, S2), at(2, S2), at(3, S2), at(4, S2), at(5, S2)],
            [100, 0, 100, 100, 0],
            id="the region with more of them",
        ),
        pytest.param(
            *(S1, SEVERAL_OPERATORS, THREE_PLACES, [at(1, S1), at(2, S2), at(3, S1)], [20, 100, 0]),
            id="several operators",
        ),
        pytest.param(
            S2, None, THREE_PLACES, [at(1, S1, WITH_S1), at(2, S2, WITH_S2)], [0, 100, 0], id="wanted by those there"
        ),
        pytest.param(
            *(S1, None, THREE_PLACES, [at(1, S1, REQUIRED), at(2, S2, REQUIRED)], [100, 100, 0]),
            id="needed by those there",
        ),
        pytest.param(S1, AWAY_FROM_S1, (AZ1, CHINA), [at(1, S1), at(2, S2)], [0, 100], id="apart"),
        pytest.param(
            S1, AWAY_FROM_S1, (AZ1, CHINA), [at(1, S1), at(2, S1)], [0, 100], id="apart, one node without the key"
        ),
        pytest.param(
            S1, AWAY_FROM_S1, (AZ1, INDIA), [at(1, S1), at(1, S1), at(2, S2)], [0, 100], id="apart from several"
        ),
        pytest.param(
            *(S2, None, (AZ1, AZ2), [at(1, S1, AWAY_FROM_S2), at(2, S2, AWAY_FROM_S1)], [0, 100]),
            id="unwanted by those there",
        ),
        pytest.param(S1, WITH_S1_AWAY_FROM_S2, (CHINA, AZ1), [at(1, S1), at(2, S1)], [100, 0], id="near and apart"),
        pytest.param(
            *(S1, WITH_S1_AWAY_FROM_S2, (CHINA_AZ1, INDIA, CHINA, CHINA, INDIA)),
            [at(1, S1), at(1, S1), at(2, S1), at(3, S1), at(3, S1), at(4, S1), at(5, S1)],
            [100, 0, 100, 100, 0],
            id="near and apart, all with the same labels",
        ),
        pytest.param(
            *(S1, WITH_S1_AWAY_FROM_S2, (CHINA, AZ1, INDIA, AZ2)),
            [at(1, S1), at(2, S2), at(3, NO_LABELS, WITH_S1_AWAY_FROM_S2), at(4, NO_LABELS, AWAY_FROM_S1)],
            [100, 0, 100, 0],
            id="near, apart, wanted and unwanted",
        ),
        pytest.param(
            *(S1, None, (CHINA, CHINA), [at(1, S1), at(2, NO_LABELS, WITH_S1_AWAY_FROM_S2)], [0, 0]),
            id="nodes of one region, one without affinity",
        ),
        pytest.param(
            *(S2, None, (CHINA, INDIA), [at(1, S1, WITH_S1_AWAY_FROM_S2), at(2, S2, WITH_S2)], [0, 100]),
            id="preferences of pods that are there",
        ),
        pytest.param(S2, None, (), [], None, id="no nodes"),
    ],
)
def test_pod_affinity(
    labels: Labels,
    affinity: Object | None,
    places: Sequence[Labels],
    pods: Sequence[Placed],
    expected: list[int] | None,
) -> None:
    assert affinity_scores(labels, affinity, places, pods) == expected


@pytest.mark.parametrize(
    ("affinity", "places", "pods", "expected"),
    [
        pytest.param(
            *(None, THREE_PLACES, [at(1, S1, near(IN_TEAM)), at(2, S2, WITH_S2)], [100, 0, 0]),
            id="wanted by pods of another namespace",
        ),
        pytest.param(
            *(None, THREE_PLACES, [at(1, S1, apart(IN_TEAM)), at(2, S2, WITH_S2)], [0, 100, 100]),
            id="unwanted by pods of another namespace",
        ),
        *(
            pytest.param(
                {"near": near(IN_TEAM), "apart": apart(IN_TEAM)}[side],
                (CHINA, INDIA),
                [at(1, S1, {}, T1_1), at(1, S1, {}, T1_1), at(1, S1, {}, third), at(2, S1, {}, T1_2)],
                {"near": [100, 0], "apart": [0, 100]}[side],
                id=f"{side}: {how}",
            )
            for side in ("near", "apart")
            for third, how in ((T2_1, "by the namespaces' labels"), (T2_2, "by their labels and by name"))
        ),
        *(
            pytest.param(
                {"near": near(NOT_IN_TEAM), "apart": apart(NOT_IN_TEAM)}[side],
                (CHINA, INDIA),
                [at(1, S1, {}, T1_1), at(1, S1, {}, T1_1), at(2, S1, {}, T2_1)],
                {"near": [0, 100], "apart": [100, 0]}[side],
                id=f"{side}: by labels that namespaces do not have",
            )
            for side in ("near", "apart")
        ),
    ],
)
def test_pod_affinity_across_namespaces(
    affinity: Object | None, places: Sequence[Labels], pods: Sequence[Placed], expected: list[int]
) -> None:
    assert affinity_scores(S1, affinity, places, pods, namespace=T1_1) == expected


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [
        pytest.param("default", [100, 100, 0], id="the owner's own"),
        pytest.param(T2_1, None, id="none that is meant"),
        pytest.param(T1_1, [100, 100, 0], id="meant by its labels"),
        pytest.param(T2_2, [100, 100, 0], id="meant by name"),
    ],
)
def test_required_affinity_of_pods_that_are_there(namespace: str, expected: list[int] | None) -> None:
    selector = expressions(("service", "In", ["S1"]))
    required = requiring(term(selector, "region", namespaces=["default", T2_2], **of_team("In")))
    pods = [at(number, NO_LABELS, {"podAffinity": required}) for number in (1, 2)]
    assert affinity_scores({"service": "S1"}, None, THREE_PLACES, pods, namespace) == expected
