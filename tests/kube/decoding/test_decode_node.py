from typing import Any

import msgspec
import pytest

from kube.decoding.decode import decode_csi_node, decode_node_record
from kube.objects.model import CSINode, Namespace, Node, NodeDriver, Taint
from kube.store.store import Store
from tests import builders

METADATA = {"name": "n1", "uid": "u", "resourceVersion": "7", "labels": {"b": "2", "a": "1"}}


def node(**fields: Any) -> Node:
    return decode_node_record(msgspec.json.encode({"metadata": METADATA} | fields))


def test_a_node() -> None:
    decoded = node(
        spec={"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule", "value": None}]},
        status={
            "allocatable": {"cpu": "3920m", "memory": "1000m", "pods": "110"},
        },
    )
    assert decoded == Node(
        name="n1",
        uid="u",
        resource_version=7,
        labels=(("a", "1"), ("b", "2")),
        taints=(Taint("k", "NoSchedule"),),
        unschedulable=True,
        allocatable=builders.resources({"cpu": "3920m", "memory": "1", "pods": "110"}),
    )


def test_an_extended_resource_of_which_a_node_has_none_is_one_that_it_does_not_have() -> None:
    # The kubelet reports it so once its device plugin is gone; kube-scheduler then asks for a DeviceClass.
    decoded = node(
        status={"allocatable": {"example.com/gpu": "0", "example.com/nic": "1", "hugepages-2Mi": "0", "pods": "0"}}
    )
    assert decoded.allocatable == builders.resources({"example.com/nic": "1", "hugepages-2Mi": "0", "pods": "0"})


@pytest.mark.parametrize(
    ("allocatable", "limit"),
    [({"count": 25}, 25), ({"count": 0}, 0), ({"count": None}, None), ({}, None), (None, None)],
    ids=["said", "zero", "null", "empty", "absent"],
)
def test_attach_limits(allocatable: dict[str, int | None] | None, limit: int | None) -> None:
    driver = {"name": "disk.csi.example", "nodeID": "id", "topologyKeys": ["zone"], "allocatable": allocatable}
    csi_node = decode_csi_node(msgspec.json.encode({"metadata": METADATA, "spec": {"drivers": [driver]}}))
    assert csi_node == CSINode("n1", "u", 7, (NodeDriver("disk.csi.example", "id", ("zone",), limit),))


def test_a_driver_that_names_nothing_but_itself() -> None:
    csi_node = decode_csi_node(msgspec.json.encode({"metadata": METADATA, "spec": {"drivers": [{"name": "d"}]}}))
    assert csi_node.drivers == (NodeDriver("d", "", (), None),)


def test_a_namespace() -> None:
    namespace = builders.decoded({"kind": "Namespace", "metadata": METADATA, "spec": {"finalizers": ["kubernetes"]}})
    assert namespace == Namespace("n1", "u", 7, (("a", "1"), ("b", "2")))
    store = Store()
    store.namespaces.replace([namespace], "8")
    assert dict(store.namespaces.items) == {"n1": namespace}
