"""The checker of placements finds each kind of mistake when it is planted, and nothing where all is right."""

from fractions import Fraction
from typing import Any

import pytest

from bench.placement.checker import violations
from bench.placement.cluster import PATHS, Cluster, amount, read
from bench.placement.nodes import requests
from tests.bench.placement.placements import (
    Document,
    at,
    by_node,
    container,
    node,
    on_port,
    pod,
    with_two_nodes,
)

EARLY, LATE = "2030-01-01T00:00:01Z", "2030-01-01T00:00:02Z"
TAINT = {"key": "only", "value": "gpu", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100m", Fraction(1, 10)),
        ("1.5Gi", Fraction(3 << 29)),
        ("2e3", Fraction(2000)),
        ("3E", Fraction(3 * 10**18)),
        (7, Fraction(7)),
        ("250k", Fraction(250_000)),
    ],
)
def test_quantities(text: object, value: Fraction) -> None:
    assert amount(text) == value


@pytest.mark.parametrize("text", ["", "1Q", "Gi", "1.2.3"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - Fraction says it in words of its own
        amount(text)


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": [container("1"), container("2")]}, 3, id="containers-run-together"),
        pytest.param({"initContainers": [container("5"), container("4")]}, 5, id="init-containers-take-turns"),
        pytest.param({"initContainers": [container("2", restartPolicy="Always")]}, 3, id="a-sidecar-runs-on"),
        pytest.param(
            {"initContainers": [container("2", restartPolicy="Always"), container("5")]}, 7, id="beside-a-sidecar"
        ),
        pytest.param(
            {"initContainers": [container("5"), container("2", restartPolicy="Always")]}, 5, id="before-the-sidecar"
        ),
        pytest.param({"overhead": {"cpu": "500m"}}, Fraction(3, 2), id="overhead"),
        pytest.param({"resources": {"requests": {"cpu": "4"}}}, 4, id="said-of-the-whole-pod"),
    ],
)
def test_what_a_pod_counts_as(spec: Document, cpu: int | Fraction) -> None:
    assert requests(pod("p", **spec))["cpu"] == cpu


def _unready(since: str = EARLY) -> Document:
    document = node("n1")
    document["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": since}]
    return document


GOOD: dict[str, Cluster] = {
    "nothing": Cluster(),
    "to-the-last-cpu": with_two_nodes(*(pod(f"p{number}") for number in range(4))),
    "to-the-last-pod": with_two_nodes(*(pod(f"p{number}", containers=[container("0")]) for number in range(10))),
    "waiting": with_two_nodes(pod("p", "", nodeSelector={"no": "such"})),
    "over": with_two_nodes({**pod("p", containers=[container("9")]), "status": {"phase": "Succeeded"}}),
    "tolerated": with_two_nodes(
        pod("p", tolerations=[{"key": "only", "value": "gpu"}]), nodes=[node("n1", taints=[TAINT])]
    ),
    "every-taint-tolerated": with_two_nodes(
        pod("p", tolerations=[{"operator": "Exists"}]), nodes=[node("n1", taints=[TAINT], unschedulable=True)]
    ),
    "tainted-since": with_two_nodes(at(pod("p"), EARLY), nodes=[node("n1", taints=[{**TAINT, "timeAdded": LATE}])]),
    "not-ready-since": with_two_nodes(at(pod("p"), EARLY), nodes=[_unready(LATE)]),
    "only-a-wish": with_two_nodes(pod("p"), nodes=[node("n1", taints=[{**TAINT, "effect": "PreferNoSchedule"}])]),
    "same-port-on-two-nodes": with_two_nodes(
        pod("p", containers=[on_port(80)]), pod("q", "n2", containers=[on_port(80)])
    ),
    "same-port-on-two-addresses": with_two_nodes(
        pod("p", containers=[on_port(80, "10.0.0.1")]), pod("q", containers=[on_port(80, "10.0.0.2")])
    ),
    "chosen-by-label-and-name": with_two_nodes(
        pod("p", affinity=by_node(("size", "Gt", ["3"]), ("size", "Lt", ["5"]), ("gone", "DoesNotExist", []))),
        pod("q", affinity=by_node(("metadata.name", "In", ["n1"]), field="matchFields")),
        pod("r", affinity=by_node(("gone", "NotIn", ["x"]), ("size", "Exists", [])), nodeSelector={"size": "4"}),
    ),
}


@pytest.mark.parametrize("placements", GOOD.values(), ids=GOOD.keys())
def test_what_is_right_is_left_alone(placements: Cluster) -> None:
    assert violations(placements) == []


BAD: dict[str, tuple[Cluster, str]] = {
    "no-such-node": (with_two_nodes(pod("p", "n3")), "ns/p on n3: no such node"),
    "not-ready": (with_two_nodes(pod("p"), nodes=[_unready()]), "ns/p on n1: the node is not ready"),
    "tainted-before": (
        with_two_nodes(at(pod("p"), LATE), nodes=[node("n1", taints=[{**TAINT, "timeAdded": EARLY}])]),
        "ns/p on n1: taint only=gpu:NoSchedule is not tolerated",
    ),
    "not-ready-before": (with_two_nodes(at(pod("p"), LATE), nodes=[_unready()]), "ns/p on n1: the node is not ready"),
    "cordoned": (
        with_two_nodes(pod("p"), nodes=[node("n1", unschedulable=True)]),
        "ns/p on n1: taint node.kubernetes.io/unschedulable=:NoSchedule is not tolerated",
    ),
    "tainted": (
        with_two_nodes(pod("p"), nodes=[node("n1", taints=[TAINT])]),
        "ns/p on n1: taint only=gpu:NoSchedule is not tolerated",
    ),
    "tolerates-another-effect": (
        with_two_nodes(
            pod("p", tolerations=[{"key": "only", "operator": "Exists", "effect": "NoExecute"}]),
            nodes=[node("n1", taints=[TAINT])],
        ),
        "ns/p on n1: taint only=gpu:NoSchedule is not tolerated",
    ),
    "too-much-cpu": (
        with_two_nodes(*(pod(f"p{number}") for number in range(5))),
        "n1: cpu: 5 requested by 5 pods, 4 allocatable; ns/p2, ns/p3, ns/p4",
    ),
    "too-many-pods": (
        with_two_nodes(*(pod(f"p{number}", containers=[container("0")]) for number in range(11))),
        "n1: pods: 11 requested by 11 pods, 10 allocatable; ns/p8, ns/p9, ns/p10",
    ),
    "what-the-node-has-not": (
        with_two_nodes(pod("p", overhead={"example.com/gpu": "1"})),
        "n1: example.com/gpu: 1 requested by 1 pods, 0 allocatable; ns/p",
    ),
    "another-label": (
        with_two_nodes(pod("p", nodeSelector={"size": "8"})),
        "ns/p on n1: nodeSelector wants size=8, the node has 4",
    ),
    "same-port": (
        with_two_nodes(pod("p", containers=[on_port(80)]), pod("q", containers=[on_port(80, "10.0.0.1")])),
        "n1: ns/p and ns/q want port TCP 80",
    ),
}


@pytest.mark.parametrize(("placements", "line"), BAD.values(), ids=BAD.keys())
def test_a_planted_mistake_is_found(placements: Cluster, line: str) -> None:
    assert violations(placements) == [line]


@pytest.mark.parametrize(
    "expression",
    [
        ("size", "In", ["8"]),
        ("size", "NotIn", ["4"]),
        ("gone", "Exists", []),
        ("size", "DoesNotExist", []),
        ("size", "Gt", ["4"]),
        ("size", "Lt", ["4"]),
        ("kubernetes.io/hostname", "Gt", ["0"]),
    ],
    ids=lambda case: f"{case[1]}-{case[0]}",
)
def test_each_operator_rejects(expression: tuple[str, str, list[str]]) -> None:
    assert len(violations(with_two_nodes(pod("p", affinity=by_node(expression))))) == 1


def test_an_empty_term_takes_no_node() -> None:
    assert len(violations(with_two_nodes(pod("p", affinity=by_node())))) == 1


def test_an_operator_it_does_not_know_is_no_consent() -> None:
    with pytest.raises(ValueError, match="Near"):
        violations(with_two_nodes(pod("p", affinity=by_node(("size", "Near", ["4"])))))


def test_only_violations_of_the_judged_pods_are_reported() -> None:
    cluster = with_two_nodes(pod("mine"), *(pod(f"other-{number}", nodeSelector={"no": "x"}) for number in range(4)))
    blamed = violations(cluster, lambda pod: pod["metadata"]["name"] == "mine")
    assert blamed == ["n1: cpu: 5 requested by 5 pods, 4 allocatable; ns/other-1, ns/other-2, ns/other-3"]


async def test_it_reads_all_it_needs() -> None:
    class Server:
        async def get(self, path: str) -> dict[str, Any]:
            return {"items": [path]}

    assert await read(Server()) == Cluster(**{kind: [path] for kind, path in PATHS.items()})  # type: ignore[arg-type]
