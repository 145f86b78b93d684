"""Why a pod that is being deleted does not go, and what waits for it."""

from datetime import timedelta
from typing import Any

import pytest

from binder.matching.rejection import Reason
from tests.why.documents import (
    BOUND,
    DRIVER,
    INSTALLED,
    NAMESPACE,
    SCHEDULED,
    Document,
    assert_problem,
    at,
    claim,
    csi_node,
    driver,
    event,
    facts_of,
    lease,
    node,
    pod,
    storage_class,
    volume,
    why,
)
from why.explain.answering import waiting
from why.explain.targets import Target
from why.facts.facts import Source

HOUR = timedelta(hours=1)
ALONE = {"accessModes": ["ReadWriteOncePod"]}
DOWN = {**node("a1"), "spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}}
ANYWHERE = [claim(volume="pv-1"), volume(claim="data"), storage_class()]
SICK = volume(claim="data", metadata={"annotations": {"scheduler.cloud.example/health": "Inaccessible"}})


def ending(name: str = "db-0", phase: str = "Running", ago: timedelta = HOUR, **about: Any) -> Document:
    """A pod on node a1 that is being deleted; its grace period was over so long ago."""
    metadata = {"deletionTimestamp": at(ago), "deletionGracePeriodSeconds": 30, **about}
    return pod(name, "data", node="a1", status={"phase": phase}, metadata=metadata)


def of_kubelet(reason: str, note: str) -> Document:
    return event("Pod", "db-0", reason, note, reporter="kubelet")


CASES = {
    "its containers do not end": ([ending(), *BOUND, node("a1")], "its containers have not ended"),
    "the kubelet says why they do not": (
        [ending(), *BOUND, node("a1"), of_kubelet("FailedKillPod", "error killing pod: context deadline exceeded")],
        "error killing pod",
    ),
    "its volumes are not unmounted": ([ending(phase="Failed"), *BOUND, node("a1")], "its volumes are not unmounted"),
    "the driver that has to unmount them is gone": (
        [ending(phase="Succeeded"), *BOUND, node("a1"), driver(), csi_node("a1"), csi_node("b1", DRIVER)],
        f"CSI driver {DRIVER} is not registered there, which has to unmount pv-1",
    ),
    "its volume is unhealthy": (
        [ending(), claim(volume="pv-1"), SICK, storage_class(), node("a1")],
        "volume pv-1 is unhealthy",
    ),
    "its node does not respond": ([ending(), *BOUND, DOWN], "the kubelet of its node a1"),
    "its node is gone": (
        [ending(), *BOUND, node("b1"), lease("kube-controller-manager", HOUR)],
        "its node a1 does not exist",
    ),
    "a finalizer is left": (
        [ending(phase="Succeeded", deletionGracePeriodSeconds=0, finalizers=["example.com/backup"]), *BOUND, DOWN],
        "its finalizers are not removed: example.com/backup",
    ),
    "a finalizer is left on a pod without a node": (
        [
            pod("db-0", "data", metadata={"deletionTimestamp": at(HOUR), "finalizers": ["example.com/backup"]}),
            *BOUND,
            node("a1"),
        ],
        "its finalizers are not removed: example.com/backup",
    ),
    "nothing holds it": (
        [pod("db-0", "data", metadata={"deletionTimestamp": at(HOUR)}), *BOUND, node("a1")],
        "it has neither a node nor a finalizer",
    ),
    "the Job controller removes its finalizer later": (
        [ending(finalizers=["batch.kubernetes.io/job-tracking"]), *BOUND, DOWN],
        "the kubelet of its node a1",
    ),
}


@pytest.mark.parametrize(("documents", "words"), CASES.values(), ids=CASES)
def test_a_pod_that_should_have_been_gone_is_a_problem(documents: list[Document], words: str) -> None:
    item = why("pod/db-0", *documents)
    assert_problem(item, Reason.POD_TERMINATING)
    assert words in f"{item.message} {item.evidence}"


def test_a_pod_within_its_grace_period_is_none() -> None:
    item = why("pod/db-0", ending(ago=timedelta(seconds=10)), *BOUND, node("a1"))
    assert (item.code, item.problem, item.message) == (Reason.SCHEDULED, False, "The pod is Terminating.")


def test_without_nodes_what_is_known_of_it_is_reported_and_what_is_not() -> None:
    item = why("pod/db-0", ending(), *BOUND, without=[Source.NODES])
    assert_problem(item, Reason.POD_TERMINATING)
    assert "nodes may not be read" in item.message
    assert [skipped.resource for skipped in item.skipped] == ["nodes"]


def test_everything_that_waits_includes_it() -> None:
    facts = facts_of(ending(), ending("ends", ago=timedelta()), pod("runs", node="a1"), *BOUND)
    assert waiting(facts, NAMESPACE) == [Target("Pod", "db-0", NAMESPACE)]


WAITING = {
    "a claim that is being deleted": (
        "pvc/data",
        Reason.CLAIM_DELETING,
        [claim(volume="pv-1", metadata={"deletionTimestamp": at(HOUR)}), volume(claim="data"), ending("old")],
    ),
    "a pod that needs its claim for itself": (
        "pod/db-0",
        Reason.VOLUME_IN_USE,
        [claim(volume="pv-1", spec=ALONE), volume(claim="data", spec=ALONE), pod("db-0", "data"), ending("old")],
    ),
    "a pod that is to get its room": (
        "pod/db-0",
        Reason.POD_TERMINATING,
        [*BOUND, pod("db-0", "data", cpu="9", status={"nominatedNodeName": "a1"}), ending("old")],
    ),
    "a pod whose volume is still attached there": (
        "pod/db-0",
        Reason.ATTACH_CONFLICT,
        [
            *ANYWHERE,
            pod("db-0", "data", node="b1", status={"phase": "Pending"}),
            node("b1", "b"),
            ending("old"),
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "VolumeAttachment",
                "metadata": {"name": "csi-a1"},
                "spec": {"attacher": DRIVER, "nodeName": "a1", "source": {"persistentVolumeName": "pv-1"}},
                "status": {"attached": True},
            },
        ],
    ),
}


@pytest.mark.parametrize(("target", "code", "documents"), WAITING.values(), ids=WAITING)
def test_what_waits_for_it_has_the_same_cause(target: str, code: Reason, documents: list[Document]) -> None:
    item = why(target, *documents, storage_class(), node("a1"), SCHEDULED, *INSTALLED)
    assert_problem(item, code)
    assert "Pod old should have been gone for 1h, and on node a1 its containers have not ended." in item.message
    assert item.next == ("kubectl -n web describe pod old",)


@pytest.mark.parametrize(
    ("policy", "without", "command"),
    [("Retain", (), "delete"), ("Delete", (), "get"), ("Recycle", (), "get"), ("Retain", (Source.VOLUMES,), "get")],
)
def test_pods_that_have_ended_are_to_be_deleted_only_if_no_data_goes_with_their_claim(
    policy: str, without: tuple[Source, ...], command: str
) -> None:
    going = claim(
        volume="pv-1", metadata={"deletionTimestamp": at(HOUR), "finalizers": ["kubernetes.io/pvc-protection"]}
    )
    bound = volume(claim="data", spec={"persistentVolumeReclaimPolicy": policy})
    ended = pod("job-1", "data", node="a1", status={"phase": "Succeeded"})
    item = why("pvc/data", going, bound, storage_class(), ended, node("a1"), without=without)
    assert_problem(item, Reason.CLAIM_DELETING)
    assert item.next == (f"kubectl -n {NAMESPACE} {command} pod job-1",)
    assert ("persistentVolumeReclaimPolicy" in item.advice[0]) is (command == "get")
