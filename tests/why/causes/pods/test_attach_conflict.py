"""A volume for one node that another node has: what detaches it, by that node's state and the pods there."""

from datetime import timedelta
from typing import Final

import pytest

from binder.matching.rejection import Reason
from tests.why.documents import (
    BOUND,
    DRIVER,
    Document,
    assert_problem,
    at,
    claim,
    event,
    kubelet_lease,
    node,
    of_deployment,
    pod,
    reporting,
    storage_class,
    volume,
    why,
)
from tests.why.dumps.dump import attachment, placed

OFF: Final = "out-of-service"
SECONDS, MINUTES = timedelta(seconds=5), timedelta(minutes=9)
WAITING = [placed("db-0", "data"), *BOUND, node("a1"), attachment("a2")]
FRESH, STALE = kubelet_lease("a2", SECONDS), kubelet_lease("a2", MINUTES)

ALONE = {"accessModes": ["ReadWriteOncePod"]}


def shared_by(*pods: Document) -> list[Document]:
    return [*pods, *BOUND, node("a1"), node("a2"), attachment("a2")]


def since(made: Document, ago: timedelta) -> Document:
    return {**made, "metadata": {**made["metadata"], "creationTimestamp": at(ago)}}


def deleted(ago: timedelta, error: str = "") -> Document:
    """The attachment to node a2, which is being deleted."""
    made = attachment("a2", error)
    about = {"deletionTimestamp": at(ago), "finalizers": ["external-attacher/disk-csi-example"]}
    return {**made, "metadata": {**made["metadata"], **about}}


@pytest.mark.parametrize(
    ("state", "says"),
    [
        pytest.param([reporting("a2", "False", timedelta(seconds=40)), FRESH], "do not taint it", id="it is not ready"),
        pytest.param([reporting("a2", "False"), STALE], "do not taint it", id="it is not ready, its Lease is stale"),
        pytest.param(
            [reporting("a2", "Unknown"), FRESH], "5s ago, so it runs: do not taint it", id="its Lease is fresh"
        ),
        pytest.param([reporting("a2", "Unknown")], "kube-node-lease get lease a2", id="its Lease was not found"),
    ],
)
def test_a_node_that_may_be_alive_is_never_declared_switched_off(state: list[Document], says: str) -> None:
    item = why("pod/db-0", *WAITING, *state)
    assert_problem(item, Reason.ATTACH_CONFLICT)
    assert item.next == ("kubectl describe node a2",)
    assert says in item.advice[0]
    assert f"{OFF}=" not in " ".join(item.advice)


def test_a_silent_node_may_be_declared_switched_off_once_that_was_checked() -> None:
    item = why("pod/db-0", *WAITING, reporting("a2", "Unknown"), STALE)
    assert_problem(item, Reason.ATTACH_CONFLICT)
    assert item.next == ("kubectl describe node a2",)
    first, _, then = item.advice[0].partition(f"kubectl taint node a2 node.kubernetes.io/{OFF}=nodeshutdown:NoExecute")
    assert "check in the cloud's console or at the machine that it is switched off" in first
    assert "two writers destroy the file system" in first
    assert "lost is what they have not written" in then
    assert [each.found for each in item.evidence[1:]] == ["Unknown for 5m", "last renewed 9m ago"]


def test_the_pod_that_uses_the_volume_on_a_failing_node_is_named() -> None:
    item = why("pod/db-0", *WAITING, reporting("a2", "False"), FRESH, pod("old", "data", node="a2"))
    assert item.next == ("kubectl describe node a2",)
    assert "Pod web/old uses the volume there" in item.advice[0]


def test_the_old_pod_of_a_rolling_update_is_not_to_be_deleted() -> None:
    old = of_deployment(pod("old", "data", node="a2"), "db", "5d8")
    item = why("pod/db-0", *shared_by(of_deployment(placed("db-0", "data"), "db", "7c9"), old))
    assert_problem(item, Reason.ATTACH_CONFLICT)
    patch = '{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}'
    assert item.next == (f"kubectl -n web patch deployment db --type=merge -p '{patch}'",)
    assert "Deleting pod old does not help" in item.advice[0]
    assert "scaling to 0 and back does" in item.advice[0]


def test_the_kubelets_event_about_a_rolling_update_has_the_same_answer() -> None:
    """As in a dump without VolumeAttachments."""
    old = of_deployment(pod("old", "data", node="a2"), "db", "5d8")
    text = 'Multi-Attach error for volume "pv-1" Volume is already used by pod(s) old'
    failed = event("Pod", "db-0", "FailedAttachVolume", text, reporter="attachdetach-controller")
    new = of_deployment(placed("db-0", "data"), "db", "7c9")
    item = why("pod/db-0", new, old, *BOUND, node("a1"), node("a2"), failed)
    assert item.next[0].startswith("kubectl -n web patch deployment db ")


def test_an_update_that_waits_for_an_exclusive_claim_has_the_same_answer() -> None:
    exclusive = [claim(volume="pv-1", spec=ALONE), volume(claim="data", zone="a", spec=ALONE), storage_class()]
    old = of_deployment(pod("old", "data", node="a2"), "db", "5d8")
    item = why("pod/db-0", of_deployment(pod("db-0", "data"), "db", "7c9"), old, *exclusive, node("a1"))
    assert_problem(item, Reason.VOLUME_IN_USE)
    assert item.next[0].startswith("kubectl -n web patch deployment db ")


@pytest.mark.parametrize(
    ("old", "command", "note"),
    [
        pytest.param(
            of_deployment(pod("old", "data", node="a2"), "db", "7c9"),
            "kubectl -n web get deployment db",
            "its replicas share a volume for one node",
            id="another replica of the same Deployment",
        ),
        pytest.param(
            of_deployment(pod("old", "data", node="a2"), "backup", "5d8"),
            "kubectl -n web get deployment backup",
            "deployment backup creates pod old again",
            id="a pod of another Deployment",
        ),
        pytest.param(
            pod(
                "old",
                "data",
                node="a2",
                metadata={"ownerReferences": [{"kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}]},
            ),
            "kubectl -n web get statefulset db",
            "statefulset db creates pod old again",
            id="a pod of a StatefulSet",
        ),
        pytest.param(
            pod("old", "data", node="a2"),
            "kubectl -n web get pod old",
            "if what it does may end: `kubectl -n web delete pod old`",
            id="a bare pod",
        ),
        pytest.param(
            pod("old", "data", node="a2", metadata={"deletionTimestamp": at(timedelta())}),
            "kubectl -n web get pod old --watch",
            "it is being deleted",
            id="a pod that is being deleted",
        ),
    ],
)
def test_what_ends_a_pod_depends_on_what_creates_it_again(old: Document, command: str, note: str) -> None:
    item = why("pod/db-0", *shared_by(of_deployment(placed("db-0", "data"), "db", "7c9"), old))
    assert_problem(item, Reason.ATTACH_CONFLICT)
    assert item.next == (command,)
    assert note in item.advice[0]


@pytest.mark.parametrize(
    ("documents", "command", "note"),
    [
        pytest.param(
            [since(placed("db-0", "data"), timedelta(minutes=1)), node("a2"), attachment("a2")],
            "kubectl get pods -A --field-selector spec.nodeName=a2",
            "wait: ",
            id="a minute ago",
        ),
        pytest.param(
            [since(placed("db-0", "data"), timedelta(minutes=39)), node("a2"), attachment("a2")],
            "kubectl get pods -A --field-selector spec.nodeName=a2",
            "waited for 39m, and waiting longer does not help",
            id="39 minutes ago",
        ),
        pytest.param(
            [since(placed("db-0", "data"), timedelta(minutes=3)), attachment("a2")],
            "kubectl describe volumeattachment csi-a2",
            "after six minutes at the latest",
            id="from a node that is gone, 3 minutes ago",
        ),
        pytest.param(
            [since(placed("db-0", "data"), timedelta(minutes=25)), attachment("a2")],
            "kubectl -n kube-system get lease kube-controller-manager",
            "waited for 25m",
            id="from a node that is gone, 25 minutes ago",
        ),
        pytest.param(
            [placed("db-0", "data"), node("a2"), deleted(timedelta(seconds=30))],
            "kubectl get volumeattachment csi-a2",
            "wait until this is gone",
            id="the detach was requested half a minute ago",
        ),
    ],
)
def test_how_long_it_has_taken_decides_whether_waiting_helps(
    documents: list[Document], command: str, note: str
) -> None:
    item = why("pod/db-0", *documents, *BOUND, node("a1"))
    assert_problem(item, Reason.ATTACH_CONFLICT)
    assert item.next == (command,)
    assert note in item.advice[0]


@pytest.mark.parametrize("holder", [[node("a2")], [reporting("a2", "Unknown"), STALE], []], ids=["up", "off", "gone"])
def test_a_detach_that_hangs_is_named_with_what_to_check_before_its_finalizer_is_removed(
    holder: list[Document],
) -> None:
    hanging = deleted(timedelta(minutes=25), "rpc error: code = Internal desc = disk is busy")
    item = why("pod/db-0", placed("db-0", "data"), *BOUND, node("a1"), *holder, hanging)
    assert_problem(item, Reason.ATTACH_CONFLICT)
    assert item.next == ("kubectl describe volumeattachment csi-a2",)
    shown = {each.object: each.found for each in item.evidence}
    assert shown["volumeattachment/csi-a2 metadata.deletionTimestamp"] == "25m ago"
    assert "disk is busy" in shown["volumeattachment/csi-a2 status.detachError"]
    assert "Waiting longer does not help" in item.advice[0]
    assert "Before its finalizer external-attacher/disk-csi-example is removed" in item.advice[0]
    assert "no machine has the volume attached" in item.advice[0]


def test_a_kubelet_that_still_has_the_volume_mounted_is_named() -> None:
    made = node("a2")
    made["status"]["volumesInUse"] = [f"kubernetes.io/csi/{DRIVER}^handle-pv-1"]
    item = why("pod/db-0", placed("db-0", "data"), *BOUND, node("a1"), made, attachment("a2"))
    assert "node/a2 status.volumesInUse" in [each.object for each in item.evidence]
    assert "still has it mounted" in item.advice[0]


def test_a_node_with_the_taint_is_not_to_be_tainted_again() -> None:
    made = reporting("a2", "Unknown")
    made["spec"]["taints"].append({"key": f"node.kubernetes.io/{OFF}", "value": "nodeshutdown", "effect": "NoExecute"})
    item = why("pod/db-0", *WAITING, made, STALE)
    assert "it is tainted out of service already" in item.advice[0]
