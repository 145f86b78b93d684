"""A pod whose volume was bound ahead of its node: what was bound, where, since when, and what the autoscaler says."""

from datetime import timedelta

import pytest

from tests.why.documents import SCHEDULED, Document, at, claim, event, node, pod, storage_class, volume, why

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
