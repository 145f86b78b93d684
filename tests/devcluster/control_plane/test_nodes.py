from typing import Any

import pytest

from devcluster.control_plane.nodes import NodeSpec, is_schedulable, spread

READY = {"type": "Ready", "status": "True"}
NOT_READY_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def test_nodes_are_dealt_out_to_the_zones_in_turn() -> None:
    assert [(node.name, node.zone) for node in spread(4)] == [
        ("node-1", "zone-a"),
        ("node-2", "zone-b"),
        ("node-3", "zone-c"),
        ("node-4", "zone-a"),
    ]


def test_a_node_offers_what_it_was_made_with() -> None:
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    node = NodeSpec("n", "z", cpu="500m", memory="1Gi", pods=3, labels={"disk": "ssd"}, taints=(taint,)).manifest()
    assert node["metadata"]["labels"] == {
        "kubernetes.io/hostname": "n",
        "topology.kubernetes.io/zone": "z",
        "disk": "ssd",
    }
    assert node["spec"]["taints"] == [taint]
    assert node["status"]["allocatable"] == {"cpu": "500m", "memory": "1Gi", "pods": "3"}


@pytest.mark.parametrize(
    ("node", "schedulable"),
    [
        pytest.param({"spec": {}, "status": {"conditions": [READY]}}, True, id="ready"),
        pytest.param({"spec": {}, "status": {}}, False, id="nothing said yet"),
        pytest.param({"status": {"conditions": [READY | {"status": "False"}]}}, False, id="not ready"),
        pytest.param(
            {"spec": {"taints": [NOT_READY_TAINT]}, "status": {"conditions": [READY]}}, False, id="still tainted"
        ),
        pytest.param(
            {"spec": {"taints": [{"key": "dedicated"}]}, "status": {"conditions": [READY]}}, True, id="own taint"
        ),
    ],
)
def test_schedulable_is_ready_and_without_the_taint(node: dict[str, Any], schedulable: bool) -> None:
    assert is_schedulable(node) is schedulable
