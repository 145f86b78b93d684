"""A scheduler that is not Kubernetes' own, and a resource that no node offers."""

import pytest

from binder.matching.rejection import Reason
from tests.why.documents import BOUND, Document, assert_problem, event, node, pod, why

FARGATE = "Pod not supported on Fargate: volumes not supported: data is of an unsupported volume Class"


def waiting(scheduler: str, note: str) -> list[Document]:
    rejected = event("Pod", "db-0", "FailedScheduling", note, reporter=scheduler)
    made = pod("db-0", "data", spec={"schedulerName": scheduler}, status={"conditions": []})
    return [made, *BOUND, node("a1"), rejected]


@pytest.mark.parametrize(
    ("scheduler", "note", "advice"),
    [
        ("fargate-scheduler", FARGATE, "Fargate mounts EFS only"),
        ("volcano", "pod group is not ready, 1 Pending, 3 minAvailable", "by rules of its own"),
    ],
)
def test_the_words_of_a_scheduler_with_rules_of_its_own_are_the_headline(
    scheduler: str, note: str, advice: str
) -> None:
    item = why("pod/db-0", *waiting(scheduler, note))
    assert_problem(item, Reason.NO_NODE_FITS)
    assert item.message == f'{scheduler} reports: "{note}"'
    assert advice in item.advice[0]


@pytest.mark.parametrize("note", ["0/1 nodes are available: 1 Insufficient cpu.", "running PreBind plugin: timeout"])
def test_kube_scheduler_under_another_name_is_computed_here(note: str) -> None:
    item = why("pod/db-0", *waiting("second-scheduler", note))
    assert not item.message.startswith("second-scheduler reports")


def test_kube_scheduler_itself_is_computed_here() -> None:
    assert not why("pod/db-0", *waiting("default-scheduler", FARGATE)).message.startswith("default-scheduler reports")


def requesting(resource: str) -> Document:
    return pod("db-0", spec={"containers": [{"name": "main", "resources": {"requests": {resource: "1"}}}]})


def test_a_resource_that_no_node_offers_is_not_to_be_made_room_for() -> None:
    item = why("pod/db-0", requesting("nvidia.com/gpu"), node("a1"), node("b1", "b"))
    assert_problem(item, Reason.NO_NODE_FITS)
    assert "no node has this resource" in item.advice[0]
    assert not any("make room" in note for note in item.advice)


def test_a_resource_that_is_used_up_needs_room() -> None:
    offering = node("a1")
    offering["status"]["allocatable"]["nvidia.com/gpu"] = "1"
    other = requesting("nvidia.com/gpu")
    other["metadata"] = {**other["metadata"], "name": "other", "uid": "uid-other"}
    other["spec"]["nodeName"], other["status"] = "a1", {"phase": "Running"}
    item = why("pod/db-0", requesting("nvidia.com/gpu"), offering, other)
    assert item.next == ("kubectl describe node a1",)
    assert "make room there" in item.advice[0]
