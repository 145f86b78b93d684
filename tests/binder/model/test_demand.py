"""Which pods a pass may take for one another, and which comes first."""

from dataclasses import replace
from datetime import timedelta

import pytest

from binder.model.decision import Mode
from binder.model.demand import Demand
from kube.objects.model import Toleration
from tests.builders import EPOCH, claim, node_selector, pod, volume

ONE = Demand(pod("one"), Mode.PREBIND, (claim("a"),), (claim("b"),))


def test_pods_that_need_the_same_are_interchangeable() -> None:
    assert ONE.kind == Demand(pod("two"), Mode.PREBIND, (claim("c"),), (claim("d"),)).kind


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(ONE, pod=pod("one", requests={"cpu": "1"})), id="requests"),
        pytest.param(replace(ONE, pod=pod("one", node_selector={"disk": "x"})), id="node selector"),
        pytest.param(replace(ONE, pod=pod("one", node_affinity=node_selector({"zone": "a"}))), id="node affinity"),
        pytest.param(replace(ONE, pod=pod("one", tolerations=[Toleration("gpu", "Exists")])), id="tolerations"),
        pytest.param(replace(ONE, pod=pod("one", node="n1")), id="node"),
        pytest.param(replace(ONE, nodes=frozenset({"n1"})), id="nodes that are left"),
        pytest.param(replace(ONE, anchors=(volume(),)), id="volumes that it has"),
        pytest.param(replace(ONE, required=(claim("a", size="11Gi"),)), id="what it requires"),
        pytest.param(replace(ONE, required=(claim("a"), claim("c"))), id="how much it requires"),
        pytest.param(replace(ONE, optional=()), id="what it would like"),
        pytest.param(replace(ONE, pins=(("default/a", "pv-1"),)), id="a volume that a claim is pinned to"),
        pytest.param(replace(ONE, drivers=(("default/b", "disk.csi.example"),)), id="drivers it attaches by"),
    ],
)
def test_pods_that_need_something_else_are_not(other: Demand) -> None:
    assert other.kind != ONE.kind


def test_the_most_urgent_is_tied_to_a_volume_or_of_high_priority_or_old() -> None:
    later = EPOCH + timedelta(seconds=1)
    in_order = [
        replace(ONE, pod=pod("z", created=later), begun=True),
        replace(ONE, pod=pod("y", created=later, priority=7)),
        replace(ONE, pod=pod("b")),
        replace(ONE, pod=pod("c")),
        replace(ONE, pod=pod("a", created=later)),
        replace(ONE, pod=pod("a", created=None)),
    ]
    assert sorted([*in_order[3:], *in_order[:3]], key=lambda demand: demand.urgency) == in_order


def test_what_is_still_to_be_provisioned_is_attached_too() -> None:
    demand = replace(ONE, drivers=(("default/a", "d1"), ("default/b", "d2")))
    assert demand.drivers_beside({"default/a"}) == ("d2",)
