"""Dumps of states that are rare, and of several causes at once."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.why.documents import (
    DRIVER,
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
from tests.why.dumps.clusters import ON_A1, down, local
from tests.why.dumps.dump import LATER, Dump, check, placed, room_in

NEW: Document = {"metadata": {"creationTimestamp": at(timedelta(seconds=20))}}
WITH_DEFAULT = [default_class("std", provisioner=DRIVER), driver(), csi_node("a1", DRIVER), node("a1"), SCHEDULED]
STOPPED = lease("kube-controller-manager", timedelta(hours=1))
UNREACHABLE = "node.kubernetes.io/unreachable"
DEBUGGED = [
    pod("debug", "data", node="a1", status={"phase": "Pending"}),
    pod("web-0", "data", cpu="64"),
    node("a1"),
    driver(),
    csi_node("a1", DRIVER),
    SCHEDULED,
]
ALONE: Document = {"accessModes": ["ReadWriteOncePod"]}
FOR_ONE_POD = [claim(volume="pv-1", spec=ALONE), volume(claim="data", spec=ALONE), storage_class(), SCHEDULED]
NO_PATH = 'MountVolume.NewMounter initialization failed for volume "disk" : path "/mnt/disk" does not exist'
KEPT = [
    volume(f"kept-{name}", claim=name, claim_uid="of an earlier claim", phase="Released") for name in ("data", "wal")
]
LOCAL = storage_class()

GIVEN = (
    """kubectl patch pv kept-wal --type=json -p '[{{"op":"test","path":"/spec/claimRef/uid","""
    """"value":"of an earlier claim"}},{{"op":"replace","path":"/spec/claimRef","""
    """"value":{{"apiVersion":"v1","kind":"PersistentVolumeClaim","namespace":"web","name":"{}"}}}}]'"""
)

DUMPS = {
    "the default class came later, and the controller manager has stopped": Dump(
        "NoStorageClass",
        [claim(storage_class=None), pod("db-0", "data"), *WITH_DEFAULT, STOPPED],
        "its Lease was last renewed",
        "no class is marked",
    ),
    "the default class is not given to the claim, and who knows why": Dump(
        "NoStorageClass",
        [claim(storage_class=None), pod("db-0", "data"), *WITH_DEFAULT],
        """patch pvc data --type merge -p '{"spec":{"storageClassName":"std"}}'""",
    ),
    "the claim is new, and gets the default class in a moment": Dump(
        "Progressing",
        [claim(storage_class=None, **NEW), pod("db-0", "data", **NEW), *WITH_DEFAULT],
        lacks="NoStorageClass",
    ),
    "a volume without a class fits a claim without one, whatever the default is": Dump(
        "Inconclusive",
        [claim(storage_class=None), volume(storage_class=""), pod("db-0", "data"), *WITH_DEFAULT],
        lacks="NoStorageClass",
    ),
    "a class that came later is not given to a claim that opted out": Dump(
        "NoStorageClass",
        [claim(storage_class=""), pod("db-0", "data"), volume("pv-9", "other"), *WITH_DEFAULT],
        "a default is not given to it",
    ),
    # Several pods.
    "one pod names its node, and a scheduler looks for one for the other": Dump(
        "NoNodeFits",
        [claim(), LATER, *DEBUGGED],
        "Insufficient cpu",
        "PodBypassesScheduler",
        target="pod/web-0",
    ),
    "the claim of both waits for the scheduler": Dump(
        "NoNodeFits", [claim(), LATER, *DEBUGGED], "Insufficient cpu", "PodBypassesScheduler", target="pvc/data"
    ),
    "and the pod that names its node has bypassed it": Dump(
        "PodBypassesScheduler", [claim(), LATER, *DEBUGGED], "delete pod debug", target="pod/debug"
    ),
    "the only pod that may use a claim is on a node that does not respond": Dump(
        "ReadWriteOncePodInUse",
        [pod("new", "data"), pod("old", "data", node="a1"), *FOR_ONE_POD, down("a1", UNREACHABLE), node("b1")],
        "Pod old is on node a1, which does not respond",
        "delete pod old",
    ),
    # Several claims.
    "of three claims one is missing, and another has a class that does not exist": Dump(
        "ClaimNotFound",
        [
            pod("db-0", "data", "logs", "wal"),
            claim("wal", "nope"),
            claim("logs"),
            volume(),
            LOCAL,
            node("a1"),
            SCHEDULED,
        ],
        'StorageClassNotFound, too: StorageClass "nope" does not exist.',
    ),
    "two claims are missing": Dump(
        "ClaimNotFound",
        [pod("db-0", "data", "logs"), claim("wal"), LOCAL, node("a1"), SCHEDULED],
        "claim logs",
    ),
    # Volumes of deleted claims.
    "each claim of a StatefulSet was created again, and its volume kept its data": Dump(
        "PVStillClaimed",
        [pod("db-0", "wal"), claim("data"), claim("wal"), *KEPT, LOCAL, node("a1"), SCHEDULED],
        GIVEN.format("wal"),
        "kept-data",
    ),
    "a claim was created again, and its volume was not released": Dump(
        "PVStillClaimed",
        [
            pod("db-0", "data"),
            claim(),
            volume(claim="data", claim_uid="of an earlier claim"),
            LOCAL,
            node("a1"),
            SCHEDULED,
        ],
        "is Bound: it holds the data of an earlier claim of the same name",
    ),
    "only volumes of other claims are left": Dump(
        "PVStillClaimed",
        [pod("db-0", "new"), claim("new"), claim("data"), *KEPT, LOCAL, node("a1"), SCHEDULED],
        GIVEN.format("new"),
        "kept-data",
    ),
    # A volume here, room for another one there.
    "one claim is bound in a zone where the driver has no room for the other": Dump(
        "TopologyConflict",
        [
            pod("db-0", "data", "wal"),
            claim(volume="pv-1"),
            volume(claim="data", zone="b"),
            claim("wal"),
            LATER,
            driver(storageCapacity=True),
            csi_node("a1", DRIVER),
            csi_node("b1", DRIVER),
            room_in("a"),
            node("a1", "a"),
            node("b1", "b"),
            SCHEDULED,
        ],
        "add capacity for claim wal that node b1 can access",
        "add a volume",
    ),
    # Local disks.
    "the node of a local disk was replaced under its name": Dump(
        "MountFailed",
        [
            placed("db-0", "data"),
            claim(storage_class="local-storage", volume="disk"),
            local("disk", "a1", claim="data"),
            node("a1"),
            SCHEDULED,
            event("Pod", "db-0", "FailedMount", NO_PATH, reporter="kubelet"),
        ],
        "its path /mnt/disk does not exist on node a1",
    ),
    "a host path that does not exist is no local disk": Dump(
        "MountFailed",
        [*ON_A1, event("Pod", "db-0", "FailedMount", NO_PATH, reporter="kubelet")],
        "kubectl -n web get pod db-0 -o yaml",
        "is a local disk",
    ),
}


@pytest.mark.parametrize("dump", DUMPS.values(), ids=DUMPS)
def test_the_answer(dump: Dump, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(dump, tmp_path, capsys)
