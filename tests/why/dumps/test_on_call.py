"""Dumps from which an on-call engineer reads another cause than the first one that comes to mind."""

from datetime import timedelta
from pathlib import Path

import pytest

from kube.objects.model import SELECTED_NODE
from tests.builders import ZONE
from tests.why.documents import (
    DRIVER,
    INSTALLED,
    SCHEDULED,
    Document,
    at,
    claim,
    csi_node,
    driver,
    event,
    metadata,
    node,
    pod,
    storage_class,
    volume,
)
from tests.why.dumps.clusters import HOUR, NODES, NOTHING_ELSE, ON_A1, at_once, local, of_claim
from tests.why.dumps.dump import (
    LATER,
    NOW_MADE,
    OF_SET,
    OTHER_DRIVER,
    Dump,
    attachment,
    check,
    rejected,
    tainted,
)

NO_DRIVER = f"MountDevice failed: driver name {DRIVER} not found in the list of registered CSI drivers"
FULL = "rpc error: code = ResourceExhausted desc = no space left in the pool"
DISK: Document = {"volumes": [{"name": "d", "gcePersistentDisk": {"pdName": "d"}}]}
GOLD = "gold.storageclass.storage.k8s.io/requests.storage"
FORBIDDEN = 'persistentvolumeclaims "data-db-0" is forbidden: '
OVER_GOLD = f"exceeded quota: gold, requested: {GOLD}=10Gi, used: {GOLD}=95Gi, limited: {GOLD}=100Gi"


def of_kubelet(reason: str, note: str) -> Document:
    return event("Pod", "db-0", reason, note, reporter="kubelet")


def ending(finalizer: str) -> Document:
    """A claim without a volume that is being deleted, and has this finalizer."""
    return claim(metadata={"deletionTimestamp": at(HOUR), "finalizers": [finalizer]})


def copied_from(kind: str, name: str, group: str = "") -> Document:
    return claim(spec={"dataSourceRef": {"apiGroup": group, "kind": kind, "name": name}})


def quota(**amounts: str) -> Document:
    """A quota on two resources, of which `amounts` are used."""
    hard = {GOLD: "100Gi", "requests.storage": "1Ti"}
    used = {GOLD: "95Gi", "requests.storage": "96Gi"}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata("gold"),
        "status": {"hard": hard, "used": {**used, **amounts}},
    }


def not_attached(message: str) -> Document:
    return {**attachment("a1"), "status": {"attached": False, "attachError": {"message": message}}}


DUMPS = {
    # On a node.
    "a raw block volume cannot be mapped": Dump(
        "MountFailed",
        [*ON_A1, of_kubelet("FailedMapVolume", 'MapVolume.SetUpDevice failed for volume "pv-1" : no such device')],
        "no such device",
    ),
    "the node has no CSINode, and its kubelet no driver": Dump(
        "DriverNotOnNode", [*ON_A1, of_kubelet("FailedMount", NO_DRIVER)], "run on node a1"
    ),
    "the attacher misses the driver on the node, and Events have expired": Dump(
        "DriverNotOnNode",
        [*ON_A1, not_attached(f"CSINode a1 does not contain driver {DRIVER}"), NOTHING_ELSE],
        "grep -i example",
    ),
    "a Secret is missing, and no volume is to blame": Dump(
        "MountFailed",
        [*ON_A1, of_kubelet("FailedMount", 'MountVolume.SetUp failed for volume "certs" : secret "tls" not found')],
        'mounts Secret "tls", which does not exist',
        "cannot be mounted",
    ),
    "the driver's socket on the node is dead": Dump(
        "MountFailed",
        [
            *ON_A1,
            of_kubelet(
                "FailedMount",
                'MountDevice failed for volume "pv-1" : rpc error: code = Unavailable desc = connection error: '
                'desc = "transport: Error while dialing: dial unix /csi/csi.sock: connect: connection refused"',
            ),
        ],
        f"let the node plugin of {DRIVER} run on node a1",
    ),
    # A claim that is being deleted.
    "a snapshot of it is not done": Dump(
        "ClaimTerminating",
        [ending("snapshot.storage.kubernetes.io/pvc-as-source-protection"), *NODES],
        "kubectl -n web get volumesnapshot",
    ),
    "it is being copied": Dump(
        "ClaimTerminating",
        [ending("provisioner.storage.kubernetes.io/cloning-protection"), *NODES],
        "another claim is being filled from it",
    ),
    "nothing uses it, and its protection is not lifted": Dump(
        "ClaimTerminating",
        [ending("kubernetes.io/pvc-protection"), pod("db-0", "data"), *NODES],
        "kubectl -n kube-system get lease kube-controller-manager",
        target="pvc/data",
    ),
    "another component's finalizer is left": Dump(
        "ClaimTerminating",
        [ending("backup.example/done"), *NODES],
        "removing one by hand may leak or lose the volume",
    ),
    # What the provisioner reported a while ago.
    "the pool was full for the node chosen then, and now no node has room for the pod": Dump(
        "NoNodeFits",
        [
            pod("db-0", "data", cpu="99"),
            claim(metadata={"creationTimestamp": at(2 * HOUR)}),
            LATER,
            *NODES,
            *INSTALLED,
            event("PersistentVolumeClaim", "data", "ProvisioningFailed", FULL, reporter=f"{DRIVER}_x", ago=HOUR),
            NOTHING_ELSE,
        ],
        "Insufficient cpu",
    ),
    "the pool is full for each node that is chosen": Dump(
        "InsufficientCapacity",
        [
            pod("db-0", "data"),
            claim(),
            LATER,
            *NODES,
            *INSTALLED,
            of_claim("ProvisioningFailed", FULL, f"{DRIVER}_x"),
            NOTHING_ELSE,
        ],
        "no space left in the pool",
    ),
    "the pool was full for a claim that no node is chosen for": Dump(
        "InsufficientCapacity",
        [
            claim(),
            NOW_MADE,
            *NODES,
            *INSTALLED,
            event("PersistentVolumeClaim", "data", "ProvisioningFailed", FULL, reporter=f"{DRIVER}_x", ago=HOUR),
            NOTHING_ELSE,
        ],
        "no space left in the pool",
    ),
    "the chosen node has no topology": Dump(
        "DriverNotOnNode",
        [
            pod("db-0", "data"),
            claim(metadata={"annotations": {SELECTED_NODE: "ip-10-0-1-7"}}),
            LATER,
            *NODES,
            driver(),
            of_claim("ProvisioningFailed", "no topology key found for node ip-10-0-1-7", f"{DRIVER}_x"),
        ],
        "it reports the node's topology",
    ),
    # Classes and sources.
    "an in-tree plugin that Kubernetes has dropped": Dump(
        "ProvisionerMissing",
        [
            pod("db-0", "data"),
            claim(storage_class="old"),
            at_once("old", "kubernetes.io/glusterfs"),
            *NODES,
            *OTHER_DRIVER,
        ],
        "not a part of Kubernetes any more",
        "install or restart",
    ),
    "the snapshot to restore does not exist": Dump(
        "DataSourceNotReady",
        [
            copied_from("VolumeSnapshot", "monday", "snapshot.storage.k8s.io"),
            NOW_MADE,
            *NODES,
            *INSTALLED,
            {
                "apiVersion": "snapshot.storage.k8s.io/v1",
                "kind": "VolumeSnapshot",
                "metadata": metadata("tuesday"),
                "status": {"readyToUse": True},
            },
        ],
        "create monday, or delete this claim",
        "describe volumesnapshot",
    ),
    "the claim to copy is larger": Dump(
        "DataSourceNotReady",
        [
            copied_from("PersistentVolumeClaim", "original"),
            claim("original", size="20Gi", volume="pv-2"),
            volume("pv-2", claim="original", size="20Gi"),
            NOW_MADE,
            *NODES,
            *INSTALLED,
        ],
        "create it with at least that size",
    ),
    # Claims that were not created.
    "a quota of one class": Dump(
        "QuotaExceeded",
        [rejected(OF_SET.format(FORBIDDEN + OVER_GOLD)), quota(), *NODES],
        f'forbids claim "data-db-0": 95Gi of 100Gi {GOLD} used.',
    ),
    "a quota wants a size that the claim does not name": Dump(
        "QuotaExceeded",
        [
            rejected(OF_SET.format(f"{FORBIDDEN}failed quota: gold: must specify requests.storage")),
            quota(),
            *NODES,
        ],
        'forbids claim "data-db-0": must specify requests.storage.',
    ),
    "nothing is created in a namespace that is being deleted": Dump(
        "ClaimNotFound",
        [
            rejected(
                OF_SET.format(
                    f"{FORBIDDEN}unable to create new content in namespace web because it is being terminated"
                )
            ),
            *NODES,
        ],
        "namespace web is being deleted",
        "correct the claim's template",
    ),
    "the claim is in another namespace": Dump(
        "ClaimNotFound",
        [pod("db-0", "data"), {**claim(), "metadata": metadata("data", "production")}, *NODES],
        "Namespace production has one.",
    ),
    "the claim to copy waits for its first pod": Dump(
        "DataSourceNotReady",
        [
            copied_from("PersistentVolumeClaim", "original"),
            claim("original", storage_class="later"),
            storage_class("later", DRIVER),
            NOW_MADE,
            *NODES,
            *INSTALLED,
        ],
        "create a pod that uses original: its class binds on first use",
    ),
    # Nodes.
    "a node has room, and not yet the driver that has to be on it": Dump(
        "DriverNotOnNode",
        [
            pod("db-0", "data"),
            claim(volume="pv-1"),
            volume(claim="data", zone="a"),
            LATER,
            node("a1", "a"),
            node("b1", "b"),
            SCHEDULED,
            driver(preventPodSchedulingIfMissing=True),
            csi_node("a1"),
            csi_node("b1", DRIVER),
        ],
        "is not registered on node a1, which could run the pod",
        "make room",
    ),
    "the local volume that would fit is on a node that is gone": Dump(
        "TopologyConflict",
        [
            pod("db-0", "data"),
            claim(storage_class="local-storage"),
            local("pv-1", "gone"),
            storage_class("local-storage"),
            *NODES,
        ],
        "node gone",
    ),
    "another pod has the disk": Dump(
        "NoNodeFits",
        [pod("db-0", spec=DISK), pod("other", node="a1", spec=DISK), node("a1"), SCHEDULED],
        "another pod uses the same disk there",
        "make room",
    ),
    "only the control plane has room": Dump(
        "NoNodeFits",
        [pod("db-0"), tainted("a1", "node-role.kubernetes.io/control-plane"), SCHEDULED],
        "it is kept for pods of the control plane",
        "goes with its cause",
    ),
    "a volume without node affinity and with a label of another zone": Dump(
        "TopologyConflict",
        [
            pod("db-0", "data"),
            claim(volume="pv-1"),
            volume(claim="data", metadata={"labels": {ZONE: "elsewhere"}}),
            storage_class(),
            *NODES,
        ],
        "pv/pv-1 metadata.labels",
        "nodeAffinity",
    ),
    "a pod should have been gone, and is not pending": Dump(
        "PodTerminating",
        [pod("db-0", node="a1", metadata={"deletionTimestamp": at(HOUR)}), node("a1"), SCHEDULED],
        "its containers have not ended",
    ),
    "a pod is gone in a moment": Dump(
        "Scheduled",
        [pod("db-0", node="a1", metadata={"deletionTimestamp": at(timedelta(seconds=-20))}), node("a1"), SCHEDULED],
        "Terminating",
        target="pod/db-0",
    ),
}


@pytest.mark.parametrize("dump", DUMPS.values(), ids=DUMPS)
def test_the_answer(dump: Dump, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(dump, tmp_path, capsys)
