"""The fields that only `why` reads: where each comes from, and that one which is absent or null is empty."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from kube.rules.quantity import NANO
from why.facts import decode_details as read
from why.facts.details import (
    AttachmentDetails,
    ClaimDetails,
    Condition,
    ConditionedRecord,
    DataSource,
    DeviceClaimRecord,
    DriverContainer,
    DriverPod,
    EventRecord,
    LeaseDetails,
    NodeDetails,
    PodDetails,
    QuotaRecord,
    SnapshotRecord,
    VolumeDetails,
)

Document = dict[str, Any]

THEN, LATER = "2026-01-02T03:04:05Z", "2026-01-02T04:00:00Z"
AT, AT_LATER = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2026, 1, 2, 4, tzinfo=UTC)
WHO: Document = {"name": "a", "namespace": "web", "finalizers": ["f"], "deletionTimestamp": THEN}
SAID: Document = {"type": "Ready", "status": "False", "reason": "R", "message": "m", "lastTransitionTime": THEN}
CONDITION = Condition("Ready", "False", "R", "m", AT)


def raw(document: Document) -> bytes:
    return json.dumps(document).encode()


def nothing(fields: Document) -> Document:
    """The same keys, each with null."""
    return {key: nothing(value) if isinstance(value, dict) else None for key, value in fields.items()}


def lease(given: bytes) -> LeaseDetails:
    return read.lease(given, "sweeps")


CLAIM: Document = {
    "metadata": {**WHO, "labels": {"b": "2", "a": None}},
    "spec": {"dataSourceRef": {"kind": "Set", "name": "d", "apiGroup": "example.com", "namespace": "other"}},
    "status": {
        "conditions": [SAID],
        "capacity": {"storage": "1", "other": "x"},
        "currentVolumeAttributesClassName": "gold",
        "modifyVolumeStatus": {"status": "InProgress"},
        "allocatedResourceStatuses": {"storage": "NodeResizePending"},
    },
}
POD: Document = {
    "metadata": {
        **WHO,
        "deletionGracePeriodSeconds": 0,
        "ownerReferences": [{"kind": "Set", "name": "x"}, {"kind": "Job", "name": "j", "controller": True}],
    },
    "spec": {
        "resourceClaims": [
            {"name": "own", "resourceClaimName": "device"},
            {"name": "made", "resourceClaimTemplateName": "t"},
            {"name": "unmade", "resourceClaimTemplateName": "u"},
            {"name": "unneeded", "resourceClaimTemplateName": "v"},
        ],
    },
    "status": {
        "conditions": [SAID],
        "resourceClaimStatuses": [{"name": "made", "resourceClaimName": "device-2"}, {"name": "unneeded"}],
        "initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "PodInitializing", "message": "w"}}}],
        "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}, {"name": "d"}],
    },
}
LEASE: Document = {
    "metadata": {"name": "a", "namespace": "web", "annotations": {"sweeps": "[]"}},
    "spec": {"holderIdentity": "me", "renewTime": THEN, "leaseDurationSeconds": 15},
}
ATTACHMENT: Document = {
    "metadata": {**WHO, "creationTimestamp": LATER},
    "status": {"attachError": {"message": "no"}, "detachError": {"message": "busy"}},
}
SNAPSHOT: Document = {
    "metadata": WHO,
    "spec": {"source": {"persistentVolumeClaimName": "data"}},
    "status": {
        "readyToUse": True,
        "boundVolumeSnapshotContentName": "content",
        "restoreSize": "2",
        "error": {"message": "no"},
    },
}
QUOTA: Document = {"metadata": WHO, "status": {"hard": {"pods": "2", "cpu": "x"}, "used": {"pods": "1"}}}
VOLUME: Document = {"metadata": WHO, "status": {"message": "gone", "lastPhaseTransitionTime": LATER}}
NODE: Document = {"metadata": WHO, "status": {"conditions": [{"type": "Other"}, SAID], "volumesInUse": ["v"]}}
DEVICES: Document = {"metadata": WHO, "status": {"allocation": ["d"]}}
POOL: Document = {"metadata": {"name": "a"}, "status": {"conditions": [SAID]}}


@pytest.mark.parametrize(
    ("decode", "document", "expected", "empty"),
    [
        pytest.param(
            read.claim_details,
            CLAIM,
            ClaimDetails(
                data_source=DataSource("Set", "d", "example.com", "other"),
                finalizers=("f",),
                deleted=AT,
                conditions=(CONDITION,),
                capacity=NANO,
                labels=(("a", ""), ("b", "2")),
                attributes_class="gold",
                modification="InProgress",
                expansion="NodeResizePending",
            ),
            ClaimDetails(data_source=DataSource("", ""), labels=(("a", ""), ("b", ""))),
            id="claim",
        ),
        pytest.param(
            read.pod_details,
            POD,
            PodDetails(
                owner=("Job", "j"),
                conditions=(CONDITION,),
                deleted=AT,
                grace=0,
                finalizers=("f",),
                resource_claims=("device", "device-2"),
                unused_templates=("u",),
                waits=("w",),
            ),
            PodDetails(),
            id="pod",
        ),
        pytest.param(read.node_details, NODE, NodeDetails(CONDITION, ("v",)), NodeDetails(), id="node"),
        pytest.param(
            read.volume_details, VOLUME, VolumeDetails(("f",), AT, "gone", AT_LATER), VolumeDetails(), id="volume"
        ),
        pytest.param(
            lease, LEASE, LeaseDetails("web", "a", "me", AT, 15.0, "[]"), LeaseDetails("default", ""), id="lease"
        ),
        pytest.param(
            read.quota,
            QUOTA,
            QuotaRecord("web", "a", (("pods", 2 * NANO),), (("pods", NANO),)),
            QuotaRecord("default", "", (("cpu", 0), ("pods", 0)), (("pods", 0),)),
            id="quota",
        ),
        pytest.param(
            read.attachment_details,
            ATTACHMENT,
            AttachmentDetails("no", "busy", AT, AT_LATER, ("f",)),
            AttachmentDetails(),
            id="attachment",
        ),
        pytest.param(
            read.snapshot,
            SNAPSHOT,
            SnapshotRecord("web", "a", "data", ready=True, content="content", restore_size=2 * NANO, error="no"),
            SnapshotRecord("default", ""),
            id="snapshot",
        ),
        pytest.param(
            read.device_claim,
            DEVICES,
            DeviceClaimRecord("web", "a", allocated=True),
            DeviceClaimRecord("default", ""),
            id="devices",
        ),
        pytest.param(
            read.conditioned, POOL, ConditionedRecord("a", (CONDITION,)), ConditionedRecord(""), id="conditioned"
        ),
    ],
)
def test_each_field_is_read_and_a_null_is_empty(
    decode: Callable[[bytes], object], document: Document, expected: object, empty: object
) -> None:
    assert decode(raw(document)) == expected
    assert decode(raw(nothing(document))) == empty
    assert decode(b"{}") is not None


def test_the_older_field_counts_where_the_newer_one_is_absent() -> None:
    source = {"dataSource": {"kind": "VolumeSnapshot", "name": "s"}}
    assert read.claim_details(raw({"spec": source})).data_source == DataSource("VolumeSnapshot", "s")
    assert read.claim_details(b"{}").data_source is None


def test_when_a_namespace_was_created() -> None:
    assert read.namespace_created(raw({"metadata": {"creationTimestamp": THEN}})) == AT
    assert read.namespace_created(b"{}") is None


@pytest.mark.parametrize(
    ("state", "began"),
    [
        ({"running": {"startedAt": THEN}}, True),
        ({"terminated": {"exitCode": 1}}, True),
        ({"running": None, "terminated": None, "waiting": {"reason": "ContainerCreating"}}, False),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, True),
        ({"waiting": {}}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_pod_has_begun_once_the_kubelet_came_to_a_container(state: Document | None, began: bool) -> None:
    assert read.pod_details(raw({"status": {"containerStatuses": [{"name": "c", "state": state}]}})).began is began


CONTAINER: Document = {
    "name": "c",
    "image": "i",
    "command": ["run"],
    "args": ["--driver=x"],
    "env": [{"name": "DRIVER_NAME", "value": "disk"}, {"name": "OTHER", "value": "o"}, {"name": "CSI_DRIVER_NAME"}],
}
WAITS = {"name": "c", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}


@pytest.mark.parametrize(("phase", "ended"), [("Succeeded", True), ("Failed", True), ("Running", False), (None, False)])
def test_a_pod_of_a_driver(phase: str | None, ended: bool) -> None:
    owner = {"kind": "DaemonSet", "controller": True}
    decoded = read.driver_pod(
        raw(
            {
                "metadata": {"name": "a", "namespace": "web", "ownerReferences": [owner]},
                "spec": {"nodeName": "n1", "containers": [CONTAINER], "initContainers": [{"name": "first"}]},
                "status": {"phase": phase, "containerStatuses": [WAITS]},
            }
        )
    )
    container = DriverContainer("c", "i", ("run", "--driver=x", "disk"), "CrashLoopBackOff", "back-off", 3)
    assert decoded == DriverPod("web", "a", "n1", True, ended, (container, DriverContainer("first")))


def test_a_pod_that_names_no_driver_is_none_of_one() -> None:
    assert read.driver_pod(raw({"spec": {"containers": [{"args": ["--port=1"]}]}})) is None
    bare = read.driver_pod(raw({"metadata": {"ownerReferences": [{"kind": "DaemonSet"}], "name": "--driver"}}))
    assert bare == DriverPod("default", "--driver")


def test_an_event_is_read_in_either_form() -> None:
    about = {"kind": "Pod", "namespace": "web", "name": "a", "uid": "u"}
    new = {
        "type": "Warning",
        "reason": "R",
        "note": "n",
        "reportingController": "kubelet",
        "eventTime": THEN,
        "series": {"count": 4, "lastObservedTime": LATER},
        "regarding": about,
    }
    old = {
        "type": "Warning",
        "reason": "R",
        "message": "n",
        "source": {"component": "kubelet"},
        "lastTimestamp": LATER,
        "count": 4,
        "involvedObject": about,
    }
    record = EventRecord("Warning", "R", "n", "kubelet", AT_LATER, 4, "u")
    assert read.event(raw(new)) == read.event(raw(old)) == read.EventAbout("Pod", "web/a", record)
    assert read.event(raw({"eventTime": THEN, "regarding": {"kind": "Node", "name": "n1"}})) == read.EventAbout(
        "Node", "n1", EventRecord("", "", "", "", AT)
    )
    assert read.event(b"{}") == read.EventAbout("", "", EventRecord("", "", "", ""))
