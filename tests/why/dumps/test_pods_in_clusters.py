"""Dumps of clusters as people run them: which answer an experienced person gives about a pod, or a volume."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from kube.objects.model import SELECTED_NODE
from tests.builders import ZONE
from tests.why.documents import (
    Document,
    at,
    claim,
    csi_node,
    driver,
    event,
    kubelet_lease,
    lease,
    metadata,
    node,
    pod,
    storage_class,
    volume,
)
from tests.why.dumps.clusters import (
    EBS,
    GP3,
    HOUR,
    IN_1A,
    NAMES,
    NODES,
    ON_A1,
    WITH_EBS,
    down,
    of_claim,
    of_daemon_set,
    selecting,
)
from tests.why.dumps.dump import (
    OF_NOTHING,
    Dump,
    attachment,
    check,
    tainted,
)

MARKED = 'PersistentVolume "pv-1" is marked for deletion'
REQUESTED = {**attachment("a1"), "status": {"attached": False}}
"""The volume is to be attached, and is not."""

SECONDS = timedelta(seconds=2)
OF_KIND = [claim(), storage_class(provisioner="rancher.io/local-path"), *NODES, csi_node(NAMES[0]), OF_NOTHING]
"""A claim in a cluster of kind: its provisioner holds no Lease."""

MULTI_ATTACH = event("Pod", "db-0", "FailedAttachVolume", 'Multi-Attach error for volume "pv-1"', ago=HOUR)
MOUNT_FAILED = event("Pod", "db-0", "FailedMount", 'MountVolume failed for volume "pv-1"', reporter="kubelet", ago=HOUR)
SUB_PATH = 'Error: failed to prepare subPath for volumeMount "data" of container "main"'


def began(state: Document) -> Document:
    """A pod on node a1 whose first container is in this state."""
    waits: Document = {"state": {"waiting": {"reason": "PodInitializing"}}}
    statuses = {"initContainerStatuses": [{"state": state}], "containerStatuses": [waits, {"state": None}]}
    return pod("db-0", "data", node="a1", status={"phase": "Pending", **statuses})


DUMPS = {
    # DaemonSets and pods for one node.
    "the node of a DaemonSet's pod is full": Dump(
        "NoNodeFits", [of_daemon_set(NAMES[1], cpu="9"), *NODES], f"describe node {NAMES[1]}", "add a node"
    ),
    "the node of a DaemonSet's pod has no access to the volume": Dump(
        "TopologyConflict",
        [of_daemon_set(NAMES[1], "data"), *IN_1A, *NODES],
        "kubectl -n web get daemonset logs",
        "label a node",
    ),
    "the node of a DaemonSet's pod is gone": Dump(
        "NoNodeFits", [of_daemon_set("gone"), *NODES], "on node gone only, which does not exist", "label a node"
    ),
    "the node of a DaemonSet's pod is under pressure": Dump(
        "NoNodeFits",
        [of_daemon_set("t1"), tainted("t1", "node.kubernetes.io/disk-pressure"), *NODES],
        "find out what has tainted it",
        "kubectl taint",
    ),
    "a pod is for a node that is gone": Dump(
        "NoNodeFits",
        [selecting("kubernetes.io/hostname", "gone"), *IN_1A, *NODES],
        "kubernetes.io/hostname=gone",
        "label a node",
    ),
    "a pod is for a node in another zone": Dump(
        "TopologyConflict",
        [selecting("kubernetes.io/hostname", NAMES[1]), *IN_1A, *NODES],
        "create it with others",
        "label a node",
    ),
    "a pod is for nodes with a label of the user's": Dump(
        "NoNodeFits", [selecting("disk", "ssd"), *IN_1A, *NODES], "kubectl get nodes -L disk"
    ),
    "the only node that the pod selects is not ready": Dump(
        "NoNodeFits",
        [
            selecting(ZONE, "us-east-1d"),
            claim(storage_class="gp3", volume="pv-1"),
            volume("pv-1", "gp3", claim="data"),
            GP3,
            *NODES,
            {
                **node("z9", "us-east-1d"),
                "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
            },
        ],
        "kubectl describe node z9",
    ),
    "the class makes volumes where the pod may not run": Dump(
        "AllowedTopologiesExcludeNodes",
        [
            selecting(ZONE, "us-east-1b"),
            claim(storage_class="gp3"),
            {**GP3, "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["us-east-1a"]}]}]},
            *WITH_EBS,
        ],
        "nodeSelector or affinity excludes these nodes",
        "make room",
    ),
    # Cloud disks.
    "EKS without its CSI driver": Dump(
        "ProvisionerMissing",
        [
            pod("db-0", "data"),
            claim(storage_class="gp2"),
            storage_class("gp2", "kubernetes.io/aws-ebs"),
            *NODES,
            csi_node(NAMES[0]),
        ],
        "grep -i ebs",
    ),
    "the cloud forbids the driver to create disks": Dump(
        "BackendError",
        [
            pod("db-0", "data"),
            claim(storage_class="gp3", metadata={"annotations": {SELECTED_NODE: NAMES[0]}}),
            GP3,
            *WITH_EBS,
            of_claim("ProvisioningFailed", "rpc error: code = Internal desc = UnauthorizedOperation", f"{EBS}_x"),
        ],
        "UnauthorizedOperation",
    ),
    "the disk's zone is full": Dump(
        "TopologyConflict",
        [pod("db-0", "data", cpu="3"), pod("big", cpu="3", node=NAMES[0]), *IN_1A, *WITH_EBS],
        "nodes in us-east-1b, us-east-1c cannot help",
    ),
    "the disk's zone is cordoned, and tainted by hand": Dump(
        "TopologyConflict",
        [
            pod("db-0", "data"),
            *IN_1A,
            {
                **node(NAMES[0], "us-east-1a"),
                "spec": {
                    "unschedulable": True,
                    "taints": [
                        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
                        {"key": "dedicated", "value": "x", "effect": "NoSchedule"},
                    ],
                },
            },
            *NODES[1:],
        ],
        "1 cordoned",
    ),
    # Provisioners without CSI, of which nothing is seen before the scheduler has chosen a node.
    "kind's provisioner is not asked for a volume of a pod that no node fits": Dump(
        "NoNodeFits", [pod("db-0", "data", cpu="9"), *OF_KIND], "Insufficient cpu", "ProvisionerMissing"
    ),
    "kind's provisioner is not asked for a volume of a pod with a gate": Dump(
        "SchedulingGated",
        [pod("db-0", "data", spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}), *OF_KIND],
        "kueue.x-k8s.io/admission",
    ),
    "kind's provisioner was asked for a volume, and has not begun": Dump(
        "ProvisionerMissing",
        [pod("db-0", "data"), claim(metadata={"annotations": {SELECTED_NODE: NAMES[0]}}), *OF_KIND[1:]],
        "grep -i local-path",
    ),
    "nothing else explains it, and nothing is seen of kind's provisioner": Dump(
        "ProvisionerMissing", [pod("db-0", "data"), *OF_KIND, lease("kube-scheduler", SECONDS)], "it wrote no Event"
    ),
    # On a node.
    "the volume was attached since, and Events about that have expired": Dump(
        "Scheduled", [*ON_A1, attachment("a1"), MULTI_ATTACH], "no problem with its volumes", "Multi-Attach"
    ),
    "another volume was attached since": Dump(
        "AttachConflict",
        [*ON_A1, {**attachment("a1"), "spec": {**attachment("a1")["spec"], "source": {}}}, MULTI_ATTACH],
        "Multi-Attach error",
    ),
    "an init container runs, and Events about the mount have expired": Dump(
        "Scheduled",
        [began({"running": {"startedAt": at(HOUR)}}), *ON_A1[1:], MOUNT_FAILED],
        "no problem with its volumes",
    ),
    "an image cannot be pulled, as the pod says, and Events about the mount have expired": Dump(
        "Scheduled", [began({"waiting": {"reason": "ImagePullBackOff"}}), *ON_A1[1:], MOUNT_FAILED]
    ),
    "its containers wait for the mount": Dump(
        "MountFailed", [began({"waiting": {"reason": "PodInitializing"}, "running": None}), *ON_A1[1:], MOUNT_FAILED]
    ),
    "a path within the volume cannot be prepared": Dump(
        "MountFailed",
        [
            began({"waiting": {"reason": "CreateContainerConfigError"}}),
            *ON_A1[1:],
            event("Pod", "db-0", "Failed", SUB_PATH, reporter="kubelet"),
            event("Pod", "db-0", "Pulled", "Container image is present", reporter="kubelet", type="Normal"),
        ],
        "failed to prepare subPath",
    ),
    "a path within the volume cannot be prepared, and the Events have expired": Dump(
        "MountFailed",
        [began({"waiting": {"reason": "CreateContainerConfigError", "message": SUB_PATH}}), *ON_A1[1:]],
        "failed to prepare subPath",
    ),
    "a path within the volume was prepared since": Dump(
        "Scheduled",
        [
            began({"running": {}}),
            *ON_A1[1:],
            event("Pod", "db-0", "Failed", SUB_PATH, reporter="kubelet", ago=HOUR),
            event("Pod", "db-0", "Started", "Started container", reporter="kubelet", type="Normal"),
        ],
    ),
    "the pod's node is not ready": Dump(
        "NoNodeFits",
        [
            *ON_A1[:4],
            {**node("a1"), "spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}},
        ],
        "assigned to node a1, which does not respond",
    ),
    "its kubelet has not reported since a mount failed": Dump(
        "NoNodeFits",
        [
            *ON_A1[:4],
            down("a1", "node.kubernetes.io/unreachable"),
            event("Pod", "db-0", "FailedMount", "timed out", reporter="kubelet", ago=HOUR),
        ],
        "assigned to node a1, which does not respond",
    ),
    "its kubelet reports that it is not ready, and that a mount fails": Dump(
        "MountFailed",
        [
            *ON_A1[:4],
            down("a1", "node.kubernetes.io/not-ready"),
            event("Pod", "db-0", "FailedMount", "bad superblock", reporter="kubelet"),
        ],
        "bad superblock",
    ),
    "its attacher does not respond": Dump(
        "AttachFailed",
        [
            *ON_A1,
            REQUESTED,
            event("Pod", "db-0", "FailedMount", "timed out waiting for the condition", reporter="kubelet"),
        ],
        "and reports no error: its attacher does not respond",
    ),
    "its attacher does not respond, and the kubelet has not reported that yet": Dump(
        "AttachFailed",
        [*ON_A1, REQUESTED, OF_NOTHING],
        "no such Lease",
    ),
    "no CSIDriver says that nothing is to be attached": Dump(
        "AttachFailed",
        [*ON_A1, REQUESTED, OF_NOTHING, driver("other.csi.example")],
        "with attachRequired: false for a driver that attaches nothing",
    ),
    "its volume is being deleted, so that it is not attached": Dump(
        "VolumeTerminating",
        [
            *ON_A1[:2],
            volume(claim="data", metadata={"deletionTimestamp": at(HOUR)}),
            *ON_A1[3:],
            {**REQUESTED, "status": {"attached": False, "attachError": {"message": MARKED}}},
        ],
        "is marked for deletion",
    ),
    "its volume was requested to be attached a moment ago": Dump(
        "Scheduled",
        [
            *ON_A1,
            {
                **attachment("a1"),
                "status": {"attached": False},
                "metadata": metadata("csi-a1", None, creationTimestamp=at(timedelta())),
            },
            OF_NOTHING,
        ],
    ),
    "an image cannot be pulled": Dump(
        "Scheduled",
        [*ON_A1, event("Pod", "db-0", "Failed", 'Failed to pull image "x"', reporter="kubelet")],
        "Failed to pull image",
    ),
    "a ConfigMap is missing": Dump(
        "MountFailed",
        [*ON_A1, event("Pod", "db-0", "FailedMount", 'configmap "web" not found', reporter="kubelet")],
        "configmap",
    ),
    "the node that had the volume was deleted": Dump(
        "AttachConflict", [*ON_A1, attachment("gone")], "does it run, without --disable-force-detach", "get pods -A"
    ),
    "the node that has the volume is switched off": Dump(
        "AttachConflict",
        [*ON_A1, down("b1", "node.kubernetes.io/unreachable"), kubelet_lease("b1", HOUR), attachment("b1")],
        "out-of-service",
        '["kubectl taint',
    ),
    "the node that has the volume waits for its CSI driver, and is up": Dump(
        "AttachConflict",
        [*ON_A1, down("b1", f"{EBS}/agent-not-ready"), attachment("b1")],
        "waiting longer does not help",
        "out-of-service",
    ),
}


@pytest.mark.parametrize("dump", DUMPS.values(), ids=DUMPS)
def test_the_answer(dump: Dump, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(dump, tmp_path, capsys)


VOLUMES = {
    "its claim was created again": Dump(
        "VolumeReleased",
        [volume(claim="data", claim_uid="old", phase="Released"), claim(), *NODES],
        "of an earlier claim web/data, which was deleted",
    ),
    "the PV controller has not seen it": Dump(
        "Progressing", [volume(phase="Pending"), *NODES, lease("kube-controller-manager", HOUR)], "last renewed", "free"
    ),
    "a deleted one that no claim uses": Dump(
        "VolumeTerminating",
        [volume(claim="old", phase="Released", metadata={"deletionTimestamp": at(HOUR)}), *NODES],
        "until its finalizers are removed",
    ),
    "its driver cannot delete it": Dump(
        "VolumeReleased",
        [
            volume(claim="old", phase="Released", spec={"persistentVolumeReclaimPolicy": "Delete"}),
            {
                **event("PersistentVolume", "pv-1", "VolumeFailedDelete", "it has snapshots", reporter=EBS),
                "involvedObject": {"kind": "PersistentVolume", "name": "pv-1"},
            },
            *NODES,
        ],
        "it has snapshots",
    ),
}


@pytest.mark.parametrize("dump", VOLUMES.values(), ids=VOLUMES)
def test_the_answer_about_a_volume(dump: Dump, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(replace(dump, target="pv/pv-1"), tmp_path, capsys)
