"""Free capacity that drivers report: too little is not the same as none that is reported."""

from typing import Any

import pytest

from binder.matching.rejection import Reason
from kube.objects.model import SELECTED_NODE
from tests.why.documents import (
    DRIVER,
    Document,
    assert_problem,
    claim,
    csi_node,
    driver,
    metadata,
    node,
    pod,
    storage_class,
    why,
)

LATER = storage_class(provisioner=DRIVER)
CLUSTER = [pod("db-0", "data"), LATER, driver(storageCapacity=True), csi_node("a1", DRIVER), node("a1")]


def capacity(storage_class_name: str, free: str | None) -> Document:
    made: dict[str, Any] = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": metadata(f"room-{storage_class_name}"),
        "storageClassName": storage_class_name,
        "nodeTopology": {},
    }
    return made if free is None else {**made, "capacity": free}


@pytest.mark.parametrize("target", ["pvc/data", "pod/db-0"])
def test_without_any_capacity_object_the_provisioner_is_looked_at(target: str) -> None:
    item = why(target, claim(), *CLUSTER)
    assert_problem(item, Reason.INSUFFICIENT_STORAGE)
    assert "has published no free capacity for class fast" in item.message
    assert "no room" not in item.message
    columns = "NAMESPACE:.metadata.namespace,NAME:.metadata.name,ARGUMENTS:.spec.template.spec.containers[*].args"
    assert item.next[0] == f"kubectl get deployment,statefulset,daemonset -A -o custom-columns='{columns}'"
    assert "the right to create csistoragecapacities" in item.advice[0]


def test_without_one_of_this_class_its_log_is_looked_at() -> None:
    other = storage_class("slow", provisioner=DRIVER)
    item = why("pvc/data", claim(), *CLUSTER, other, capacity("slow", "5Ti"))
    assert "has published no free capacity for class fast" in item.message
    assert "it publishes that of class slow" in item.advice[0]
    assert "--enable-capacity" not in item.advice[0]


@pytest.mark.parametrize(("free", "says"), [("5Gi", "at most 5Gi"), (None, "no size is reported")])
def test_too_little_is_no_room(free: str | None, says: str) -> None:
    item = why("pvc/data", claim(), *CLUSTER, capacity("fast", free))
    assert item.message == f"{DRIVER} has no room for 10Gi anywhere: {says}."


def test_without_a_capacity_object_no_node_is_blamed_either() -> None:
    """A node was chosen already, on which the driver may have made a volume."""
    chosen = claim(metadata={"annotations": {SELECTED_NODE: "a1"}})
    item = why("pod/db-0", chosen, *CLUSTER)
    assert "no room" not in item.message
