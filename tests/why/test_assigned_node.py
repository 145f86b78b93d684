"""A pod that is on a node, and the state of that node."""

from datetime import timedelta

import pytest

from binder.matching.rejection import Reason
from tests.why.documents import (
    BOUND,
    Document,
    assert_problem,
    at,
    event,
    kubelet_lease,
    node,
    pod,
    reporting,
    why,
)
from tests.why.dumps.clusters import down
from why.facts.facts import Source

RUNNING = [pod("db-0", "data", node="a1"), *BOUND]
UNREADY: Document = {"conditions": [{"type": "Ready", "status": "False"}]}
READY: Document = {"conditions": [{"type": "Ready", "status": "True"}]}
OLD = kubelet_lease("a1", timedelta(minutes=9))
NODE_LOST = event("Pod", "db-0", "NodeNotReady", "Node is not ready", reporter="node-controller")


def running(status: Document) -> list[Document]:
    return [pod("db-0", "data", node="a1", status={"phase": "Running", **status}), *BOUND]


def test_a_running_pod_on_a_node_that_does_not_respond_is_a_problem() -> None:
    item = why("pod/db-0", *RUNNING, down("a1", "node.kubernetes.io/unreachable"), OLD)
    assert_problem(item, Reason.NO_NODE_FITS)
    assert "does not respond" in item.message
    assert [link.name for link in item.causes] == ["web/db-0", "a1"]
    assert item.next == ("kubectl describe node a1",)
    assert "its volumes stay attached" in item.advice[0]
    assert "two writers destroy the file system" in item.advice[0]
    assert "lost is what they have not written" in item.advice[0]


@pytest.mark.parametrize("lease", [[], [kubelet_lease("a1", timedelta(seconds=5))]], ids=["unknown", "fresh"])
def test_a_node_that_may_still_run_is_not_to_be_declared_switched_off(lease: list[Document]) -> None:
    item = why("pod/db-0", *RUNNING, down("a1", "node.kubernetes.io/unreachable"), *lease)
    assert_problem(item, Reason.NO_NODE_FITS)
    assert "out-of-service=" not in item.advice[0]


@pytest.mark.parametrize(
    "lease", [[], [kubelet_lease("a1", timedelta(seconds=5))], [OLD]], ids=["none", "fresh", "old"]
)
def test_a_pod_that_does_not_go_declares_its_node_switched_off_only_if_its_kubelet_is_silent(
    lease: list[Document],
) -> None:
    gone = pod("db-0", "data", node="a1", metadata={"deletionTimestamp": at(timedelta(hours=1))})
    item = why("pod/db-0", gone, *BOUND, down("a1", "node.kubernetes.io/unreachable"), *lease)
    assert_problem(item, Reason.POD_TERMINATING)
    assert ("out-of-service=" in item.advice[0]) == (lease == [OLD])


def test_a_node_is_not_ready_by_its_condition_before_it_is_tainted() -> None:
    made = reporting("a1", "Unknown")
    item = why("pod/db-0", *RUNNING, {**made, "spec": {}})
    assert_problem(item, Reason.NO_NODE_FITS)
    assert "does not respond" in item.message


def test_the_advice_about_a_pod_without_claims_leaves_volumes_out() -> None:
    item = why("pod/db-0", pod("db-0", node="a1"), down("a1", "node.kubernetes.io/unreachable"))
    assert_problem(item, Reason.NO_NODE_FITS)
    assert "volumes" not in item.advice[0]


def test_a_running_pod_on_a_node_that_is_not_ready_is_a_problem_and_no_data_is_risked() -> None:
    item = why("pod/db-0", *RUNNING, down("a1", "node.kubernetes.io/not-ready"))
    assert_problem(item, Reason.NO_NODE_FITS)
    assert "out-of-service" not in item.advice[0]


@pytest.mark.parametrize("documents", [[*RUNNING, node("a1")], [*RUNNING, node("a1"), NODE_LOST]])
def test_a_running_pod_on_a_ready_node_is_none(documents: list[Document]) -> None:
    assert (why("pod/db-0", *documents).code, why("pod/db-0", *documents).problem) == (Reason.SCHEDULED, False)


def test_without_the_right_to_read_nodes_the_event_about_the_pod_is_quoted() -> None:
    item = why("pod/db-0", *running(UNREADY), NODE_LOST, without=(Source.NODES,))
    assert_problem(item, Reason.NO_NODE_FITS)
    assert "Node is not ready" in item.evidence[0].found


@pytest.mark.parametrize("documents", [[*running(UNREADY)], [*running(READY), NODE_LOST]])
def test_a_pod_that_is_unready_by_itself_or_ready_again_is_no_problem(documents: list[Document]) -> None:
    item = why("pod/db-0", *documents, without=(Source.NODES,))
    assert (item.code, item.problem) == (Reason.SCHEDULED, False)
    assert [skipped.resource for skipped in item.skipped] == ["nodes"]


def test_a_deleted_pod_stays_until_its_node_responds() -> None:
    """The kubelet has to confirm that, and a StatefulSet waits for it (BeforeDelete in registry/rest/delete.go)."""
    waits = pod("db-0", "data", node="a1", status={"phase": "Pending"})
    item = why("pod/db-0", waits, *BOUND, reporting("a1", "Unknown"))
    assert_problem(item, Reason.NO_NODE_FITS)
    assert "stays until that node responds" in item.advice[0]
