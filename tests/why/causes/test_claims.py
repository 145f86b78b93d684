"""Each cause in a claim, its class or the volumes that are there: alone, and hidden under another."""

from datetime import timedelta
from typing import Any

import pytest

from binder.matching.rejection import Reason
from kube.objects.model import SELECTED_NODE
from tests.builders import ZONE
from tests.why.documents import (
    DRIVER,
    DYNAMIC,
    INSTALLED,
    Document,
    assert_problem,
    at,
    claim,
    csi_node,
    default_class,
    driver,
    event,
    lease,
    metadata,
    node,
    pod,
    storage_class,
    volume,
    why,
)
from why.facts.facts import Source

IMMEDIATE = storage_class(mode="Immediate")
SELECTOR = {"selector": {"matchLabels": {"tier": "gold"}}}


def requesting(name: str, **how: Any) -> Document:
    """A claim that asks for a volume by name and is not bound to it."""
    return claim(spec={"volumeName": name, **how.pop("spec", {})}, **how)


PREFIX = "scheduler.cloud.example/"
NOTHING, HOUR = timedelta(), timedelta(hours=1)
NEW = {"creationTimestamp": at(NOTHING)}
SELECTED = {"annotations": {SELECTED_NODE: "gone"}}
FROM_SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "before"}
IN_ZONE_C = [{"matchLabelExpressions": [{"key": ZONE, "values": ["c"]}]}]


def snapshot(name: str, size: str = "10Gi", *, ready: bool = True) -> Document:
    return {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": metadata(name),
        "status": {"readyToUse": ready, "restoreSize": size},
    }


def capacity(free: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": metadata("room", "storage"),
        "storageClassName": "fast",
        "nodeTopology": {},
        "capacity": free,
    }


def failed(note: str) -> Document:
    return event("PersistentVolumeClaim", "data", "ProvisioningFailed", note, reporter=f"{DRIVER}_controller-0")


CASES = [
    pytest.param(Reason.CLAIM_LOST, [claim(volume="gone", status={"phase": "Lost"})], id="lost"),
    pytest.param(Reason.NO_STORAGE_CLASS, [claim(storage_class=None)], id="no class, no default"),
    pytest.param(Reason.NO_STORAGE_CLASS, [claim(storage_class=""), default_class("slow")], id="opted out of classes"),
    pytest.param(Reason.CLASS_NOT_FOUND, [claim(storage_class="fsat"), storage_class()], id="class not found"),
    pytest.param(Reason.REQUESTED_VOLUME_MISSING, [requesting("pv-9"), storage_class()], id="requested: missing"),
    pytest.param(
        Reason.REQUESTED_VOLUME_MISMATCH, [requesting("pv-1", size="20Gi"), volume(), IMMEDIATE], id="requested: small"
    ),
    pytest.param(
        Reason.VOLUME_STILL_CLAIMED,
        [requesting("pv-1"), volume(claim="data", claim_uid="old", phase="Released"), IMMEDIATE],
        id="requested: released",
    ),
    pytest.param(Reason.PREBOUND_INCOMPLETE, [requesting("pv-1"), volume(), IMMEDIATE], id="requested: on its way"),
    pytest.param(
        Reason.SELECTOR_ON_DYNAMIC_CLASS, [claim(spec=SELECTOR), DYNAMIC, driver()], id="selector on a dynamic class"
    ),
    pytest.param(Reason.NO_VOLUME_FITS, [claim(), volume(size="5Gi"), IMMEDIATE], id="no volume fits"),
    pytest.param(Reason.PROVISIONER_MISSING, [claim(), DYNAMIC, driver("other.csi.example")], id="no such driver"),
    pytest.param(
        Reason.POD_BYPASSES_SCHEDULER,
        [claim(), storage_class(), pod("db-0", "data", spec={"nodeName": "n1"}), node("n1")],
        id="nodeName",
    ),
    pytest.param(
        Reason.CLAIM_DELETING,
        [
            claim(
                metadata={"deletionTimestamp": at(timedelta(hours=1)), "finalizers": ["kubernetes.io/pvc-protection"]}
            ),
            storage_class(),
            pod("old", "data", node="n1"),
        ],
        id="being deleted",
    ),
    pytest.param(
        Reason.VOLUME_STILL_CLAIMED,
        [claim(), volume(claim="old", phase="Released"), IMMEDIATE],
        id="only a Released one",
    ),
    pytest.param(
        Reason.QUARANTINED,
        [
            claim(),
            volume(
                claim="quarantine-pv-1",
                claim_uid="",
                phase="Available",
                metadata={
                    "annotations": {f"{PREFIX}quarantine": "Inaccessible", f"{PREFIX}quarantined-at": at(NOTHING)}
                },
            ),
            IMMEDIATE,
        ],
        id="only one in quarantine",
    ),
    pytest.param(
        Reason.AMBIGUOUS_DEFAULT_CLASS,
        [
            claim(storage_class=None),
            default_class("one", mode="Immediate"),
            default_class("two", mode="Immediate"),
            volume(storage_class="one"),
            volume("pv-2", storage_class="two"),
        ],
        id="two default classes",
    ),
    pytest.param(
        Reason.DATA_SOURCE_NOT_READY,
        [claim(spec={"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "orig"}}), DYNAMIC, *INSTALLED],
        id="its source does not exist",
    ),
    pytest.param(
        Reason.DATA_SOURCE_NOT_READY,
        [claim(spec={"dataSourceRef": FROM_SNAPSHOT}), DYNAMIC, *INSTALLED, snapshot("before", ready=False)],
        id="its snapshot is not ready",
    ),
    pytest.param(
        Reason.DATA_SOURCE_NOT_READY,
        [claim(spec={"dataSourceRef": FROM_SNAPSHOT}), DYNAMIC, *INSTALLED, snapshot("before", size="20Gi")],
        id="its snapshot is larger",
    ),
    pytest.param(
        Reason.POPULATOR_PENDING,
        [
            claim(spec={"dataSourceRef": {"apiGroup": "example.com", "kind": "Dataset", "name": "big"}}),
            DYNAMIC,
            *INSTALLED,
        ],
        id="its populator has not run",
    ),
    pytest.param(
        Reason.SELECTED_NODE_STALE,
        [claim(metadata=SELECTED), storage_class(provisioner=DRIVER), *INSTALLED, pod("db-0", "data")],
        id="the node chosen for it is gone",
    ),
    pytest.param(
        Reason.DRIVER_NOT_ON_NODE,
        [
            claim(metadata=SELECTED),
            storage_class(provisioner=DRIVER),
            *INSTALLED,
            node("gone"),
            csi_node("gone"),
            pod("db-0", "data"),
        ],
        id="the driver is not on the chosen node",
    ),
    pytest.param(Reason.DRIVER_NOT_ON_NODE, [claim(), DYNAMIC, driver(), node("n1")], id="the driver is on no node"),
    pytest.param(
        Reason.TOPOLOGY_NOT_ALLOWED,
        [claim(), {**DYNAMIC, "allowedTopologies": IN_ZONE_C}, *INSTALLED, node("n1", "a")],
        id="no node where its class makes volumes",
    ),
    pytest.param(
        Reason.INSUFFICIENT_STORAGE,
        [claim(), DYNAMIC, driver(storageCapacity=True), csi_node("n1", DRIVER), capacity("5Gi")],
        id="no room anywhere",
    ),
    pytest.param(
        Reason.PROVISIONER_MISSING,
        [claim(), DYNAMIC, *INSTALLED, lease("disk-csi-example", timedelta(hours=3), "storage")],
        id="its provisioner's Lease has lapsed",
    ),
    pytest.param(
        Reason.PROVISIONER_MISSING,
        [
            claim(),
            DYNAMIC,
            *INSTALLED,
            event("PersistentVolumeClaim", "data", "ExternalProvisioning", "Waiting for it"),
        ],
        id="its provisioner never began",
    ),
    # One hidden under another.
    pytest.param(
        Reason.PROVISIONER_MISSING,
        [claim(spec={"dataSourceRef": FROM_SNAPSHOT}), DYNAMIC, snapshot("before", ready=False)],
        id="no driver, and a snapshot that is not ready",
    ),
    pytest.param(
        Reason.DATA_SOURCE_NOT_READY,
        [
            claim(spec={"dataSourceRef": FROM_SNAPSHOT}),
            DYNAMIC,
            *INSTALLED,
            snapshot("before", ready=False),
            failed("rpc error: code = Internal desc = x"),
        ],
        id="a snapshot that is not ready, which the driver reports as its own fault",
    ),
    pytest.param(
        Reason.CLASS_NOT_FOUND,
        [claim(storage_class="fsat", spec=SELECTOR), storage_class(), pod("db-0", "data")],
        id="no class, and a selector",
    ),
    pytest.param(
        Reason.SELECTOR_ON_DYNAMIC_CLASS, [claim(spec=SELECTOR), DYNAMIC], id="a selector, and no such driver either"
    ),
    pytest.param(
        Reason.PROVISIONER_MISSING,
        [claim(), storage_class(provisioner=DRIVER), pod("db-0", "data"), node("n1", cordoned=True)],
        id="no driver, and the pod's only node is cordoned",
    ),
]


@pytest.mark.parametrize(("code", "documents"), CASES)
def test_the_cause_of_a_pending_claim(code: Reason, documents: list[Document]) -> None:
    item = why("pvc/data", *documents)
    assert_problem(item, code)
    assert all(command.startswith("kubectl ") for command in item.next)
    assert len(item.advice) == len(item.next)
    assert item.causes[0].name == "web/data"


def test_the_commands_about_a_populator_work_without_its_definitions() -> None:
    source = {"apiGroup": "example.com", "kind": "Dataset", "name": "big"}
    item = why("pvc/data", claim(spec={"dataSourceRef": source}), DYNAMIC, *INSTALLED)
    assert item.next == ("kubectl api-resources --api-group=example.com", "kubectl -n web describe pvc data")
    assert "install its definition" in item.advice[0]


def test_a_claim_that_a_quota_forbids_is_explained_although_there_is_none() -> None:
    note = (
        "create Pod db-0 in StatefulSet db failed error: failed to create PVC data-db-0: persistentvolumeclaims "
        '"data-db-0" is forbidden: exceeded quota: storage, requested: requests.storage=10Gi, used: '
        "requests.storage=95Gi, limited: requests.storage=100Gi"
    )
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata("storage"),
        "status": {"hard": {"requests.storage": "100Gi"}, "used": {"requests.storage": "95Gi"}},
    }
    item = why(
        "pvc/data-db-0", quota, event("StatefulSet", "db", "FailedCreate", note, reporter="statefulset-controller")
    )
    assert (item.code, item.status) == (Reason.QUOTA_EXCEEDED, "Absent")
    assert "95Gi of 100Gi requests.storage used" in item.message
    assert item.evidence[0].object == "Event FailedCreate of statefulset-controller, 1m ago"


NORMAL = [
    pytest.param(Reason.WAIT_FOR_FIRST_CONSUMER, [claim(), storage_class(), volume()], id="not used"),
    pytest.param(
        Reason.WAIT_FOR_FIRST_CONSUMER,
        [claim(), storage_class(provisioner=DRIVER), driver()],
        id="not used, and its driver would provision a volume",
    ),
    pytest.param(Reason.BOUND, [claim(volume="pv-1"), volume(claim="data"), storage_class()], id="bound"),
    pytest.param(Reason.PROGRESSING, [claim(metadata=NEW), volume(), IMMEDIATE], id="a volume fits"),
    pytest.param(
        Reason.WAIT_FOR_POD_SCHEDULED,
        [claim(), volume(zone="a"), storage_class(), pod("db-0", "data", metadata=NEW), node("n1")],
        id="its pod is about to be scheduled",
    ),
]


@pytest.mark.parametrize(("code", "documents"), NORMAL)
def test_what_is_no_problem(code: Reason, documents: list[Document]) -> None:
    item = why("pvc/data", *documents)
    assert (item.code, item.problem) == (code, False), item


def test_what_takes_long_is_a_problem_although_nothing_explains_it() -> None:
    warning = event("PersistentVolumeClaim", "data", "Whatever", "Something happened", reporter="somebody")
    alive = lease("disk-csi-example", NOTHING, "storage")
    item = why("pvc/data", claim(), DYNAMIC, *INSTALLED, alive, warning)
    assert (item.code, item.problem) == (Reason.PROGRESSING, True)
    assert item.evidence[0].found == '"Something happened"'


def test_a_pod_waits_for_an_immediate_claim_that_is_being_bound() -> None:
    item = why("pod/db-0", pod("db-0", "data"), claim(metadata=NEW), volume(), IMMEDIATE)
    assert (item.code, item.problem) == (Reason.IMMEDIATE_CLAIM, False)


def test_a_volume_fits_and_the_pv_controller_does_not_bind_it() -> None:
    item = why("pod/db-0", pod("db-0", "data"), claim(), volume(), IMMEDIATE)
    assert (item.code, item.problem) == (Reason.PREBOUND_INCOMPLETE, True)


@pytest.mark.parametrize(
    "forbidden", [Source.CLASSES, Source.VOLUMES], ids=["storageclasses forbidden", "persistentvolumes forbidden"]
)
def test_without_a_right_nothing_is_guessed(forbidden: Source) -> None:
    item = why("pvc/data", claim(), volume(size="5Gi"), IMMEDIATE, without=[forbidden])
    assert (item.code, item.problem) == (Reason.INCONCLUSIVE, False)
    assert forbidden in item.message
    assert forbidden in {skipped.resource for skipped in item.skipped}


def test_a_class_that_is_not_readable_is_not_a_class_that_does_not_exist() -> None:
    assert why("pvc/data", claim(), without=[Source.CLASSES]).code is Reason.INCONCLUSIVE


def test_a_provisioner_that_reported_on_the_claim_is_there() -> None:
    reported = event(
        "PersistentVolumeClaim", "data", "Provisioning", "External provisioner is provisioning", reporter=DRIVER
    )
    assert why("pvc/data", claim(), DYNAMIC, csi_node("n1"), reported).code is not Reason.PROVISIONER_MISSING


def test_the_nearest_class_is_named() -> None:
    item = why("pvc/data", claim(storage_class="fsat"), storage_class())
    assert item.message == 'StorageClass "fsat" does not exist. Did you mean "fast"?'


def test_the_claim_of_another_namespace_is_named_only_with_the_right_to_read_it() -> None:
    held = volume(claim="theirs")
    held["spec"]["claimRef"]["namespace"] = "secret"
    item = why("pvc/data", requesting("pv-1"), held, IMMEDIATE)
    assert item.code is Reason.VOLUME_STILL_CLAIMED
    assert "theirs" not in str(item)


NOWHERE = {**DYNAMIC, "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["c"]}]}]}
CALLED = event(
    "PersistentVolumeClaim", "data", "ProvisioningFailed", "rpc error: code = Internal desc = full", reporter=DRIVER
)


@pytest.mark.parametrize("made", [DYNAMIC, NOWHERE, storage_class(provisioner=DRIVER)], ids=["", "topologies", "later"])
def test_in_a_cluster_without_a_node_that_is_the_cause(made: Document) -> None:
    documents = [pod("db-0", "data"), claim(), made, driver()]
    of_pod, of_claim = why("pod/db-0", *documents), why("pvc/data", *documents)
    assert_problem(of_pod, Reason.NO_NODE_FITS)
    assert (of_claim.code, of_claim.message) == (of_pod.code, of_pod.message)
    assert "has no node" in of_pod.message


def test_without_nodes_what_the_driver_answers_is_the_cause() -> None:
    assert_problem(why("pvc/data", claim(), DYNAMIC, driver(), CALLED), Reason.BACKEND_ERROR)
