"""Why a node is not for a pod: one case for each test, and the evidence."""

import pytest

from binder.matching.node_fit import (
    reject_attachments,
    reject_missing_driver,
    reject_node,
    reject_reach,
    reject_resources,
)
from binder.matching.rejection import Reason
from kube.objects.model import Node, Pod, Taint, Toleration, Volume
from tests.builders import ZONE, node, node_selector, pod, resources, volume

NOT_READY = Taint("node.kubernetes.io/not-ready", "NoSchedule")


@pytest.mark.parametrize(
    ("who", "where", "reason"),
    [
        pytest.param(pod(), node(), None, id="fits"),
        pytest.param(pod(), node(taints=[NOT_READY]), Reason.TAINT_NOT_TOLERATED, id="not-ready"),
        pytest.param(
            pod(tolerations=[Toleration(NOT_READY.key, "Exists")]),
            node(taints=[NOT_READY]),
            None,
            id="not-ready-and-tolerated",
        ),
        pytest.param(pod(), node(unschedulable=True), Reason.NODE_UNSCHEDULABLE, id="cordoned"),
        pytest.param(
            pod(tolerations=[Toleration(operator="Exists")]), node(unschedulable=True), None, id="cordon-tolerated"
        ),
        pytest.param(pod(), node(taints=[Taint("gpu", "NoSchedule")]), Reason.TAINT_NOT_TOLERATED, id="taint"),
        pytest.param(pod(), node(taints=[Taint("gpu", "PreferNoSchedule")]), None, id="taint-that-is-a-wish"),
        pytest.param(pod(node_selector={ZONE: "b"}), node(), Reason.NODE_SELECTOR_MISMATCH, id="selector"),
        pytest.param(
            pod(node_affinity=node_selector({ZONE: "b"})), node(), Reason.NODE_SELECTOR_MISMATCH, id="affinity"
        ),
    ],
)
def test_what_does_not_change(who: Pod, where: Node, reason: Reason | None) -> None:
    rejected = reject_node(who, where)
    assert (rejected.reason if rejected else None) is reason


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        pytest.param(volume(zone="a"), None, id="same-zone"),
        pytest.param(volume(zone="b"), Reason.VOLUME_UNREACHABLE, id="affinity-elsewhere"),
        pytest.param(volume(labels={ZONE: "b"}), Reason.VOLUME_UNREACHABLE, id="zone-label-elsewhere"),
        pytest.param(volume(labels={ZONE: "b__a"}), None, id="one-of-its-zone-labels"),
    ],
)
def test_volumes_the_pod_has(held: Volume, reason: Reason | None) -> None:
    rejected = reject_reach([held], node())
    assert (rejected.reason if rejected else None) is reason


def test_resources_name_what_is_lacking() -> None:
    free = dict(resources({"cpu": "500m", "memory": "1Gi", "pods": "3"}))
    assert reject_resources(pod(requests={"cpu": "500m", "memory": "1Gi"}), "n", free) is None
    rejected = reject_resources(pod(requests={"cpu": "2"}), "n", free)
    assert rejected is not None
    assert (rejected.reason, rejected.wanted, rejected.offered) == (Reason.INSUFFICIENT_RESOURCES, "cpu 2", "500m free")


def test_an_extended_resource_that_no_node_has_may_be_one_of_a_device_class() -> None:
    free = dict(resources({"cpu": "2", "pods": "3", "vendor.example/nic": "0"}))
    rejected = reject_resources(pod(requests={"vendor.example/gpu": "1"}), "n", free)
    assert rejected is not None
    assert rejected.reason is Reason.INSUFFICIENT_RESOURCES
    assert "if a DeviceClass provides it" in rejected.offered
    assert "without the scheduling gate" in rejected.offered
    used_up = reject_resources(pod(requests={"vendor.example/nic": "1"}), "n", free)
    assert used_up is not None
    assert used_up.offered == "0 free"


def test_a_driver_that_has_to_be_there() -> None:
    assert reject_missing_driver("n", ["d", "e"], frozenset({"f"})) is None
    rejected = reject_missing_driver("n", ["d", "e"], frozenset({"e"}))
    assert rejected is not None
    assert (rejected.reason, rejected.wanted) == (Reason.DRIVER_NOT_ON_NODE, "CSI driver e registered")


def test_attach_limits_count_what_is_there() -> None:
    assert reject_attachments("n", [("d", 2)], {"d": 1}, {"d": 3}) is None
    assert reject_attachments("n", [("d", 2)], {"d": 9}, {}) is None
    rejected = reject_attachments("n", [("d", 2)], {"d": 2}, {"d": 3})
    assert rejected is not None
    assert (rejected.reason, rejected.offered) == (Reason.ATTACH_LIMIT_REACHED, "2 of at most 3 attached")
