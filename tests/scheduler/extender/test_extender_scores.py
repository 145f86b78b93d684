"""Which nodes the extender prefers."""

from collections.abc import Mapping

import pytest

from kube.objects.model import Record
from tests.builders import attachment, claim, volume
from tests.scheduler.extender_requests import NOW, arguments, extender, nodes, reserved_claim, scores, unhealthy_volume

ALL = ["n1", "n2", "n3", "n4"]


def zones(a: int, b: int) -> dict[str, int]:
    return {"n1": a, "n2": a, "n3": b, "n4": b}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param(
            [reserved_claim("data", "pv-b", zone="b"), volume("pv-a", zone="a"), volume("pv-b", zone="b")],
            zones(0, 10),
            id="where the reserved volume is",
        ),
        pytest.param(
            [reserved_claim("data", "pv-b", zone="b"), volume("pv-a", zone="a")],
            zones(0, 10),
            id="in the reserved zone, the volume is not known yet",
        ),
        pytest.param(
            [reserved_claim("data", "pv-b", zone="b", until="2026-01-01T11:00:00Z"), volume("pv-a", zone="a")],
            zones(10, 0),
            id="the reservation is over",
        ),
        pytest.param(
            [reserved_claim("data", "pv-n3", nodes="n3"), volume("pv-n3", node="n3"), volume("pv-n1", node="n1")],
            {"n1": 0, "n2": 0, "n3": 10, "n4": 0},
            id="the node of a reserved local volume",
        ),
        pytest.param(
            [claim(), volume("pv-a", zone="a", size="40Gi"), volume("pv-b", zone="b", size="20Gi")],
            zones(3, 5),
            id="the tighter fit",
        ),
        pytest.param([claim(), volume("pv-a", zone="a", size="100Ti")], zones(0, 0), id="a waste is worth nothing"),
        pytest.param([claim(size="0"), volume("pv-a", zone="a")], zones(0, 0), id="a claim for nothing"),
        pytest.param([claim(), unhealthy_volume("pv-a", zone="a", size="0")], zones(0, 0), id="a volume of no size"),
        pytest.param(
            [claim(), volume("pv-a", zone="a", claim="default/data", size="20Gi"), volume("pv-b", zone="b")],
            zones(10, 0),
            id="the claim's own volume decides alone",
        ),
        pytest.param(
            [claim(volume_name="pv-1"), attachment("pv-1", "n2")], {"n1": 0, "n2": 10, "n3": 0, "n4": 0}, id="attached"
        ),
        pytest.param([claim(volume_name="pv-1"), attachment("pv-2", "n2")], zones(0, 0), id="another one attached"),
        pytest.param(
            [claim(volume_name="pv-1"), attachment("pv-1", "n2", attached=False)], zones(0, 0), id="not attached yet"
        ),
        pytest.param([], zones(0, 0), id="the claim is not known yet"),
    ],
)
def test_a_claim_prefers(records: list[Record], expected: Mapping[str, int]) -> None:
    assert scores(extender([*nodes(), *records]), ALL) == expected


def test_scores_are_averaged_over_the_claims() -> None:
    records: list[Record] = [
        reserved_claim("data", "pv-b", zone="b"),
        volume("pv-b", zone="b"),
        claim("log", size="4Gi"),
    ]
    records += [volume("pv-a", zone="a", size="10Gi"), claim("old", volume_name="pv-1"), attachment("pv-1", "n4")]
    answers = extender([*nodes(), *records])
    # By claim: reserved (0 in a, 10 in b), fit (4 in a; in b 4 of the same size), attached (10 on n4).
    assert scores(answers, ALL, claims=["data", "log", "old"]) == {"n1": 1, "n2": 1, "n3": 5, "n4": 8}


def test_an_unknown_node_scores_nothing() -> None:
    answers = extender([*nodes(), reserved_claim("data", "pv", zone="b")])
    assert scores(answers, ["n3", "new"]) == {"n3": 10, "new": 0}


def test_without_claims_no_node_has_a_score() -> None:
    assert scores(extender(nodes()), ["n1", "new"], claims=[]) == {"n1": 0, "new": 0}
    assert extender(nodes()).prioritize(arguments(["n1", "new"], claims=[]), NOW).body == b"[]"


def test_pods_of_other_schedulers_are_left_alone() -> None:
    answers = extender([*nodes(), reserved_claim("data", "pv", zone="b")], scheduler_names=["ours"])
    assert scores(answers, ALL) == zones(0, 0)
    assert scores(answers, ALL, scheduler_name="ours") == zones(0, 10)
