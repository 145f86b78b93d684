"""What the pages of docs/causes show as examples: objects for each code, and what the program prints about them.

After an answer has changed, `python -m tests.why.page_examples` writes the pages' examples again; a test
fails as long as one of them differs.
"""

import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from binder.matching.rejection import Reason, Rejection
from binder.model.decision import Reject
from binder.reporting.rejection_note import rejection_note
from kube.objects.model import SELECTED_NODE
from tests.builders import ZONE
from tests.builders import pod as pod_record
from tests.why.documents import (
    AHEAD_OF_NODE,
    BOUND,
    DRIVER,
    INSTALLED,
    NAMESPACE,
    NO_VOLUME_YET,
    NONE_FOR_FOUR,
    NOW,
    REJECTED_BY_CONTROLLER,
    RESERVED_FOR_OTHER,
    Document,
    at,
    claim,
    csi_node,
    default_class,
    driver,
    event,
    facts_of,
    held_for,
    kubelet_lease,
    metadata,
    node,
    of_deployment,
    pod,
    reporting,
    storage_class,
    volume,
)
from tests.why.driver_pods import CONTROLLER, NODE_PLUGIN
from tests.why.dumps.dump import LATER, NOW_MADE, PARTLY_PROVISIONED, attachment, gated, placed
from why.explain.answering import report_on
from why.explain.targets import parse_target
from why.facts.facts import Source
from why.rendering.text import print_report

FOLDER: Final = Path(__file__).parents[2] / "docs" / "causes"

_PREFIX: Final = "scheduler.cloud.example/"
_STATIC: Final = storage_class(mode="Immediate")
_NEW: Final = {"creationTimestamp": at(timedelta())}
_BEING_DELETED: Final = {"deletionTimestamp": at(timedelta(hours=1)), "finalizers": ["kubernetes.io/pvc-protection"]}
_NOT_KEPT: Final = {"persistentVolumeReclaimPolicy": "Delete"}
_ABOVE_LIMIT: Final = "rpc error: code = InvalidArgument desc = iops above the limit of the disk"
_ALONE: Final = {"accessModes": ["ReadWriteOncePod"]}
_CHOSEN: Final = {"annotations": {SELECTED_NODE: "n2"}}
_DATASET: Final = {"apiGroup": "example.com", "kind": "Dataset", "name": "big"}
LARGE_SELECTOR: Final = {
    "selector": {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["d" * 20_000]}]}
}
_SCRATCH: Final = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}
_OVER_QUOTA: Final = (
    "create Pod db-0 in StatefulSet db failed error: failed to create PVC data-db-0: persistentvolumeclaims "
    '"data-db-0" is forbidden: exceeded quota: storage, requested: requests.storage=10Gi, used: requests.storage=95Gi, '
    "limited: requests.storage=100Gi"
)
_QUARANTINED: Final[dict[str, Any]] = {
    "claim": "quarantine-pv-1",
    "claim_uid": "",
    "phase": "Available",
    "metadata": {
        "annotations": {f"{_PREFIX}quarantine": "Inaccessible", f"{_PREFIX}quarantined-at": at(timedelta())},
    },
}


@dataclass(frozen=True)
class Example:
    """A question and the objects that answer it; `without` may not be read."""

    target: str
    documents: list[Document]
    without: tuple[Source, ...] = ()

    def text(self) -> str:
        facts = replace(facts_of(*self.documents, without=self.without), everywhere=True)
        file = StringIO()
        console = Console(file=file, width=100, highlight=False)
        print_report(report_on(facts, (parse_target(self.target),), NAMESPACE), console, NOW)
        return file.getvalue()


@dataclass(frozen=True)
class ControllerEvent:
    """An Event of the controller about a pod for which it reserves nothing."""

    reason: Reason
    rejections: tuple[Rejection, ...] = field(default=())
    begun: bool = False

    def text(self) -> str:
        note = rejection_note(Reject(pod_record("db-0"), self.reason, self.rejections, begun=self.begun))
        return f"Warning  {self.reason}  pod/db-0  {note}"


def _about_claim(*documents: Document) -> Example:
    return Example("pvc/data", list(documents))


def _about_pod(*documents: Document) -> Example:
    return Example("pod/db-0", list(documents))


def _about_volume(*documents: Document) -> Example:
    return Example("pv/pv-1", list(documents))


def _provisioner_event(note: str) -> Document:
    return event("PersistentVolumeClaim", "data", "ProvisioningFailed", note, reporter=f"{DRIVER}_controller-0")


def _pod_event(reason: str, note: str, reporter: str) -> Document:
    return event("Pod", "db-0", reason, note, reporter=reporter)


def _capacity(free: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": metadata("room"),
        "storageClassName": "fast",
        "nodeTopology": {},
        "capacity": free,
    }


def _quota() -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata("storage"),
        "status": {"hard": {"requests.storage": "100Gi"}, "used": {"requests.storage": "95Gi"}},
    }


def _failed_attachment() -> Document:
    return {**attachment("a1"), "status": {"attached": False, "attachError": {"message": "no such disk"}}}


def _growing(condition: str) -> Document:
    conditions = [{"type": condition, "status": "True"}]
    return claim(volume="pv-1", status={"capacity": {"storage": "5Gi"}, "conditions": conditions})


def _unreachable_storage() -> Document:
    condition = {"status": "StorageUnreachable", "reason": "Net"}
    made = csi_node("a1", DRIVER)
    return {**made, "status": {"storageHealth": [{"name": DRIVER, "healthConditions": [condition]}]}}


_NO_ANSWER: Final = _provisioner_event("rpc error: code = DeadlineExceeded desc = context deadline exceeded")
EXAMPLES: Final[dict[Reason, Example | ControllerEvent]] = {
    Reason.TOPOLOGY_NOT_ALLOWED: _about_claim(
        claim(),
        {**NOW_MADE, "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["c"]}]}]},
        *INSTALLED,
        node("n1", "a"),
    ),
    Reason.AMBIGUOUS_DEFAULT_CLASS: _about_claim(
        claim(storage_class=None),
        default_class("fast", provisioner=DRIVER, mode="Immediate"),
        default_class("slow", provisioner=DRIVER, mode="Immediate"),
        *INSTALLED,
    ),
    Reason.ATTACH_CONFLICT: _about_pod(
        of_deployment(placed("db-0", "data"), "db", "7c9"),
        *BOUND,
        node("a1"),
        node("a2"),
        attachment("a2"),
        of_deployment(pod("old", "data", node="a2"), "db", "5d8"),
    ),
    Reason.ATTACH_FAILED: _about_pod(placed("db-0", "data"), *BOUND, node("a1"), _failed_attachment(), CONTROLLER),
    Reason.AVAILABLE: Example("pv/free", [volume("free")]),
    Reason.BACKEND_ERROR: _about_claim(claim(), NOW_MADE, *INSTALLED, _NO_ANSWER, CONTROLLER),
    Reason.BIND_TIMEOUT: _about_pod(
        pod("db-0", "data"),
        *BOUND,
        node("a1"),
        _pod_event(
            "FailedScheduling",
            'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded',
            "default-scheduler",
        ),
    ),
    Reason.BOUND: _about_claim(claim(volume="pv-1"), volume(claim="data"), storage_class()),
    Reason.CLAIM_LOST: _about_claim(claim(volume="pv-9", status={"phase": "Lost"})),
    Reason.CLAIM_NOT_FOUND: _about_pod(pod("db-0", "dtaa"), *BOUND),
    Reason.CLAIM_NOT_OWNED: _about_pod(
        pod("db-0", spec=_SCRATCH), claim("db-0-scratch"), volume(), storage_class(), node("a1")
    ),
    Reason.CLAIM_DELETING: _about_claim(
        claim(volume="pv-1", metadata=_BEING_DELETED),
        volume(claim="data", spec=_NOT_KEPT),
        storage_class(),
        pod("old", "data", node="n1"),
    ),
    Reason.DATA_SOURCE_NOT_READY: _about_claim(
        claim(spec={"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "orig"}}), NOW_MADE, *INSTALLED
    ),
    Reason.DRIVER_NOT_ON_NODE: _about_claim(
        claim(metadata=_CHOSEN), LATER, *INSTALLED, node("n2"), csi_node("n2"), pod("db-0", "data")
    ),
    Reason.EXPLANATION_PENDING: ControllerEvent(Reason.EXPLANATION_PENDING),
    Reason.EXTENDER_UNAVAILABLE: _about_pod(
        pod("db-0", "data"),
        *BOUND,
        node("a1"),
        _pod_event(
            "FailedScheduling",
            'Post "http://127.0.0.1:8890/v1/filter": connect: connection refused',
            "default-scheduler",
        ),
    ),
    **{each.reason: ControllerEvent(each.reason, (each,)) for each in REJECTED_BY_CONTROLLER},
    Reason.IMMEDIATE_CLAIM: _about_pod(pod("db-0", "data"), claim(metadata=_NEW), volume(), _STATIC),
    Reason.INCONCLUSIVE: Example("pvc/data", [claim()], (Source.CLASSES,)),
    Reason.INSUFFICIENT_STORAGE: _about_claim(
        claim(), NOW_MADE, driver(storageCapacity=True), csi_node("n1", DRIVER), _capacity("5Gi")
    ),
    Reason.MOUNT_FAILED: _about_pod(
        placed("db-0", "data"),
        *BOUND,
        node("a1"),
        _pod_event(
            "FailedMount",
            'MountVolume.SetUp failed for volume "pv-1" : rpc error: code = Internal desc = wrong fs type, bad option, '
            "bad superblock",
            "kubelet",
        ),
        NODE_PLUGIN,
    ),
    Reason.NO_JOINT_ASSIGNMENT: ControllerEvent(
        Reason.NO_JOINT_ASSIGNMENT,
        (
            Rejection(Reason.NO_JOINT_ASSIGNMENT, "zone a", "2 volumes at once", "none for web/logs"),
            Rejection(Reason.NO_JOINT_ASSIGNMENT, "zone b", "2 volumes at once", "none for web/data"),
        ),
    ),
    Reason.PARTLY_PROVISIONED: _about_pod(*PARTLY_PROVISIONED, _capacity("100Gi")),
    Reason.PROVISIONING_OVERDUE: ControllerEvent(Reason.PROVISIONING_OVERDUE, (NO_VOLUME_YET,), begun=True),
    Reason.WAITING_FOR_NEW_NODE: _about_pod(pod("db-0", "data"), *AHEAD_OF_NODE, node("a1")),
    Reason.NO_NODE_FITS: _about_pod(pod("db-0", "data", cpu="9"), *BOUND, node("a1")),
    Reason.NO_STORAGE_CLASS: _about_claim(claim(storage_class=None), storage_class()),
    Reason.VOLUME_STILL_CLAIMED: _about_claim(
        claim(spec={"volumeName": "pv-1"}), volume(claim="data", claim_uid="old", phase="Released"), _STATIC
    ),
    Reason.POD_BYPASSES_SCHEDULER: _about_claim(
        claim(), storage_class(), pod("db-0", "data", spec={"nodeName": "n1"}), node("n1")
    ),
    Reason.POPULATOR_PENDING: _about_claim(claim(spec={"dataSourceRef": _DATASET}), NOW_MADE, *INSTALLED),
    Reason.PREBOUND_INCOMPLETE: _about_claim(claim(spec={"volumeName": "pv-1"}), volume(), _STATIC),
    Reason.PROGRESSING: _about_claim(claim(metadata=_NEW), volume(), _STATIC),
    Reason.PROVISIONER_MISSING: _about_claim(claim(), NOW_MADE, driver("other.csi.example")),
    Reason.QUARANTINED: _about_claim(claim(), volume(**_QUARANTINED), _STATIC),
    Reason.QUOTA_EXCEEDED: Example(
        "pvc/data-db-0",
        [_quota(), event("StatefulSet", "db", "FailedCreate", _OVER_QUOTA, reporter="statefulset-controller")],
    ),
    Reason.VOLUME_IN_USE: _about_pod(
        pod("db-0", "data"),
        claim(volume="pv-1", spec=_ALONE),
        volume(claim="data", zone="a", spec=_ALONE),
        storage_class(),
        pod("db-1", "data", node="a1"),
        node("a1"),
    ),
    Reason.REQUEST_NOT_SUPPORTED: _about_claim(
        claim(),
        NOW_MADE,
        *INSTALLED,
        _provisioner_event("infeasible error. rpc error: code = InvalidArgument desc = no RWX"),
    ),
    Reason.REQUESTED_VOLUME_MISMATCH: _about_claim(claim(size="20Gi", spec={"volumeName": "pv-1"}), volume(), _STATIC),
    Reason.REQUESTED_VOLUME_MISSING: _about_claim(claim(spec={"volumeName": "pv-9"}), storage_class()),
    Reason.RESERVED_FOR_OTHER: _about_pod(
        gated("data"), claim(), volume(metadata={"annotations": RESERVED_FOR_OTHER}), storage_class(), node("a1")
    ),
    Reason.MODIFY_PENDING: _about_claim(
        claim(
            volume="pv-1",
            spec={"volumeAttributesClassName": "gold"},
            status={
                "currentVolumeAttributesClassName": "silver",
                "modifyVolumeStatus": {"status": "Infeasible", "targetVolumeAttributesClassName": "gold"},
                "conditions": [{"type": "ModifyVolumeError", "status": "True", "message": _ABOVE_LIMIT}],
            },
        ),
        volume(claim="data"),
        storage_class(),
    ),
    Reason.RESIZE_FAILED: _about_claim(
        _growing("ControllerResizeError"), volume(claim="data", size="5Gi"), storage_class(), CONTROLLER
    ),
    Reason.RESIZE_PENDING: _about_claim(_growing("FileSystemResizePending"), volume(claim="data"), storage_class()),
    Reason.DEVICE_CLAIM_PENDING: _about_pod(
        pod("db-0", "data", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}), *BOUND, node("a1")
    ),
    Reason.SCHEDULED: _about_pod(pod("db-0", "data", node="a1"), *BOUND),
    Reason.SCHEDULER_NOT_RUNNING: _about_pod(
        pod("db-0", "data", spec={"schedulerName": "zonal"}, status={"conditions": []}), *BOUND
    ),
    Reason.POD_GATED: _about_pod(
        pod("db-0", "data", spec={"schedulingGates": [{"name": "example.com/later"}]}, status={"conditions": []}),
        *BOUND,
    ),
    Reason.SELECTED_NODE_STALE: _about_claim(claim(metadata=_CHOSEN), LATER, *INSTALLED, pod("db-0", "data")),
    Reason.SELECTOR_ON_DYNAMIC_CLASS: _about_claim(
        claim(spec={"selector": {"matchLabels": {"tier": "gold"}}}), NOW_MADE, driver()
    ),
    Reason.SELECTOR_TOO_LARGE: _about_claim(claim(spec=LARGE_SELECTOR), volume(), _STATIC),
    Reason.NO_VOLUME_FITS: _about_claim(claim(), volume(size="5Gi"), _STATIC),
    Reason.CLASS_NOT_FOUND: _about_claim(claim(storage_class="fsat"), storage_class()),
    Reason.TOO_MANY_CLAIMS: ControllerEvent(Reason.TOO_MANY_CLAIMS),
    Reason.TOPOLOGY_CONFLICT: _about_pod(pod("db-0", "data"), *BOUND, node("a1", "a", cordoned=True), node("b1", "b")),
    Reason.TOPOLOGY_CONTRADICTED: ControllerEvent(Reason.TOPOLOGY_CONTRADICTED),
    Reason.UNHEALTHY: _about_volume(volume(zone="a"), node("a1", "a"), _unreachable_storage()),
    Reason.ATTACH_LIMIT_REACHED: _about_pod(
        pod("db-0", "data"),
        *BOUND,
        node("a1"),
        csi_node("a1", DRIVER, limit=1),
        driver(),
        pod("other", "more", node="a1"),
        claim("more", volume="pv-2"),
        volume("pv-2", claim="more", zone="a"),
    ),
    Reason.VOLUME_FAILED: _about_volume(
        volume(
            claim="old",
            phase="Failed",
            spec=_NOT_KEPT,
            status={"message": "rpc error: code = Internal desc = volume has snapshots"},
        )
    ),
    Reason.POD_TERMINATING: _about_pod(
        pod("db-0", "data", node="a1", metadata={"deletionTimestamp": at(timedelta(hours=1))}),
        *BOUND,
        reporting("a1", "Unknown"),
        kubelet_lease("a1", timedelta(minutes=9)),
    ),
    Reason.VOLUME_RELEASED: _about_volume(volume(claim="old", phase="Released")),
    Reason.VOLUME_TERMINATING: _about_volume(
        volume(claim="data", metadata={"deletionTimestamp": at(timedelta(minutes=5))}), claim(volume="pv-1")
    ),
    Reason.VOLUMES_HELD: Example("statefulset/db", [held_for("db", 3, "pv-3")]),
    Reason.VOLUMES_NOT_HELD: Example("statefulset/db", [held_for("db", 3, "pv-3"), NONE_FOR_FOUR]),
    Reason.VOLUMES_IN_DIFFERENT_ZONES: _about_pod(
        pod("db-0", "data", "logs"),
        *BOUND,
        claim("logs", volume="pv-2"),
        volume("pv-2", claim="logs", zone="b"),
        node("a1", "a"),
        node("b1", "b"),
    ),
    Reason.WAIT_FOR_FIRST_CONSUMER: _about_claim(claim(), storage_class(), volume()),
    Reason.WAIT_FOR_POD_SCHEDULED: _about_claim(
        claim(), volume(zone="a"), storage_class(), pod("db-0", "data", metadata=_NEW), node("n1")
    ),
}
"""Without them are the codes that are shown as a metric."""


def page_of(code: Reason) -> Path:
    return FOLDER / f"{code}.md"


def example_on(page: Path) -> str:
    """Return what a page shows as an example. The lines of an Event are broken there."""
    (example,) = re.findall(r"## Example\n\n```\n(.*?)```\n", page.read_text(), re.DOTALL)
    return str(example)


if __name__ == "__main__":
    for code, example in EXAMPLES.items():
        if isinstance(example, Example):
            page_of(code).write_text(page_of(code).read_text().replace(example_on(page_of(code)), example.text()))
