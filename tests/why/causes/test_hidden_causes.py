"""Causes that look like others: what is stale, about to end, hidden behind another component, or not to blame."""

from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from binder.matching.rejection import Reason
from kube.objects.model import PROVISIONED_BY, SELECTED_NODE
from tests.prebinder.dump_file import write_dump
from tests.why.documents import (
    BOUND,
    DRIVER,
    INSTALLED,
    NOW,
    SCHEDULED,
    Document,
    assert_problem,
    at,
    claim,
    default_class,
    event,
    facts_of,
    lease,
    metadata,
    node,
    pod,
    storage_class,
    volume,
    why,
)
from why.causes.diagnosis import explain_claim
from why.explain.answering import waiting
from why.facts.facts import NOT_SERVED, Source
from why.reading.dump import read_dump

LATER = storage_class(provisioner=DRIVER)
NOW_MADE = storage_class(provisioner=DRIVER, mode="Immediate")
ENDING = {"deletionTimestamp": at(timedelta(seconds=10))}
EPHEMERAL: Document = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}
ALONE = {"accessModes": ["ReadWriteOncePod"]}
QUOTA = 'persistentvolumeclaims "{}" is forbidden: exceeded quota: storage, requested: requests.storage=10Gi'
UNHEALTHY = {"annotations": {"scheduler.cloud.example/health": "Inaccessible"}}
REJECTED = "0/1 nodes are available: 1 claim data would get volume pv-1: {}."


def ago(**how: float) -> timedelta:
    return timedelta(**how)


def placed(**how: Any) -> Document:
    """A pod on node a1 whose containers have not been started."""
    return pod("db-0", "data", node="a1", status={"phase": "Pending"}, **how)


def of_pod(reason: str, note: str, **how: Any) -> Document:
    return event("Pod", "db-0", reason, note, **how)


def of_claim(reason: str, note: str, **how: Any) -> Document:
    return event("PersistentVolumeClaim", "data", reason, note, **{"reporter": f"{DRIVER}_x", **how})


def attachment(on_node: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": metadata(f"csi-{on_node}", None),
        "spec": {"attacher": DRIVER, "nodeName": on_node, "source": {"persistentVolumeName": "pv-1"}},
        "status": {"attached": True, "detachError": {"message": "in use"}},
    }


OF_PODS = [
    pytest.param(
        Reason.SCHEDULER_NOT_RUNNING,
        [
            pod("db-0", "data"),
            *BOUND,
            node("a1"),
            lease("kube-scheduler", ago(hours=1)),
            of_pod("FailedScheduling", "0/1 nodes are available", ago=ago(hours=1)),
        ],
        id="the scheduler ended after it had looked at the pod",
    ),
    pytest.param(
        Reason.NO_NODE_FITS,
        [
            pod("db-0", "data", cpu="9"),
            *BOUND,
            node("a1"),
            lease("kube-scheduler", ago(hours=1)),
            of_pod("FailedScheduling", "0/1 nodes are available", ago=ago(minutes=1)),
        ],
        id="the scheduler works without the Lease that is left",
    ),
    pytest.param(
        Reason.QUOTA_EXCEEDED,
        [
            pod("db-0", spec=EPHEMERAL),
            node("a1"),
            of_pod("FailedBinding", f"ephemeral volume controller: create PVC: {QUOTA.format('db-0-scratch')}"),
        ],
        id="a quota forbids the ephemeral volume's claim",
    ),
    pytest.param(
        Reason.CLAIM_NOT_OWNED,
        [pod("db-0", spec=EPHEMERAL), claim("db-0-scratch"), volume(), storage_class(), node("a1")],
        id="another pod's claim has the ephemeral volume's name",
    ),
    pytest.param(
        Reason.CLAIM_LOST,
        [pod("db-0", "data"), claim(volume="pv-1"), storage_class(), node("a1")],
        id="the bound volume is gone, and the claim does not say so yet",
    ),
    pytest.param(
        Reason.VOLUME_IN_USE,
        [
            pod("db-0", "data"),
            claim(volume="pv-1", spec=ALONE),
            volume(claim="data", spec=ALONE),
            storage_class(),
            pod("db-1", "data", node="a1", metadata=ENDING),
            node("a1"),
        ],
        id="the pod that has the claim to itself is ending",
    ),
    pytest.param(
        Reason.UNHEALTHY,
        [
            placed(),
            claim(volume="pv-1"),
            volume(claim="data", metadata=UNHEALTHY),
            storage_class(),
            node("a1"),
            of_pod("FailedMount", "bad superblock"),
        ],
        id="an unhealthy volume cannot be mounted",
    ),
    pytest.param(
        Reason.RESERVED_FOR_OTHER,
        [
            pod("db-0", "data"),
            *BOUND,
            node("a1"),
            of_pod("FailedScheduling", REJECTED.format("ReservedForOther, for web/other until 12:34:00Z")),
        ],
        id="the extender keeps a reserved volume from it",
    ),
    pytest.param(
        Reason.UNHEALTHY,
        [
            pod("db-0", "data"),
            *BOUND,
            node("a1"),
            of_pod("FailedScheduling", REJECTED.format("Unhealthy, DataLoss: bad sectors")),
        ],
        id="the extender keeps an unhealthy volume from it",
    ),
    pytest.param(
        Reason.CLASS_NOT_FOUND,
        [
            pod("db-0", "copy"),
            claim("copy", spec={"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "data"}}),
            claim(storage_class="fsat"),
            NOW_MADE,
            *INSTALLED,
            node("a1"),
        ],
        id="the claim to be copied has no class",
    ),
    pytest.param(
        Reason.NO_NODE_FITS,
        [
            pod("db-0", "data", cpu="9"),
            claim(volume="pv-1", size="20Gi", status={"conditions": [{"type": "NodeResizeError", "status": "True"}]}),
            volume(claim="data", zone="a"),
            storage_class(),
            node("a1"),
        ],
        id="that a volume cannot grow keeps no pod from a node",
    ),
]


@pytest.mark.parametrize(("code", "documents"), OF_PODS)
def test_of_a_pod(code: Reason, documents: list[Document]) -> None:
    item = why("pod/db-0", *documents)
    assert_problem(item, code)


MADE_BY_IT = {"annotations": {PROVISIONED_BY: DRIVER}}
STOPPED = [claim(), NOW_MADE, *INSTALLED, lease("disk-csi-example", ago(hours=1))]


OF_CLAIMS = [
    pytest.param(
        Reason.NO_VOLUME_FITS,
        [claim(), storage_class(mode="Immediate"), volume(size="1Gi"), placed()],
        id="a pod with nodeName does not matter to an Immediate claim",
    ),
    pytest.param(
        Reason.PROVISIONER_MISSING,
        [*STOPPED, of_claim("Provisioning", "begun", type="Normal", ago=ago(hours=2))],
        id="the provisioner ended after it had begun",
    ),
    pytest.param(
        Reason.PROVISIONER_MISSING,
        [*STOPPED, of_claim("ProvisioningFailed", "rpc error: code = Internal", ago=ago(hours=2))],
        id="the provisioner ended after it had failed",
    ),
    pytest.param(
        Reason.BACKEND_ERROR,
        [*STOPPED, of_claim("ProvisioningFailed", "rpc error: code = Internal", ago=ago(minutes=1))],
        id="the provisioner works without the Lease that is left",
    ),
    pytest.param(
        Reason.PROVISIONER_MISSING,
        [*STOPPED, volume("made", claim="other", metadata={**MADE_BY_IT, "creationTimestamp": at(ago(hours=2))})],
        id="the provisioner has made volumes before it ended",
    ),
    pytest.param(
        Reason.PROVISIONER_MISSING,
        [
            claim(metadata={"annotations": {SELECTED_NODE: "b1"}}),
            LATER,
            volume(zone="a"),
            pod("db-0", "data"),
            node("a1"),
            node("b1", "b"),
        ],
        id="a volume that fits elsewhere does not help once a node was chosen",
    ),
    pytest.param(
        Reason.NO_VOLUME_FITS,
        [
            claim(),
            storage_class(mode="Immediate"),
            volume(claim="gone", phase="Released", spec={"persistentVolumeReclaimPolicy": "Delete"}),
        ],
        id="a Released volume that is about to be deleted is not offered",
    ),
    pytest.param(
        Reason.CLAIM_LOST,
        [claim(volume="pv-1"), volume(claim="other"), storage_class()],
        id="its volume belongs to another claim",
    ),
]


@pytest.mark.parametrize(("code", "documents"), OF_CLAIMS)
def test_of_a_claim(code: Reason, documents: list[Document]) -> None:
    item = why("pvc/data", *documents)
    assert_problem(item, code)


@pytest.mark.parametrize(
    ("target", "code", "documents"),
    [
        pytest.param(
            "pod/db-0",
            Reason.PROGRESSING,
            [
                pod("db-0", cpu="3", status={"nominatedNodeName": "a1"}),
                pod("low", node="a1", cpu="3", metadata=ENDING),
                node("a1"),
            ],
            id="pods of lower priority are ending to make room",
        ),
        pytest.param(
            "pod/db-0",
            Reason.SCHEDULED,
            [
                placed(),
                *BOUND,
                node("a1"),
                of_pod("FailedMount", "bad superblock", ago=ago(minutes=12)),
                of_pod("BackOff", "Back-off pulling image", reporter="kubelet"),
            ],
            id="it was mounted in the meantime",
        ),
        pytest.param(
            "pod/db-0",
            Reason.SCHEDULED,
            [
                placed(),
                *BOUND,
                node("a1"),
                attachment("a1"),
                of_pod("FailedAttachVolume", 'Multi-Attach error for volume "pv-1"', ago=ago(minutes=12)),
                of_pod("SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "pv-1"', type="Normal"),
            ],
            id="it was attached in the meantime",
        ),
        pytest.param(
            "pvc/data",
            Reason.WAIT_FOR_FIRST_CONSUMER,
            [claim(), storage_class(), volume(), pod("db-0", "data", metadata=ENDING), node("a1")],
            id="the only pod that uses it is ending",
        ),
        pytest.param(
            "pod/db-0",
            Reason.IMMEDIATE_CLAIM,
            [
                pod("db-0", "data"),
                claim(storage_class=None, metadata={"creationTimestamp": at(timedelta())}),
                default_class("fast", mode="Immediate"),
                volume(),
            ],
            id="the default class binds at once",
        ),
        pytest.param(
            "pod/db-0",
            Reason.PROGRESSING,
            [pod("db-0", spec=EPHEMERAL, metadata={"creationTimestamp": at(timedelta(seconds=3))}), node("a1")],
            id="the claim of its ephemeral volume is about to be created",
        ),
    ],
)
def test_what_is_no_problem(target: str, code: Reason, documents: list[Document]) -> None:
    item = why(target, *documents)
    assert (item.code, item.problem) == (code, False), item


def test_an_old_event_of_an_extender_does_not_outlive_the_pods_condition() -> None:
    unreached = of_pod("FailedScheduling", 'Post "http://127.0.0.1:1/filter": connection refused', ago=ago(minutes=50))
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "Insufficient cpu"}]
    item = why("pod/db-0", pod("db-0", cpu="9", status={"conditions": conditions}), node("a1"), unreached)
    assert item.code is Reason.NO_NODE_FITS


def test_the_condition_names_an_extender_when_events_may_not_be_read() -> None:
    words = REJECTED.format("ReservedForOther, for web/other until 12:34:00Z")
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}]
    documents = [pod("db-0", "data", status={"conditions": conditions}), *BOUND, node("a1")]
    item = why("pod/db-0", *documents, without=[Source.EVENTS])
    assert item.code is Reason.RESERVED_FOR_OTHER


def test_a_detach_error_is_quoted() -> None:
    item = why("pod/db-0", placed(), *BOUND, node("a1"), node("a2"), attachment("a2"))
    assert item.code is Reason.ATTACH_CONFLICT
    assert [each.found for each in item.evidence] == ["attached to a2", '"in use"']


def test_a_cluster_without_snapshots_has_none() -> None:
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "before"}
    facts = facts_of(claim(spec={"dataSourceRef": source}), NOW_MADE, *INSTALLED, without=[Source.SNAPSHOTS])
    facts = replace(facts, skipped={Source.SNAPSHOTS: NOT_SERVED})
    item = explain_claim(facts, facts.snapshot.claims["web/data"])
    assert item.code is Reason.DATA_SOURCE_NOT_READY
    assert item.next == ("kubectl api-resources --api-group=snapshot.storage.k8s.io",)


@pytest.mark.parametrize("classes", [[], [storage_class("one"), storage_class("two")]], ids=["none", "two"])
def test_a_command_has_no_word_to_be_replaced(classes: list[Document]) -> None:
    item = why("pvc/data", claim(storage_class=None), *classes, volume())
    assert item.code is Reason.NO_STORAGE_CLASS
    assert item.next == ("kubectl get storageclass",)


def test_a_dump_is_as_old_as_its_leases(tmp_path: Path) -> None:
    """Yesterday's dump does not say that everything has been dead since yesterday."""
    path = write_dump(tmp_path, [pod("db-0", status={"conditions": []}), node("a1"), SCHEDULED])
    facts = read_dump([path], BytesIO(), NOW + ago(days=1), "scheduler.cloud.example/").facts
    assert facts.now == NOW - ago(seconds=2)


def test_what_a_quota_rejected_long_ago_does_not_count() -> None:
    def rejected(since: timedelta) -> Document:
        return event("StatefulSet", "db", "FailedCreate", QUOTA.format("data-db-0"), ago=since)

    assert [each.name for each in waiting(facts_of(rejected(ago(minutes=5))), "web")] == ["data-db-0"]
    assert not waiting(facts_of(rejected(ago(minutes=50))), "web")


@pytest.mark.parametrize(
    ("nodes", "command", "advice"),
    [
        ([node("a1")], "kubectl get nodes -L disk", "label a node"),
        ([node("a1", cordoned=True, cpu="1m"), node("a2", cpu="1m")], "kubectl describe node a2", "make room"),
    ],
    ids=["selector", "room"],
)
def test_the_step_is_about_what_is_in_the_way(nodes: list[Document], command: str, advice: str) -> None:
    selecting = {"nodeSelector": {"disk": "ssd"}} if len(nodes) == 1 else {}
    item = why("pod/db-0", pod("db-0", "data", spec=selecting), *BOUND, *nodes)
    assert item.code is Reason.NO_NODE_FITS
    assert item.next == (command,)
    assert advice in item.advice[0]


def test_a_provisioner_that_has_made_a_volume_since_its_lease_lapsed() -> None:
    made = volume("made", claim="other", metadata={**MADE_BY_IT, "creationTimestamp": at(ago(minutes=5))})
    waits = [pod("db-0", "data", cpu="99"), LATER, node("a1"), SCHEDULED]
    item = why("pod/db-0", *STOPPED, *waits, made)
    assert_problem(item, Reason.NO_NODE_FITS)
