"""A provisioner or attacher that keeps failing is the cause, and its log of before the restart says why."""

from datetime import timedelta

import pytest

from binder.matching.rejection import Reason
from tests.why.causes.drivers.test_logs import unattached
from tests.why.documents import (
    BOUND,
    DRIVER,
    DYNAMIC,
    INSTALLED,
    Document,
    assert_problem,
    claim,
    driver,
    event,
    lease,
    node,
    storage_class,
    why,
)
from tests.why.driver_pods import container, controller, waiting, workload
from tests.why.dumps.dump import placed

WAITS = event("PersistentVolumeClaim", "data", "ExternalProvisioning", "waiting for a volume", type="Normal")
STOPPED = lease("disk-csi-example", timedelta(hours=2))
SILENT = [claim(), DYNAMIC, *INSTALLED, WAITS]


def crashing(container_name: str, reason: str = "CrashLoopBackOff", message: str = "") -> Document:
    failing = waiting(container_name, reason, message=message)
    return controller("example-csi-controller-0", DRIVER, status={"containerStatuses": [failing]})


@pytest.mark.parametrize("documents", [SILENT, [*SILENT, STOPPED]], ids=["it wrote nothing", "its Lease has lapsed"])
def test_a_provisioner_that_crashes_is_the_cause(documents: list[Document]) -> None:
    item = why("pvc/data", *documents, crashing("csi-provisioner"))
    assert_problem(item, Reason.PROVISIONER_MISSING)
    assert "container csi-provisioner of pod storage/example-csi-controller-0 is in CrashLoopBackOff" in item.message
    assert item.next == ("kubectl -n storage logs example-csi-controller-0 -c csi-provisioner --previous",)
    assert "restart the controller" not in item.advice[0]
    assert item.causes[-1].name == "storage/example-csi-controller-0"


def test_the_drivers_own_container_stops_its_sidecars_too() -> None:
    item = why("pvc/data", *SILENT, crashing("plugin"))
    assert item.next == ("kubectl -n storage logs example-csi-controller-0 -c plugin --previous",)


def test_a_container_that_never_started_has_no_log() -> None:
    item = why("pvc/data", *SILENT, crashing("csi-provisioner", "ImagePullBackOff", message="manifest unknown"))
    assert item.next == ("kubectl -n storage describe pod example-csi-controller-0",)
    assert "manifest unknown" in item.evidence[0].found


def test_while_another_replica_runs_a_crash_is_not_the_cause() -> None:
    item = why("pvc/data", *SILENT, crashing("csi-provisioner"), controller("example-csi-controller-1", DRIVER))
    assert "CrashLoopBackOff" not in item.message


def test_an_attacher_that_crashes_is_the_cause() -> None:
    item = why("pod/db-0", placed("db-0", "data"), *BOUND, node("a1"), driver(), unattached(), crashing("csi-attacher"))
    assert_problem(item, Reason.ATTACH_FAILED)
    assert "container csi-attacher of pod storage/example-csi-controller-0 is in CrashLoopBackOff" in item.message
    assert item.next == ("kubectl -n storage logs example-csi-controller-0 -c csi-attacher --previous",)


def test_a_provisioner_without_csi_that_crashes_is_the_cause() -> None:
    name = "k8s-sigs.io/nfs-subdir-external-provisioner"
    status = {"containerStatuses": [waiting("main", "CrashLoopBackOff")]}
    pods = [workload("nfs-0", container("main", env=[("PROVISIONER_NAME", name)]), status=status)]
    item = why("pvc/data", claim(), storage_class(provisioner=name, mode="Immediate"), *pods)
    assert_problem(item, Reason.PROVISIONER_MISSING)
    assert item.next == ("kubectl -n storage logs nfs-0 -c main --previous",)
