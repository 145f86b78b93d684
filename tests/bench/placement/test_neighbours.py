"""Mistakes that only show beside other pods or at the volumes are found when they are planted."""

from typing import Any

import pytest

from bench.placement.checker import violations
from bench.placement.cluster import Cluster
from tests.bench.placement.placements import (
    HOST,
    ZONE,
    Document,
    at,
    claim,
    csi_node,
    near,
    node,
    pod,
    spread,
    using,
    volume,
    wants,
    with_two_nodes,
)

WEB = {"app": "web"}
ALONE = wants("podAntiAffinity", near(app="web"))
TOGETHER = wants("podAffinity", near(app="web"))
EARLY, LATE = "2030-01-01T00:00:01Z", "2030-01-01T00:00:02Z"
ELSEWHERE = {**near(app="web"), "namespaceSelector": {"matchLabels": {"team": "one"}}}
OF_A_VERSION = {**near(app="web"), "matchLabelKeys": ["version"]}


def web(name: str, on: str = "n1", **more: Any) -> Document:
    return pod(name, on, labels=WEB, **more)


def spreading(*nodes: str, **more: Any) -> list[Document]:
    return [web(f"p{number}", on, topologySpreadConstraints=spread(**more)) for number, on in enumerate(nodes)]


GOOD: dict[str, Cluster] = {
    "apart": with_two_nodes(web("p", affinity=ALONE), web("q", "n2", affinity=ALONE)),
    "apart-from-itself-only": with_two_nodes(web("p", affinity=ALONE)),
    "apart-from-another-version": with_two_nodes(
        pod("p", labels={**WEB, "version": "1"}, affinity=wants("podAntiAffinity", OF_A_VERSION)),
        pod("q", labels={**WEB, "version": "2"}, affinity=wants("podAntiAffinity", OF_A_VERSION)),
    ),
    "together": with_two_nodes(web("p"), pod("q", affinity=TOGETHER)),
    "first-of-a-group": with_two_nodes(web("p", affinity=TOGETHER)),
    "first-before-the-others": with_two_nodes(at(web("p", affinity=TOGETHER), EARLY), at(web("q", "n2"), LATE)),
    "with-another-namespace": with_two_nodes(
        {**web("p"), "metadata": {"namespace": "other", "name": "p", "labels": WEB}},
        pod("q", affinity=wants("podAffinity", {**near(app="web"), "namespaces": ["other"]})),
    ),
    "spread": with_two_nodes(*spreading("n1", "n1", "n2")),
    "spread-beside-those-who-do-not-care": with_two_nodes(*spreading("n1"), *(web(f"q{n}") for n in range(3))),
    "spread-where-it-may-be": with_two_nodes(
        *(dict(document, spec={**document["spec"], "nodeSelector": {ZONE: "a"}}) for document in spreading("n1", "n1"))
    ),
    "volume": with_two_nodes(
        pod("p", volumes=using("c")),
        claims=[claim("c", "v")],
        volumes=[volume("v", "c")],
        csi_nodes=[csi_node("n1", 1)],
    ),
    "volume-of-two-pods": with_two_nodes(
        pod("p", volumes=using("c")),
        pod("q", volumes=using("c")),
        claims=[claim("c", "v")],
        volumes=[volume("v", "c")],
        csi_nodes=[csi_node("n1", 1)],
    ),
    "ephemeral-volume": with_two_nodes(
        pod("p", volumes=[{"name": "e", "ephemeral": {}}]), claims=[claim("p-e", "v")], volumes=[volume("v", "p-e")]
    ),
}


@pytest.mark.parametrize("placements", GOOD.values(), ids=GOOD.keys())
def test_what_is_right_is_left_alone(placements: Cluster) -> None:
    assert violations(placements) == []


BAD: dict[str, tuple[Cluster, str]] = {
    "excluded": (
        with_two_nodes(pod("p", affinity=ALONE), web("q")),
        f"ns/p on n1: its anti-affinity by {ZONE} excludes ns/q, which is in its domain",
    ),
    "excluded-by-namespace-labels": (
        with_two_nodes(pod("p", affinity=wants("podAntiAffinity", ELSEWHERE)), web("q")),
        f"ns/p on n1: its anti-affinity by {ZONE} excludes ns/q, which is in its domain",
    ),
    "lonely": (
        with_two_nodes(pod("p", affinity=TOGETHER), web("q", "n2")),
        f"ns/p on n1: no pod that its affinity by {ZONE} selects is in a",
    ),
    "friends-of-one-term-each": (
        with_two_nodes(
            pod("p", affinity=wants("podAffinity", near(app="web"), near(tier="x"))),
            web("q"),
            pod("r", labels={"tier": "x"}),
        ),
        f"ns/p on n1: no pod that its affinity by {ZONE} selects is in a",
    ),
    "friend-came-later": (
        with_two_nodes(at(pod("p", affinity=TOGETHER), EARLY), at(web("q"), LATE)),
        f"ns/p on n1: no pod that its affinity by {ZONE} selects is in a",
    ),
    "not-the-first": (
        with_two_nodes(at(web("p", affinity=TOGETHER), LATE), at(web("q", "n2"), EARLY)),
        f"ns/p on n1: no pod that its affinity by {ZONE} selects is in a",
    ),
    "nowhere": (
        with_two_nodes(web("p", affinity=wants("podAffinity", near("rack", app="web")))),
        "ns/p on n1: its affinity needs a node with the label rack",
    ),
    "outside-all-domains": (
        with_two_nodes(*spreading("n1", key="rack")),
        "ns/p0 on n1: it spreads by rack, and its node is in no eligible domain",
    ),
}


@pytest.mark.parametrize(("placements", "line"), BAD.values(), ids=BAD.keys())
def test_a_planted_mistake_is_found(placements: Cluster, line: str) -> None:
    assert line in violations(placements)


@pytest.mark.parametrize(
    ("pods", "nodes"),
    [
        pytest.param(spreading("n1", "n1"), {}, id="zones"),
        pytest.param(spreading("n1", "n1", key=HOST), {}, id="hosts"),
        pytest.param(spreading("n1", "n1", "n2", minDomains=3), {}, id="too-few-domains"),
        pytest.param(
            spreading("n1", "n1", nodeTaintsPolicy="Ignore"),
            {"n2": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
            id="taints-ignored",
        ),
    ],
)
def test_uneven_spread_is_found(pods: list[Document], nodes: dict[str, Any]) -> None:
    both = [node("n1"), node("n2", "b", **nodes.get("n2", {}))]
    lines = violations(with_two_nodes(*pods, nodes=both))
    assert {line.partition(" ")[0] for line in lines} >= {"ns/p0", "ns/p1"}
    assert all("ahead of the emptiest" in line for line in lines)


def test_a_domain_that_is_honoured_as_tainted_does_not_count() -> None:
    both = [node("n1"), node("n2", "b", taints=[{"key": "k", "effect": "NoSchedule"}])]
    assert violations(with_two_nodes(*spreading("n1", "n1", nodeTaintsPolicy="Honor"), nodes=both)) == []


def stored(claims: list[Document], volumes: list[Document], *names: str, **more: Any) -> Cluster:
    return with_two_nodes(pod("p", volumes=using(*(names or ("c",)))), claims=claims, volumes=volumes, **more)


VOLUMES: dict[str, tuple[Cluster, str]] = {
    "no-claim": (stored([], []), "ns/p on n1: there is no claim ns/c"),
    "no-volume": (stored([claim("c")], []), "ns/p on n1: claim ns/c has no volume"),
    "not-bound": (
        stored([{**claim("c", "v"), "status": {"phase": "Pending"}}], [volume("v", "c")]),
        "ns/p on n1: claim ns/c is Pending, not Bound",
    ),
    "out-of-reach": (
        stored([claim("c", "v")], [volume("v", "c", zone="b")]),
        f"ns/p on n1: volume v is not accessible: "
        f"[{{'matchExpressions': [{{'key': '{ZONE}', 'operator': 'In', 'values': ['b']}}]}}]",
    ),
    "labelled-elsewhere": (
        stored([claim("c", "v")], [{**volume("v", "c"), "metadata": {"name": "v", "labels": {ZONE: "b__c"}}}]),
        f"ns/p on n1: volume v is in {ZONE}=b__c, the node in a",
    ),
    "somebody-elses": (
        stored([claim("c", "v")], [volume("v", "d")]),
        "ns/p on n1: claim ns/c has volume v, which is for ns/d with uid uid-d",
    ),
    "another-class": (
        stored([claim("c", "v", storageClassName="slow")], [volume("v", "c")]),
        "ns/p on n1: volume v of claim ns/c is of class fast",
    ),
    "another-mode": (
        stored([claim("c", "v", accessModes=["ReadWriteMany"])], [volume("v", "c")]),
        "ns/p on n1: volume v of claim ns/c has no access mode ReadWriteMany",
    ),
    "too-small": (
        stored([claim("c", "v")], [volume("v", "c", capacity={"storage": "1G"})]),
        "ns/p on n1: volume v of claim ns/c has 1G, the claim requests 1.07374e+09",
    ),
    "two-claims": (
        stored([claim("c", "v"), claim("d", "v")], [volume("v", "c")]),
        "volume v has claims ns/c, ns/d",
    ),
    "two-volumes": (
        stored([claim("c", "v")], [volume("v", "c"), volume("w", "c")]),
        "claim ns/c has volumes v, w",
    ),
    "too-many-attached": (
        stored(
            [claim("c", "v"), claim("d", "w")],
            [volume("v", "c"), volume("w", "d")],
            "c",
            "d",
            csi_nodes=[csi_node("n1", 1)],
        ),
        "n1: 2 volumes of disks, at most 1 can be attached",
    ),
    "attached-for-somebody-gone": (
        stored(
            [claim("c", "v")],
            [volume("v", "c"), volume("w")],
            csi_nodes=[csi_node("n1", 1)],
            attachments=[{"spec": {"nodeName": "n1", "source": {"persistentVolumeName": "w"}}}],
        ),
        "n1: 2 volumes of disks, at most 1 can be attached",
    ),
}


@pytest.mark.parametrize(("placements", "line"), VOLUMES.values(), ids=VOLUMES.keys())
def test_a_mistake_with_volumes_is_found(placements: Cluster, line: str) -> None:
    assert violations(placements) == [line]


def test_a_claim_for_one_pod_is_not_shared() -> None:
    pods = [pod(name, volumes=using("c")) for name in ("p", "q")]
    claims = [claim("c", "v", accessModes=["ReadWriteOncePod"])]
    lines = violations(
        with_two_nodes(*pods, claims=claims, volumes=[volume("v", "c", accessModes=["ReadWriteOncePod"])])
    )
    assert lines == [f"ns/{name} on n1: claim ns/c is for one pod only and used by ns/p, ns/q" for name in ("p", "q")]
