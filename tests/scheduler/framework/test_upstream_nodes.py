"""The tables of kube-scheduler's own unit tests, for what pods prefer of nodes, for soft spread, and for host ports.

Of Kubernetes 1.37.1, below pkg/scheduler/framework/plugins: tainttoleration/taint_toleration_test.go
(TestTaintTolerationScore), nodeaffinity/node_affinity_test.go (TestNodeAffinityPriority),
podtopologyspread/scoring_test.go (the first half of TestPodTopologySpreadScore; test_upstream_soft_spread has the
second) and nodeports/node_ports_test.go (TestNodePorts). Left out are the operators Gt and Lt of tolerations, labels
that the API server rejects, and default constraints, which are not given to pods here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kube.objects.constraints import SCHEDULE_ANYWAY, Constraints, PreferredNodes, SpreadConstraint
from kube.objects.labels import LabelSelector, NodeSelectorTerm, Requirement
from kube.objects.model import Pod, Taint, Toleration
from scheduler.framework.profile import AddedAffinity, Thresholds
from scheduler.plugins.neighbour_scores import SoftTopologySpread
from scheduler.plugins.preferences import PreferNoSchedule, PreferredNodeAffinity
from scheduler.plugins.resource_fit import NodePorts
from tests import builders
from tests.scheduler.framework.test_upstream_filters import decoded_pod, fits
from tests.scheduler.plugin_results import scores, view

SOFT, HARD = "PreferNoSchedule", "NoSchedule"
ARM, SSD = Taint("cpu-type", SOFT, "arm64"), Taint("disk-type", SOFT, "ssd")


def tolerating(*taints: Taint) -> Sequence[Toleration]:
    return [Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in taints]


BAR = Taint("foo", SOFT, "bar")
HARD_ONES = (Taint("cpu-type", HARD, "arm64"), Taint("disk-type", HARD, "ssd"))


@pytest.mark.parametrize(
    ("tolerated", "nodes", "expected"),
    [
        pytest.param((BAR,), ((BAR,), (Taint("foo", SOFT, "blah"),)), [100, 0], id="one is tolerated"),
        pytest.param((ARM, SSD), ((), (ARM,), (ARM, SSD)), [100, 100, 100], id="how many are tolerated is no matter"),
        pytest.param((BAR,), ((), (ARM,), (ARM, SSD)), [100, 50, 0], id="more that are not, a lower score"),
        pytest.param(HARD_ONES, ((), HARD_ONES[:1], (ARM, SSD)), [100, 100, 0], id="only soft ones count"),
        pytest.param((), ((), (ARM,)), [100, 0], id="no tolerations"),
    ],
)
def test_soft_taints(tolerated: Sequence[Taint], nodes: Sequence[Sequence[Taint]], expected: list[int]) -> None:
    named = [builders.node(f"node{number}", taints=taints) for number, taints in enumerate(nodes)]
    given = scores(PreferNoSchedule(), builders.pod(tolerations=tolerating(*tolerated)), view(*named))
    # Where no node is better, none of them gets a score here.
    assert [100] * len(named) == expected if given is None else [given[node.name] for node in named] == expected


FOO, KEY, AZ = {"foo": "bar"}, {"key": "value"}, {"az": "az1"}
ALL = FOO | KEY | AZ


def wish(weight: int, labels: Mapping[str, str]) -> PreferredNodes:
    requirements = (Requirement(key, "In", (value,)) for key, value in labels.items())
    return PreferredNodes(weight, NodeSelectorTerm(tuple(requirements)))


ONE, THREE = (wish(2, FOO),), (wish(2, FOO), wish(4, KEY), wish(5, ALL))


@pytest.mark.parametrize(
    ("own", "added", "nodes", "expected"),
    [
        pytest.param((), (), (FOO, KEY, AZ), None, id="no preferences"),
        pytest.param(ONE, (), ({"abc": "az11", "def": "az22"}, KEY, AZ), [0, 0, 0], id="no node matches"),
        pytest.param(ONE, (), (FOO, KEY, AZ), [100, 0, 0], id="one matches"),
        pytest.param(THREE, (), (FOO, ALL, KEY), [18, 100, 36], id="all match, by different weights"),
        pytest.param((), ONE, (FOO, KEY), [100, 0], id="of the profile"),
        pytest.param(ONE, (wish(3, KEY),), (FOO, KEY, ALL), [40, 60, 100], id="of the profile and the pod"),
    ],
)
def test_preferred_node_affinity(
    own: tuple[PreferredNodes, ...],
    added: tuple[PreferredNodes, ...],
    nodes: Sequence[Mapping[str, str]],
    expected: list[int] | None,
) -> None:
    named = [builders.node(f"node{number}", labels=labels) for number, labels in enumerate(nodes)]
    plugin = PreferredNodeAffinity(Thresholds(added_affinity=AddedAffinity(preferred=added)))
    given = scores(plugin, builders.pod(constraints=Constraints(preferred_nodes=own)), view(*named))
    assert (None if given is None else [given[node.name] for node in named]) == expected


def ports(*texts: str) -> list[dict[str, Any]]:
    """Container ports from texts like TCP/127.0.0.1/8080."""
    split = [text.split("/") for text in texts]
    return [
        {"containerPort": int(port), "hostPort": int(port), "hostIP": ip, "protocol": protocol}
        for protocol, ip, port in split
    ]


def with_ports(*texts: str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "ports": ports(*texts)}]}


def init(*, sidecar: bool) -> dict[str, Any]:
    container = {"name": "i", "ports": ports("TCP/0.0.0.0/8001")}
    return {"initContainers": [container | ({"restartPolicy": "Always"} if sidecar else {})]}


TAKEN = with_ports("TCP/0.0.0.0/8001")


@pytest.mark.parametrize(
    ("pod", "there", "expected"),
    [
        pytest.param({}, {}, True, id="no ports"),
        pytest.param(with_ports("UDP/127.0.0.1/8080"), with_ports("UDP/127.0.0.1/9090"), True, id="another port"),
        pytest.param(with_ports("UDP/127.0.0.1/8080"), with_ports("UDP/127.0.0.1/8080"), False, id="the same of UDP"),
        pytest.param(with_ports("TCP/127.0.0.1/8080"), with_ports("TCP/127.0.0.1/8080"), False, id="the same of TCP"),
        pytest.param(with_ports("TCP/127.0.0.1/8080"), with_ports("TCP/127.0.0.2/8080"), True, id="another address"),
        pytest.param(with_ports("UDP/127.0.0.1/8080"), with_ports("TCP/127.0.0.1/8080"), True, id="another protocol"),
        pytest.param(
            *(with_ports("UDP/127.0.0.1/8000", "UDP/127.0.0.1/8080"), with_ports("UDP/127.0.0.1/8080"), False),
            id="the second of two",
        ),
        pytest.param(
            with_ports("TCP/127.0.0.1/8001", "UDP/127.0.0.1/8080"),
            with_ports("TCP/127.0.0.1/8001", "UDP/127.0.0.1/8081"),
            False,
            id="the first of two",
        ),
        pytest.param(TAKEN, with_ports("TCP/127.0.0.1/8001"), False, id="every address wanted"),
        pytest.param(
            *(with_ports("TCP/10.0.10.10/8001", "TCP/0.0.0.0/8001"), with_ports("TCP/127.0.0.1/8001"), False),
            id="every address wanted, beside another",
        ),
        pytest.param(with_ports("TCP/127.0.0.1/8001"), TAKEN, False, id="every address taken"),
        pytest.param(with_ports("UDP/127.0.0.1/8001"), TAKEN, True, id="every address taken, of another protocol"),
        pytest.param(
            *(with_ports("UDP/127.0.0.1/8001"), with_ports("TCP/0.0.0.0/8001", "UDP/0.0.0.0/8001"), False),
            id="every address taken, of both protocols",
        ),
        pytest.param(init(sidecar=False), TAKEN, True, id="of a container that ends before the others"),
        pytest.param(init(sidecar=True), TAKEN, False, id="of a sidecar"),
    ],
)
def test_host_ports(pod: dict[str, Any], there: dict[str, Any], *, expected: bool) -> None:
    assert fits(NodePorts(), decoded_pod(pod), builders.node(), decoded_pod(there, "other", "node-1")) is expected


FOO_PODS, BAR_PODS = (LabelSelector((), (Requirement(label, "Exists"),)) for label in ("foo", "bar"))
BY_NODE, BY_ZONE = builders.HOSTNAME, "zone"
FOUR = {"a": "zone1", "b": "zone1", "x": "zone2", "y": "zone2"}


def softly(key: str, selector: LabelSelector | None = FOO_PODS, skew: int = 1) -> SpreadConstraint:
    return SpreadConstraint(skew, key, SCHEDULE_ANYWAY, selector)


def counted(**labels: str) -> list[Pod]:
    """Pods by node: of the labels "foo", "bar" or both ("foo bar") as often as they are named, divided by commas."""
    return [
        builders.pod(f"{node}-{number}", node=node, labels=dict.fromkeys(text.split(), ""))
        for node, texts in labels.items()
        for number, text in enumerate(texts.split(","))
    ]


def foos(**numbers: int) -> list[Pod]:
    return counted(**{node: ",".join(["foo"] * number) for node, number in numbers.items() if number})


@pytest.mark.parametrize(
    ("constraints", "there", "expected"),
    [
        pytest.param([softly(BY_NODE)], [], {"a": 100, "b": 100}, id="no pods"),
        pytest.param([softly(BY_NODE)], foos(a=2, b=1), {"a": 100}, id="one candidate"),
        pytest.param([softly(BY_NODE)], foos(a=1, b=1), {"a": 100, "b": 100}, id="as many everywhere"),
        pytest.param([softly(BY_NODE)], foos(a=2, b=1, y=3), {"a": 20, "b": 60, "x": 100, "y": 0}, id="2 1 0 3"),
        pytest.param(
            [softly(BY_NODE, None)], foos(a=2, b=1, y=3), {"a": 100, "b": 100, "x": 100, "y": 100}, id="no selector"
        ),
        pytest.param(
            [softly(BY_NODE, skew=2)], foos(a=2, b=1, y=3), {"a": 33, "b": 66, "x": 100, "y": 16}, id="a skew of 2"
        ),
        pytest.param(
            [softly(BY_NODE, skew=3)], foos(a=4, b=3, x=2, y=1), {"a": 44, "b": 66, "x": 77, "y": 100}, id="of 3"
        ),
        pytest.param([softly(BY_NODE)], foos(a=4, b=2, x=1, y=3), {"a": 33, "b": 83, "x": 100}, id="three candidates"),
        pytest.param([softly(BY_ZONE)], foos(a=4, b=2, x=1, y=3), {"a": 75, "b": 75, "x": 100}, id="by zone"),
        pytest.param(
            [softly(BY_ZONE), softly(BY_NODE)], foos(a=2, b=1, x=2, y=4), {"a": 100, "x": 63}, id="by zone and node"
        ),
        pytest.param(
            [softly(BY_ZONE), softly(BY_ZONE, BAR_PODS)],
            counted(a="foo bar,foo", b="foo bar", y="foo,foo bar,foo"),
            {"a": 85, "x": 100},
            id="two by zone",
        ),
        pytest.param(
            [softly(BY_ZONE), softly(BY_NODE, BAR_PODS)],
            counted(a="foo", b="foo bar", y="foo,bar"),
            {"a": 60, "b": 20, "x": 100, "y": 60},
            id="other pods by zone than by node",
        ),
    ],
)
def test_soft_spread(
    constraints: Sequence[SpreadConstraint], there: Sequence[Pod], expected: Mapping[str, int]
) -> None:
    nodes = [builders.node(name, labels={"zone": zone}) for name, zone in FOUR.items()]
    pod = builders.pod("new", labels={"foo": "", "bar": ""}, constraints=Constraints(spread=tuple(constraints)))
    assert scores(SoftTopologySpread(), pod, view(*nodes, *there), list(expected)) == expected
