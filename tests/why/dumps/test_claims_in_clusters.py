"""Dumps of clusters as people run them: which answer an experienced person gives about a claim."""

from datetime import timedelta
from pathlib import Path

import pytest

from kube.objects.model import BIND_COMPLETED, PROVISIONED_BY
from tests.why.documents import (
    SCHEDULED,
    Document,
    at,
    claim,
    csi_node,
    default_class,
    driver,
    lease,
    node,
    pod,
    storage_class,
    volume,
)
from tests.why.dumps.clusters import (
    EBS,
    GP3,
    HOUR,
    NAMES,
    NODES,
    NOTHING_ELSE,
    RBD,
    WITH_EBS,
    at_once,
    ended,
    local,
    of_claim,
)
from tests.why.dumps.dump import (
    OF_SET,
    Dump,
    check,
    placed,
    rejected,
)


def without_class(name: str) -> Document:
    """What the PV controller reports about a claim with a class that has no object."""
    text = f'storageclass.storage.k8s.io "{name}" not found'
    return of_claim("ProvisioningFailed", text, "persistentvolume-controller")


DUMPS = {
    # A class that is only a name.
    "its volumes are all taken": Dump(
        "StaticOnlyNoMatch",
        [
            claim(storage_class="manual"),
            volume("pv-1", "manual", claim="other"),
            claim("other", "manual", volume="pv-1"),
            without_class("manual"),
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
            without_class("manual"),
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
        [
            claim(storage_class="manaul"),
            volume("pv-1", "manual"),
            *NODES,
            without_class("manaul"),
        ],
        'Did you mean "manual"',
    ),
    "a volume fits but for its class": Dump(
        "StaticOnlyNoMatch",
        [claim(), volume(storage_class=""), storage_class(mode="Immediate"), *NODES],
        "pv/pv-1 (StorageClassMismatch)",
    ),
    "a volume fits, and the controller manager has stopped": Dump(
        "PreboundIncomplete",
        [
            claim(storage_class="manual"),
            volume("pv-1", "manual"),
            without_class("manual"),
            *NODES,
            lease("kube-controller-manager", HOUR),
        ],
        "its Lease was last renewed",
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
    "a provisioner without CSI holds its Lease no longer": Dump(
        "ProvisionerMissing",
        [
            claim(storage_class="nfs-client"),
            at_once("nfs-client", "cluster.local/nfs-subdir-external-provisioner"),
            *NODES,
            csi_node(NAMES[0]),
            lease("cluster.local-nfs-subdir-external-provisioner", HOUR),
            NOTHING_ELSE,
        ],
        "its Lease was last renewed",
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
    "it requests a Released volume of another class": Dump(
        "RequestedPVMismatch",
        [
            claim(storage_class="slow", spec={"volumeName": "pv-1"}),
            volume(claim="data", claim_uid="old", phase="Released"),
            storage_class("slow"),
            *NODES,
        ],
        "wanted slow, found fast",
        "claimRef",
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
    "a pod that has completed protects a claim that is being deleted, and its volume goes with it": Dump(
        "ClaimTerminating",
        [
            pod("db-0", "data"),
            claim(
                volume="pv-1", metadata={"deletionTimestamp": at(HOUR), "finalizers": ["kubernetes.io/pvc-protection"]}
            ),
            volume(claim="data", spec={"persistentVolumeReclaimPolicy": "Delete"}),
            storage_class(),
            ended("Succeeded"),
            node("a1"),
            SCHEDULED,
        ],
        "get pod job-1",
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
            rejected(
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
            rejected(
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
}


@pytest.mark.parametrize("dump", DUMPS.values(), ids=DUMPS)
def test_the_answer(dump: Dump, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(dump, tmp_path, capsys)
