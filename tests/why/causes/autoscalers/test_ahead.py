"""A pod whose volume was bound ahead of its node: what was bound, where, since when, and what the autoscaler says."""

from datetime import timedelta

import pytest

from tests.why.documents import (
    DRIVER,
    SCHEDULED,
    Document,
    at,
    claim,
    csi_node,
    driver,
    event,
    node,
    pod,
    storage_class,
    volume,
    why,
)

CODE = "WaitingForNewNode"
LIMIT = (
    'Failed to schedule pod, incompatible with nodepool "default", all available instance types exceed limits for '
    "nodepool"
)
REPORTED = event("Pod", "db-0", "FailedScheduling", LIMIT, reporter="karpenter")


def bound_ahead(minutes: int = 14, *, uid: str = "uid-db-0") -> list[Document]:
    since = {"scheduler.cloud.example/awaits-node": f"{uid} {at(timedelta(minutes=minutes))}"}
    return [claim(volume="pv-1"), volume(claim="data", zone="b", metadata={"annotations": since}), storage_class()]


def test_what_was_bound_and_what_the_autoscaler_reports() -> None:
    item = why("pod/db-0", pod("db-0", "data"), *bound_ahead(), node("a1"), REPORTED, SCHEDULED)
    assert item.code == CODE
    assert item.problem
    assert "pv-1 in zone b was bound for the pod" in item.message
    assert "none has come for 14m, longer than its class allows" in item.message
    assert any("exceed limits" in each.found for each in item.evidence)
    assert item.next[-1] == "kubectl describe nodepool default"


def test_a_node_that_is_not_late_yet() -> None:
    item = why("pod/db-0", pod("db-0", "data"), *bound_ahead(3), node("a1"), SCHEDULED)
    assert item.code == CODE
    assert "longer than" not in item.message


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([*bound_ahead(), node("b1", "b")], id="a node that fits is there"),
        pytest.param([*bound_ahead(uid="uid-earlier"), node("a1")], id="it was bound for an earlier pod"),
    ],
)
def test_otherwise_it_is_something_else(documents: list[Document]) -> None:
    assert why("pod/db-0", pod("db-0", "data"), *documents, SCHEDULED).code != CODE


def left(minutes: int = 14, *, uid: str = "uid-db-0", selected: str = "") -> list[Document]:
    """A claim whose volume is still to be made by a driver that runs nowhere, of a pod that was let go for a node."""
    notes = {"scheduler.cloud.example/awaits-node": f"{uid} {at(timedelta(minutes=minutes))}"}
    if selected:
        notes["volume.kubernetes.io/selected-node"] = selected
    return [claim(metadata={"annotations": notes}), storage_class(provisioner=DRIVER), driver(storageCapacity=True)]


def test_a_pod_in_mode_provision_whose_gate_was_removed_for_a_node_to_come() -> None:
    item = why("pod/db-0", pod("db-0", "data"), *left(), node("a1", cordoned=True), REPORTED, SCHEDULED)
    assert (item.code, item.problem) == (CODE, True)
    assert "gate was removed so that an autoscaler adds a node for it and data" in item.message
    assert "none has come for 14m, longer than its class allows" in item.message
    assert any("awaits-node" in each.object and "since" in each.found for each in item.evidence)
    assert any("exceed limits" in each.found for each in item.evidence)
    assert item.next[-1] == "kubectl describe nodepool default"


def test_its_claim_has_the_same_answer() -> None:
    item = why("pvc/data", pod("db-0", "data"), *left(3), node("a1", cordoned=True), SCHEDULED)
    assert item.code == CODE
    assert "none has come for 3m." in item.message
    assert [each.name for each in item.causes] == ["web/data", "web/db-0"]


def test_its_claim_is_named_once_where_it_lacks_nothing_else() -> None:
    waits, *others = left(3)
    there = [driver(), csi_node("a1", DRIVER), node("a1", cordoned=True), SCHEDULED]
    item = why("pvc/data", pod("db-0", "data"), waits, others[0], *there)
    assert item.code == CODE
    assert [each.name for each in item.causes] == ["web/data", "web/db-0"]


def test_of_a_claim_that_is_bound_it_says_so() -> None:
    """Another claim of the pod waits."""
    notes = {"scheduler.cloud.example/awaits-node": f"uid-db-0 {at(timedelta(minutes=3))}"}
    bound = claim("log", volume="pv-1", metadata={"annotations": {**notes, "pv.kubernetes.io/bind-completed": "yes"}})
    there = [bound, volume(claim="log"), node("a1", cordoned=True), SCHEDULED]
    assert why("pvc/log", pod("db-0", "data", "log"), *left(3), *there).code == "Bound"


GATED = {"spec": {"schedulingGates": [{"name": "scheduler.cloud.example/volumes"}]}}


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([pod("db-0", "data"), *left(uid="uid-earlier")], id="an earlier pod was let go"),
        pytest.param([pod("db-0", "data"), *left(selected="a1")], id="a node was selected"),
        pytest.param([pod("db-0", "data", **GATED), *left()], id="its gate is there"),
        pytest.param(
            [pod("db-0", "data", status={"conditions": []}), *left()], id="kube-scheduler has not reported it"
        ),
    ],
)
def test_else_it_does_not_wait_for_a_new_node(documents: list[Document]) -> None:
    assert why("pod/db-0", *documents, node("a1", cordoned=True), SCHEDULED).code != CODE
