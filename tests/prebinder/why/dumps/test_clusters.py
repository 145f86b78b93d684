"""Dumps of clusters as people run them: cloud disks, local disks, Longhorn, Rook, NFS."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kube.objects.model import BIND_COMPLETED, PROVISIONED_BY, SELECTED_NODE
from tests.builders import ZONE
from tests.prebinder.why.documents import (
    SCHEDULED,
    Document,
    at,
    claim,
    csi_node,
    default_class,
    driver,
    event,
    lease,
    node,
    pod,
    storage_class,
    volume,
)
from tests.prebinder.why.dumps.dump import (
    OF_SET,
    Dump,
    attachment,
    check,
    placed,
    reached_by,
    refused,
    tainted,
)

EBS = "ebs.csi.aws.com"
RBD = "rook-ceph.rbd.csi.ceph.com"
NAMES = ("ip-10-0-1-7", "ip-10-0-2-9", "ip-10-0-3-4")
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
NODES = [*(node(name, zone) for name, zone in zip(NAMES, ZONES, strict=True)), SCHEDULED]
WITH_EBS = [*NODES, driver(EBS), *(csi_node(name, EBS) for name in NAMES)]
GP3 = storage_class("gp3", EBS)
IN_1A = [claim(storage_class="gp3", volume="pv-1"), volume("pv-1", "gp3", claim="data", zone="us-east-1a"), GP3]
ON_A1 = [placed("db-0", "data"), claim(volume="pv-1"), volume(claim="data"), storage_class(), node("a1"), SCHEDULED]
NOTHING_ELSE = event("Pod", "another", "Scheduled", "assigned", type="Normal")
HOUR = timedelta(hours=1)


def at_once(name: str, provisioner: str) -> Document:
    return storage_class(name, provisioner, "Immediate")


def of_daemon_set(host: str, *claims: str, **how: Any) -> Document:
    """A pod as the DaemonSet controller makes it: for one node, by name."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [host]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "uid": "uid-logs", "controller": True}
    spec = {"affinity": {"nodeAffinity": required}}
    return pod("logs-x", *claims, spec=spec, metadata={"ownerReferences": [owner]}, **how)


def local(name: str, host: str, **how: Any) -> Document:
    """A volume of the local static provisioner."""
    made = volume(name, "local-storage", **how)
    del made["spec"]["csi"]
    made["spec"] |= {"local": {"path": f"/mnt/{name}"}, **reached_by("kubernetes.io/hostname", host)}
    return made


def of_claim(reason: str, note: str, reporter: str) -> Document:
    return event("PersistentVolumeClaim", "data", reason, note, reporter=reporter)


def ended(phase: str) -> Document:
    return pod("job-1", "data", node="a1", status={"phase": phase})


def down(name: str, key: str) -> Document:
    return {**node(name, "b"), "spec": {"taints": [{"key": key, "effect": "NoExecute"}]}}


def selecting(key: str, value: str) -> Document:
    return pod("db-0", "data", spec={"nodeSelector": {key: value}})


DUMPS = {
    # A class that is only a name.
    "its volumes are all taken": Dump(
        "StaticOnlyNoMatch",
        [
            claim(storage_class="manual"),
            volume("pv-1", "manual", claim="other"),
            claim("other", "manual", volume="pv-1"),
            *NODES,
        ],
        "there is no StorageClass of that name",
        "kubectl -n web delete pvc",
    ),
    "its volumes are too small": Dump(
        "StaticOnlyNoMatch",
        [pod("db-0", "data"), claim(storage_class="manual"), volume("pv-1", "manual", size="5Gi"), GP3, *NODES],
        "1 TooSmall",
    ),
    "its volume still holds the data of a deleted claim": Dump(
        "PVStillClaimed",
        [
            claim(storage_class="manual"),
            volume(
                "pv-1",
                "manual",
                claim="old",
                phase="Released",
                spec={"persistentVolumeReclaimPolicy": "Retain"},
            ),
            *NODES,
        ],
        "patch pv pv-1",
    ),
    "it was deleted, and its provisioner has left a volume": Dump(
        "StorageClassNotFound",
        [
            claim(storage_class="gp2"),
            volume("pv-1", "gp2", claim="old", phase="Released", metadata={"annotations": {PROVISIONED_BY: EBS}}),
            GP3,
            *NODES,
        ],
        'Did you mean "gp3"',
    ),
    "it is misspelt, and the right one has no object either": Dump(
        "StorageClassNotFound",
        [claim(storage_class="manaul"), volume("pv-1", "manual"), *NODES],
        'Did you mean "manual"',
    ),
    "a volume fits but for its class": Dump(
        "StaticOnlyNoMatch",
        [claim(), volume(storage_class=""), storage_class(mode="Immediate"), *NODES],
        "pv/pv-1 (StorageClassMismatch)",
    ),
    "a volume fits, and the controller manager has stopped": Dump(
        "PreboundIncomplete",
        [claim(storage_class="manual"), volume("pv-1", "manual"), *NODES, lease("kube-controller-manager", HOUR)],
        "its Lease was last renewed",
    ),
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
    # Drivers that are not called by CSI, or report without a gRPC code.
    "the secret of the class is missing": Dump(
        "BackendError",
        [
            claim(storage_class="rook-ceph-block"),
            at_once("rook-ceph-block", RBD),
            driver(RBD),
            csi_node(NAMES[0], RBD),
            *NODES,
            of_claim("ProvisioningFailed", 'error getting secret csi in namespace rook-ceph: "csi" not found', RBD),
        ],
        "error getting secret",
    ),
    "the PV controller has reported a class that is there by now": Dump(
        "Progressing",
        [
            claim(storage_class="gp3", metadata={"creationTimestamp": at(timedelta(seconds=20))}),
            at_once("gp3", EBS),
            *WITH_EBS,
            of_claim("ProvisioningFailed", '"gp3" not found', "persistentvolume-controller"),
        ],
    ),
    "a snapshot of another driver": Dump(
        "DataSourceNotReady",
        [
            claim(storage_class="gp3"),
            at_once("gp3", EBS),
            *WITH_EBS,
            of_claim(
                "ProvisioningFailed", "error getting handle for DataSource Type VolumeSnapshot by Name s: rpc", EBS
            ),
        ],
    ),
    "Longhorn is not installed": Dump(
        "ProvisionerMissing",
        [
            claim(storage_class="longhorn"),
            at_once("longhorn", "driver.longhorn.io"),
            *NODES,
            csi_node(NAMES[0]),
            NOTHING_ELSE,
        ],
        "grep -i longhorn",
    ),
    "a provisioner without CSI holds its Lease": Dump(
        "Progressing",
        [
            claim(storage_class="local-path"),
            at_once("local-path", "rancher.io/local-path"),
            *NODES,
            csi_node(NAMES[0]),
            lease("rancher.io-local-path", timedelta(seconds=2)),
            NOTHING_ELSE,
        ],
    ),
    # Static volumes.
    "the claim for a volume without a class got the default class": Dump(
        "RequestedPVMismatch",
        [
            claim(storage_class="gp3", spec={"volumeName": "pv-1"}),
            volume(storage_class=""),
            default_class("gp3", provisioner=EBS),
            *NODES,
        ],
        'with storageClassName: ""',
    ),
    "1G is less than 1Gi": Dump(
        "StaticOnlyNoMatch",
        [claim(size="1Gi"), volume(size="1G"), storage_class(mode="Immediate"), *NODES],
        "1 TooSmall",
    ),
    "a raw block volume is wanted": Dump(
        "StaticOnlyNoMatch",
        [claim(spec={"volumeMode": "Block"}), volume(), storage_class(mode="Immediate"), *NODES],
        "VolumeModeMismatch",
    ),
    "a VolumeAttributesClass is wanted": Dump(
        "StaticOnlyNoMatch",
        [claim(spec={"volumeAttributesClassName": "gold"}), volume(), storage_class(mode="Immediate"), *NODES],
        "VolumeAttributesClassMismatch",
    ),
    "local disks are taken, or too small": Dump(
        "StaticOnlyNoMatch",
        [
            pod("db-0", "data"),
            claim(storage_class="local-storage"),
            local("pv-a", NAMES[0], claim="other"),
            local("pv-b", NAMES[1], size="5Gi"),
            storage_class("local-storage"),
            *NODES,
        ],
        "1 ClaimedByOther, 1 TooSmall",
    ),
    "the node of a local disk was deleted": Dump(
        "TopologyConflict",
        [
            pod("db-0", "data"),
            claim(storage_class="local-storage", volume="pv-a"),
            local("pv-a", "gone", claim="data"),
            storage_class("local-storage"),
            *NODES,
        ],
        "its data is on that node only",
    ),
    "the claim was created again, and its volume keeps the old data": Dump(
        "PVStillClaimed",
        [
            pod("db-0", "data"),
            claim(),
            volume(claim="data", claim_uid="old", phase="Released"),
            storage_class(),
            *NODES,
        ],
        "an earlier claim of the same name",
    ),
    # The life of a claim.
    "a manifest of a bound claim was applied without its volume": Dump(
        "ClaimLost",
        [claim(metadata={"annotations": {BIND_COMPLETED: "yes"}}, status={"phase": "Lost"}), storage_class(), *NODES],
        f"annotate pvc data {BIND_COMPLETED}-",
        "bound to volume ,",
    ),
    "a pod that has completed protects a claim that is being deleted": Dump(
        "ClaimTerminating",
        [
            pod("db-0", "data"),
            claim(
                volume="pv-1", metadata={"deletionTimestamp": at(HOUR), "finalizers": ["kubernetes.io/pvc-protection"]}
            ),
            volume(claim="data"),
            storage_class(),
            ended("Succeeded"),
            node("a1"),
            SCHEDULED,
        ],
        "delete pod job-1",
    ),
    "the pod was on its node before the claim": Dump(
        "PodBypassesScheduler",
        [
            placed("db-0", "data"),
            claim(metadata={"creationTimestamp": at(timedelta(minutes=2))}),
            storage_class(),
            volume(),
            node("a1"),
            SCHEDULED,
        ],
        "before the claim existed",
        "instead of nodeName",
    ),
    "a quota on the number of claims, which is not in the dump": Dump(
        "QuotaExceeded",
        [
            refused(
                OF_SET.format(
                    'persistentvolumeclaims "data-db-0" is forbidden: exceeded quota: small, requested: '
                    "persistentvolumeclaims=1, used: persistentvolumeclaims=5, limited: persistentvolumeclaims=5"
                )
            ),
            *NODES,
        ],
        'forbids claim "data-db-0": requested: persistentvolumeclaims=1',
    ),
    "the namespace is being deleted": Dump(
        "ClaimNotFound",
        [
            refused(
                OF_SET.format(
                    'persistentvolumeclaims "data-db-0" is forbidden: unable to create new content in namespace web '
                    "because it is being terminated"
                )
            ),
            *NODES,
        ],
        "being terminated",
    ),
    "two default classes, and no driver of either": Dump(
        "ProvisionerMissing",
        [
            pod("db-0", "data"),
            claim(storage_class=None),
            default_class("gp2", provisioner=EBS),
            default_class("gp3", provisioner=EBS),
            *NODES,
            csi_node(NAMES[0]),
        ],
        EBS,
    ),
    # On a node.
    "the pod's node is not ready": Dump(
        "NoNodeFits",
        [
            *ON_A1[:4],
            {**node("a1"), "spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}},
        ],
        "assigned to node a1, which is not ready",
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
        "AttachConflict", [*ON_A1, attachment("gone")], "kubectl describe volumeattachment csi-gone", "get pods -A"
    ),
    "the node that has the volume is switched off": Dump(
        "AttachConflict",
        [*ON_A1, down("b1", "node.kubernetes.io/unreachable"), attachment("b1")],
        "out-of-service",
    ),
    "the node that has the volume waits for its CSI driver, and is up": Dump(
        "AttachConflict",
        [*ON_A1, down("b1", f"{EBS}/agent-not-ready"), attachment("b1")],
        "six minutes",
        "out-of-service",
    ),
}


@pytest.mark.parametrize("dump", DUMPS.values(), ids=DUMPS)
def test_the_answer(dump: Dump, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(dump, tmp_path, capsys)


VOLUMES = {
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
