"""The command for the log that tells more than the Event: of the pod and the container that have it."""

from datetime import timedelta
from typing import Any

import pytest

from tests.why.documents import (
    BOUND,
    DRIVER,
    Document,
    at,
    claim,
    driver,
    event,
    facts_of,
    lease,
    node,
    storage_class,
    why,
)
from tests.why.driver_pods import CONTROLLER, NODE_PLUGIN, container, controller, workload
from tests.why.dumps.dump import placed
from why.causes.drivers.logs import PROVISIONER, host_of, log_of_sidecar
from why.facts.facts import Source

EBS = "ebs.csi.aws.com"
POD = "ebs-csi-controller-65ff4fbbc8-hbbpq"
IDENTITY = f"{EBS}_{POD}_fe17ffed-e272-4390-9c3e-3fdb447f0ba3"
ERROR = "rpc error: code = Internal desc = the array does not answer"
OTHER = controller("ebs-csi-controller-65ff4fbbc8-zzzzz", namespace="kube-system")


def held(name: str, holder: str, namespace: str) -> Document:
    made = lease(name, timedelta(seconds=2), namespace)
    return {**made, "spec": {**made["spec"], "holderIdentity": holder}}


def failing(provisioner: str, reporter: str) -> list[Document]:
    return [
        claim(),
        storage_class(provisioner=provisioner, mode="Immediate"),
        driver(provisioner),
        event("PersistentVolumeClaim", "data", "ProvisioningFailed", ERROR, reporter=reporter),
    ]


PLACES: dict[str, tuple[list[Document], str]] = {
    "the pod of the identity in the Event": (
        [*failing(EBS, IDENTITY), OTHER, controller(POD, namespace="kube-system")],
        f"kubectl -n kube-system logs {POD} -c csi-provisioner",
    ),
    "a pod in its node's network, whose identity has the node's name": (
        [*failing(EBS, f"{EBS}_n7_uid"), OTHER, controller("ebs-csi-controller-0", namespace="infra", node="n7")],
        "kubectl -n infra logs ebs-csi-controller-0 -c csi-provisioner",
    ),
    "the pod that holds the Lease, if that of the Event is gone": (
        [
            *failing(EBS, IDENTITY),
            controller("one-0", namespace="infra"),
            held("ebs-csi-aws-com", "one-0", "infra"),
        ],
        "kubectl -n infra logs one-0 -c csi-provisioner",
    ),
    "a pod whose arguments name the driver": (
        [*failing("disk.csi.example", "disk.csi.example_gone_uid"), controller("storage-0", "disk.csi.example")],
        "kubectl -n storage logs storage-0 -c csi-provisioner",
    ),
    "a provisioner without CSI by its environment": (
        [
            *failing("acme.example/nfs", "acme.example/nfs_gone_uid"),
            workload("files-0", container("main", env=[("PROVISIONER_NAME", "acme.example/nfs")])),
        ],
        "kubectl -n storage logs files-0",
    ),
    "its workloads, if no pod of it is known": (
        failing("csi.hetzner.cloud", "csi.hetzner.cloud_gone_uid"),
        "kubectl get deploy,statefulset,daemonset -A | grep -e hcloud-csi-controller -e hcloud-csi-node",
    ),
}


@pytest.mark.parametrize(("documents", "command"), PLACES.values(), ids=PLACES)
def test_the_log_of_a_provisioner(documents: list[Document], command: str) -> None:
    item = why("pvc/data", *documents)
    assert item.code == "BackendError"
    assert item.next == (command,)


def test_a_sidecar_with_another_name_is_known_by_its_image() -> None:
    made = container("create", "--csi-address=/s")
    renamed = {**made, "image": "registry.example/external-provisioner:v6.3.0"}
    pods = [workload(POD, container("plugin"), renamed, namespace="kube-system")]
    assert why("pvc/data", *failing(EBS, IDENTITY), *pods).next == (f"kubectl -n kube-system logs {POD} -c create",)


def test_without_the_right_to_list_pods_the_namespace_is_that_of_the_lease() -> None:
    documents = [*failing(EBS, IDENTITY), held("ebs-csi-aws-com", f"{POD}_uid", "kube-system")]
    without = (Source.DRIVER_PODS, Source.ALL_PODS)
    assert why("pvc/data", *documents, without=without).next == (
        f"kubectl -n kube-system logs {POD} -c csi-provisioner",
    )
    assert why("pvc/data", *failing(EBS, IDENTITY), without=without).next[0].startswith("kubectl get deploy")


def test_a_pod_that_has_ended_has_no_log_of_today() -> None:
    ended = controller(POD, namespace="kube-system", status={"phase": "Failed"})
    step = log_of_sidecar(facts_of(ended), EBS, PROVISIONER, IDENTITY)
    assert step is None


def test_what_others_named_is_one_word() -> None:
    evil = "x; touch y"
    pods = [controller(evil, namespace="kube-system")]
    item = why("pvc/data", *failing(EBS, f"{EBS}_{evil}_uid"), *pods)
    assert item.next == ("kubectl -n kube-system logs 'x; touch y' -c csi-provisioner",)


@pytest.mark.parametrize(
    ("reporter", "host"),
    [
        (IDENTITY, POD),
        (f"{EBS}_{POD}", POD),
        (EBS, ""),
        ("external-provisioner", ""),
        (f"other_{POD}_uid", ""),
    ],
)
def test_the_host_in_an_identity(reporter: str, host: str) -> None:
    assert host_of(EBS, reporter) == host


def unattached(**status: Any) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "csi-1", "creationTimestamp": at(timedelta(minutes=9))},
        "spec": {"attacher": DRIVER, "nodeName": "a1", "source": {"persistentVolumeName": "pv-1"}},
        "status": {"attached": False, **status},
    }


NOT_MOUNTED = f'MountVolume.SetUp failed for volume "pv-1" : {ERROR}'
FAILED_MOUNT = event("Pod", "db-0", "FailedMount", NOT_MOUNTED, reporter="kubelet")
ON_NODES: dict[str, tuple[list[Document], str]] = {
    "an attach error": (
        [unattached(attachError={"message": ERROR}), CONTROLLER],
        "kubectl -n storage logs example-csi-controller-7d4b9c6f5-x2x8p -c csi-attacher",
    ),
    "an attacher that says nothing": (
        [unattached(), driver(), CONTROLLER],
        "kubectl -n storage logs example-csi-controller-7d4b9c6f5-x2x8p -c csi-attacher",
    ),
    "a mount error": ([FAILED_MOUNT, NODE_PLUGIN], "kubectl -n storage logs example-csi-node-x7k2p -c plugin"),
    "a mount error without a known plugin": ([FAILED_MOUNT], "kubectl get daemonset -A | grep -i example"),
}


@pytest.mark.parametrize(("documents", "command"), ON_NODES.values(), ids=ON_NODES)
def test_the_log_about_a_pod_on_a_node(documents: list[Document], command: str) -> None:
    assert why("pod/db-0", placed("db-0", "data"), *BOUND, node("a1"), *documents).next == (command,)


def test_the_volume_of_no_driver_is_shown_itself() -> None:
    claimed, made, of_class = BOUND
    spec = {key: value for key, value in made["spec"].items() if key != "csi"}
    nfs = {**made, "spec": {**spec, "nfs": {"server": "10.0.0.9", "path": "/export"}}}
    item = why("pod/db-0", placed("db-0", "data"), claimed, nfs, of_class, node("a1"), FAILED_MOUNT)
    assert item.next == ("kubectl get pv pv-1 -o yaml",)


def test_a_failed_detach_leads_to_the_log_of_the_attacher() -> None:
    elsewhere = unattached()
    elsewhere["spec"]["nodeName"] = "b1"
    elsewhere["status"] = {"attached": True, "detachError": {"message": ERROR}}
    documents = [placed("db-0", "data"), *BOUND, node("a1"), node("b1", "b"), elsewhere, CONTROLLER]
    item = why("pod/db-0", *documents)
    assert item.code == "AttachConflict"
    assert item.next == ("kubectl -n storage logs example-csi-controller-7d4b9c6f5-x2x8p -c csi-attacher",)


def test_many_claims_of_a_driver_share_one_search_for_its_pods() -> None:
    pods = [controller(f"controller-{number}", namespace="kube-system") for number in range(3)]
    facts = facts_of(*pods)
    first = log_of_sidecar(facts, DRIVER, PROVISIONER, f"{DRIVER}_controller-1_uid")
    again = log_of_sidecar(facts, DRIVER, PROVISIONER, f"{DRIVER}_controller-1_other")
    assert first is not None
    assert again is first
