"""A driver that is not registered on a node: beside a node plugin that runs there, and without one."""

from datetime import timedelta

import pytest

from binder.matching.rejection import Reason
from kube.objects.model import SELECTED_NODE
from tests.why.documents import (
    BOUND,
    DRIVER,
    Document,
    assert_problem,
    at,
    claim,
    csi_node,
    driver,
    event,
    node,
    pod,
    storage_class,
    why,
)
from tests.why.dumps.dump import placed

OWNER = {"kind": "DaemonSet", "name": "example-csi-node", "uid": "u", "controller": True}
PLUGIN = pod("example-csi-node-x7k2p", node="a1", metadata={"namespace": "storage", "ownerReferences": [OWNER]})
OTHER = pod("log-agent-1", node="a1", metadata={"namespace": "storage", "ownerReferences": [OWNER]})
ELSEWHERE = [csi_node("a1", "other.csi.example"), csi_node("b1", DRIVER), node("a1"), node("b1", "b")]
NOT_FOUND = f"driver name {DRIVER} not found in the list of registered CSI drivers"
FAILED = event("Pod", "db-0", "FailedMount", NOT_FOUND, reporter="kubelet")
GONE = {"deletionTimestamp": at(timedelta(hours=1))}

PLACES = {
    "a pod on the node": ("pod/db-0", [placed("db-0", "data"), *BOUND, *ELSEWHERE, FAILED]),
    "a pod on the node, without CSINodes": ("pod/db-0", [placed("db-0", "data"), *BOUND, node("a1"), FAILED]),
    "a volume that is to be made for the node": (
        "pvc/data",
        [
            claim(metadata={"annotations": {SELECTED_NODE: "a1"}}),
            storage_class(provisioner=DRIVER),
            driver(),
            *ELSEWHERE,
            pod("db-0", "data"),
        ],
    ),
    "a pod that has ended there": (
        "pod/db-0",
        [pod("db-0", "data", node="a1", metadata=GONE, status={"phase": "Succeeded"}), *BOUND, *ELSEWHERE],
    ),
}


@pytest.mark.parametrize(("target", "documents"), PLACES.values(), ids=PLACES)
def test_beside_a_node_plugin_that_runs_the_log_of_its_registrar_is_read(
    target: str, documents: list[Document]
) -> None:
    item = why(target, *documents, PLUGIN, OTHER)
    assert item.problem
    assert "does not run" not in item.message
    assert item.next[0] == "kubectl -n storage logs example-csi-node-x7k2p -c node-driver-registrar"
    assert "/var/lib/kubelet" in item.advice[0]
    assert "pod/storage/example-csi-node-x7k2p" in [each.object for each in item.evidence]


@pytest.mark.parametrize(("target", "documents"), PLACES.values(), ids=PLACES)
def test_without_one_it_is_to_run_there(target: str, documents: list[Document]) -> None:
    item = why(target, *documents, OTHER)
    assert item.next[0] == "kubectl get daemonset -A | grep -i example"
    assert f"let the node plugin of {DRIVER} run on node a1" in item.advice[0]


def test_the_message_says_what_is_known() -> None:
    target, documents = PLACES["a pod on the node"]
    item = why(target, *documents, PLUGIN)
    assert_problem(item, Reason.DRIVER_NOT_ON_NODE)
    assert item.message.endswith("is not registered on node a1.")
