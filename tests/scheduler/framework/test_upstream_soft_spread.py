"""The tables of kube-scheduler's own unit tests, for soft spread over topologies.

Of Kubernetes 1.37.1, below pkg/scheduler/framework/plugins: podtopologyspread/scoring_test.go (TestPreScoreSkip, and
TestPodTopologySpreadScore from where test_upstream_nodes ends). Left out are default constraints, which are not given
to pods here, and a feature gate that is always on by now. Objects pass through the decoder, as those of a cluster do.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from kube.decoding.decode import DECODERS
from kube.objects.model import Node, Pod
from scheduler.plugins.neighbour_scores import SoftTopologySpread
from tests import builders
from tests.fakes.objects import node_object, pod_object
from tests.scheduler.plugin_results import scores, view

Object = dict[str, Any]
Labels = Mapping[str, str]
HOSTNAME: Final = builders.HOSTNAME


def pod(
    name: str,
    labels: Labels,
    spec: Object | None = None,
    *,
    node: str = "",
    namespace: str = "default",
    deleting: bool = False,
) -> Pod:
    document = pod_object(name, [], namespace=namespace, node=node)
    document["metadata"]["labels"] = dict(labels)
    if deleting:
        document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:01Z"
    document["spec"] |= spec or {}
    decoded = DECODERS["Pod"](json.dumps(document).encode())
    assert isinstance(decoded, Pod)
    return decoded


def node(name: str, labels: Labels, taints: Sequence[Object] = ()) -> Node:
    document = node_object(name)
    document["metadata"]["labels"] = dict(labels)
    document["spec"]["taints"] = list(taints)
    decoded = DECODERS["Node"](json.dumps(document).encode())
    assert isinstance(decoded, Node)
    return decoded


def having(key: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": "Exists"}]}


def softly(key: str, selector: Object | None, skew: int = 1, **more: Any) -> Object:
    constraint = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", **more}
    return constraint if selector is None else constraint | {"labelSelector": selector}


def spread(*constraints: Object, **more: Any) -> Object:
    return {"topologySpreadConstraints": list(constraints), **more}


FOO, BAR = having("foo"), having("bar")
ON_FOO_NODES: Final[Object] = {"foo": ""}
IN_FOO_NODES: Final[Object] = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "foo", "operator": "In", "values": [""]}]}]
        }
    }
}
UNWANTED: Final[Object] = {"key": "foo", "value": "bar", "effect": "NoSchedule"}


def there(**nodes: str) -> list[Pod]:
    """Pods by node: of the labels "foo", "bar" or several ("foo bar") as often as they are named, divided by commas."""
    return [
        pod(f"{where}-{number}", dict.fromkeys(text.split(), ""), node=where)
        for where, texts in nodes.items()
        for number, text in enumerate(texts.split(","))
    ]


BY_HOST = [node(name, {HOSTNAME: name}) for name in ("a", "b")]
TWO_ZONES = [
    node(name, {HOSTNAME: name, "zone": zone}) for name, zone in zip("abcd", ("1", "1", "2", "2"), strict=True)
]
THREE = [node(name, {"node": name}) for name in "abc"]
TWO_FOO_NODES = [node("a", {"node": "a", "foo": ""}), node("b", {"node": "b", "foo": ""}), node("c", {"node": "c"})]
TAINTED = [node("a", {"node": "a"}), node("b", {"node": "b"}), node("c", {"node": "c"}, [UNWANTED])]
TWO_ONE_ONE = there(a="foo,foo", b="foo", c="foo")
EVERY_POD: Final[Object] = {}


@pytest.mark.parametrize(
    ("spec", "nodes", "pods", "expected"),
    [
        pytest.param(
            spread(softly(HOSTNAME, FOO)),
            [node("a", {HOSTNAME: "a"}), node("b", {"n": "b"}), node("x", {HOSTNAME: "x"}), node("y", {HOSTNAME: "y"})],
            there(a="foo,foo,foo,foo", b="foo,foo", x="foo", y="foo,foo,foo"),
            {"a": 16, "b": 0, "x": 100},
            id="three candidates, one without the label",
        ),
        pytest.param(
            spread(softly("zone", FOO), softly(HOSTNAME, BAR)),
            TWO_ZONES,
            there(b="bar", c="foo", d="foo bar"),
            {"a": 100, "b": 60, "c": 40, "d": 0},
            id="other pods by zone than by node, some nodes without any",
        ),
        pytest.param(
            spread(softly("zone", FOO), softly(HOSTNAME, BAR)),
            TWO_ZONES,
            there(a="foo", b="foo bar", d="foo,bar"),
            {"a": 50, "b": 25, "c": 100},
            id="the same, three candidates",
        ),
        pytest.param(
            spread(softly(HOSTNAME, FOO)),
            BY_HOST,
            [pod("other", {"foo": ""}, node="a", namespace="ns1"), *there(a="foo", b="foo,foo")],
            {"a": 100, "b": 33},
            id="pods of another namespace do not count",
        ),
        pytest.param(
            spread(softly(HOSTNAME, FOO)),
            BY_HOST,
            [pod("ending", {"foo": ""}, node="a", deleting=True), *there(b="foo")],
            {"a": 100, "b": 0},
            id="pods that are being deleted do not count",
        ),
        pytest.param(
            spread(softly("node", FOO, 2, minDomains=10)),
            THREE,
            there(a="foo,foo", b="foo,foo", c="foo"),
            {"a": 75, "b": 75, "c": 100},
            id="minDomains has no effect",
        ),
        pytest.param(
            spread(softly("node", FOO), nodeSelector=ON_FOO_NODES),
            TWO_FOO_NODES,
            TWO_ONE_ONE,
            {"a": 0, "b": 33, "c": 100},
            id="a node selector counts",
        ),
        pytest.param(
            spread(softly("node", FOO, nodeAffinityPolicy="Ignore"), nodeSelector=ON_FOO_NODES),
            TWO_FOO_NODES,
            TWO_ONE_ONE,
            {"a": 66, "b": 100, "c": 100},
            id="a node selector is ignored",
        ),
        pytest.param(
            spread(softly("node", FOO), affinity=IN_FOO_NODES),
            TWO_FOO_NODES,
            TWO_ONE_ONE,
            {"a": 0, "b": 33, "c": 100},
            id="node affinity counts",
        ),
        pytest.param(
            spread(softly("node", FOO, nodeAffinityPolicy="Ignore"), affinity=IN_FOO_NODES),
            TWO_FOO_NODES,
            TWO_ONE_ONE,
            {"a": 66, "b": 100, "c": 100},
            id="node affinity is ignored",
        ),
        pytest.param(
            spread(softly("node", FOO, nodeTaintsPolicy="Honor")),
            TAINTED,
            TWO_ONE_ONE,
            {"a": 0, "b": 33, "c": 100},
            id="taints count",
        ),
        pytest.param(
            spread(softly("node", FOO)), TAINTED, TWO_ONE_ONE, {"a": 66, "b": 100, "c": 100}, id="taints are ignored"
        ),
        pytest.param(
            spread(
                softly("zone", EVERY_POD, matchLabelKeys=["foo"]), softly(HOSTNAME, EVERY_POD, matchLabelKeys=["bar"])
            ),
            TWO_ZONES,
            there(a="foo", b="foo bar", c="foo,bar"),
            {"a": 60, "b": 20, "c": 60, "d": 100},
            id="matchLabelKeys without a selector",
        ),
        pytest.param(
            spread(softly("zone", FOO), softly(HOSTNAME, BAR, matchLabelKeys=["baz"])),
            TWO_ZONES,
            there(a="foo", b="foo bar baz", c="foo,bar,bar baz"),
            {"a": 60, "b": 20, "c": 60, "d": 100},
            id="matchLabelKeys beside a selector",
        ),
    ],
)
def test_soft_spread(spec: Object, nodes: Sequence[Node], pods: Sequence[Pod], expected: Mapping[str, int]) -> None:
    new = pod("new", {"foo": "", "bar": "", "baz": ""}, spec)
    assert scores(SoftTopologySpread(), new, view(*nodes, *pods), list(expected)) == expected


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="no constraint"),
        pytest.param(spread(softly(HOSTNAME, FOO) | {"whenUnsatisfiable": "DoNotSchedule"}), id="a hard one only"),
    ],
)
def test_pods_without_soft_constraints_are_not_scored(spec: Object) -> None:
    assert scores(SoftTopologySpread(), pod("new", {"foo": "bar"}, spec), view(*BY_HOST)) is None
