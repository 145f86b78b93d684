"""What is known of the nodes that a NodePool adds, and of which classes they bring the storage."""

import pytest

from binder.new_nodes.bringing import brings, is_brought
from binder.new_nodes.pools import allocatable_of, fault_of, labels_of, zones_of
from binder.reservation.contract import Annotations
from kube.objects.labels import Requirement
from kube.objects.node_pool import POOL_LABEL, NodePool
from kube.rules.quantity import NANO
from kube.rules.resource_fit import PODS
from kube.store.store import snapshot_of
from tests.builders import ZONE, csi_driver, node, pod, storage_class

OURS, DRIVER = Annotations(), "disk.csi.example"
JOINS = {OURS.new_nodes: "join-volumes", OURS.new_node_storage: "100Gi"}


def requirement(key: str, *values: str, operator: str = "In") -> Requirement:
    return Requirement(key, operator, values)


@pytest.mark.parametrize(
    ("annotations", "tracks", "expected"),
    [
        pytest.param(JOINS, True, True, id="both are stated"),
        pytest.param(JOINS, False, False, id="its driver does not report what is free"),
        pytest.param({OURS.new_node_storage: "100Gi"}, True, False, id="its volumes do not join new nodes"),
        pytest.param({OURS.new_nodes: "join-volumes"}, True, False, id="how much comes with a node is not stated"),
        pytest.param(JOINS | {OURS.new_node_storage: "much"}, True, False, id="or cannot be read"),
    ],
)
def test_new_nodes_bring_storage_of_a_class_that_says_so(
    annotations: dict[str, str], tracks: bool, expected: bool
) -> None:
    made = storage_class(provisioner=DRIVER, annotations=annotations)
    snapshot = snapshot_of([made, csi_driver(DRIVER, storage_capacity=tracks)])
    assert brings(made, snapshot, OURS) is expected
    assert is_brought("fast", snapshot, OURS) is expected
    assert not is_brought("other", snapshot, OURS)
    assert not brings(made, snapshot_of([made]), OURS), "without a driver"


def test_a_node_has_the_labels_that_the_pool_leaves_no_choice_of_and_those_that_the_pod_selects() -> None:
    pool = NodePool(
        "general",
        labels=(("team", "a"),),
        requirements=(
            requirement("arch", "amd64"),
            requirement("size", "s", "m"),
            requirement("gpu", operator="DoesNotExist"),
        ),
    )
    always = {"kubernetes.io/os": "linux", POOL_LABEL: "general", "team": "a", "arch": "amd64"}
    assert labels_of(pool, pod()) == always
    assert labels_of(pool, pod(node_selector={"size": "m", "other": "x"})) == always | {"size": "m"}
    assert labels_of(pool, pod(node_selector={"size": "l", "team": "b"})) == always


def test_a_pool_adds_nodes_in_the_zones_that_it_names_and_else_where_it_has_some() -> None:
    own = [node("n1", zone="a", labels={POOL_LABEL: "p"}), node("n2", zone="b", labels={POOL_LABEL: "other"})]
    assert zones_of(NodePool("p", requirements=(requirement(ZONE, "c", "b"),)), own) == ("b", "c")
    assert zones_of(NodePool("p", labels=((ZONE, "d"),)), own) == ("d",)
    assert zones_of(NodePool("p"), own) == ("a",)
    assert zones_of(NodePool("p", requirements=(requirement(ZONE, "a", operator="NotIn"),)), own) == ()


@pytest.mark.parametrize(
    ("pool", "fault"),
    [
        (NodePool("p"), ""),
        (NodePool("p", fault="it is not ready"), "it is not ready"),
        (NodePool("p", limits=(("cpu", 4 * NANO),), used=(("cpu", 4 * NANO - 1),)), ""),
        (NodePool("p", limits=(("cpu", 4 * NANO),), used=(("cpu", 4 * NANO),)), "its limit of cpu 4 is reached"),
        (NodePool("p", limits=(("nodes", 2 * NANO),), used=(("nodes", 1 * NANO),)), ""),
        (NodePool("p", limits=(("nodes", 2 * NANO),), used=(("nodes", 2 * NANO),)), "its limit of nodes 2 is reached"),
        (NodePool("p", limits=(("memory", 2**30 * NANO),), used=(("memory", 2**30 * NANO),)), "memory 1Gi is reached"),
    ],
)
def test_a_pool_that_adds_no_nodes_says_why(pool: NodePool, fault: str) -> None:
    assert fault_of(pool).endswith(fault)
    assert bool(fault_of(pool)) is bool(fault)


def test_a_node_offers_at_most_what_the_limits_leave() -> None:
    pool = NodePool("p", limits=(("cpu", 4 * NANO), ("nodes", NANO)), used=(("cpu", NANO),))
    offered = dict(allocatable_of(pool, node(allocatable={"cpu": "64", "gpu": "2"})))
    assert (offered["cpu"], offered["gpu"]) == (3 * NANO, 2 * NANO)
    assert "nodes" not in offered
    assert dict(allocatable_of(pool, None))[PODS] == 110 * NANO
