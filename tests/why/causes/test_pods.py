"""Each cause between a pod, its scheduler and the nodes: alone, and hidden under another."""

from datetime import timedelta

import pytest

from binder.matching.rejection import Reason
from kube.objects.model import SELECTED_NODE
from tests.why.documents import (
    BOUND,
    DRIVER,
    RESERVED_FOR_OTHER,
    SCHEDULED,
    Document,
    assert_problem,
    claim,
    csi_node,
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

NEW: Document = {"conditions": []}
GATED = {"schedulingGates": [{"name": "example.com/later"}]}

ALONE = {"accessModes": ["ReadWriteOncePod"]}


def pod_event(reason: str, note: str) -> Document:
    return event("Pod", "db-0", reason, note)


def unscheduled(note: str) -> Document:
    return pod_event("FailedScheduling", note)


def placed() -> Document:
    """A pod on node a1 whose containers have not been started."""
    return pod("db-0", "data", node="a1", status={"phase": "Pending"})


def attachment(on_node: str, *, attached: bool = False, error: str = "") -> Document:
    failed = {"attachError": {"message": error}} if error else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": metadata(f"csi-{on_node}", None),
        "spec": {"attacher": DRIVER, "nodeName": on_node, "source": {"persistentVolumeName": "pv-1"}},
        "status": {"attached": attached, **failed},
    }


CASES = [
    pytest.param(Reason.CLAIM_NOT_FOUND, [pod("db-0", "dtaa"), *BOUND], id="no such claim"),
    pytest.param(Reason.POD_GATED, [pod("db-0", "data", spec=GATED, status=NEW), *BOUND], id="gated"),
    pytest.param(
        Reason.SCHEDULER_NOT_RUNNING,
        [pod("db-0", "data", spec={"schedulerName": "zonal"}, status=NEW), *BOUND, SCHEDULED],
        id="no scheduler of that name",
    ),
    pytest.param(
        Reason.SCHEDULER_NOT_RUNNING,
        [pod("db-0", "data", status=NEW), *BOUND, lease("kube-scheduler", timedelta(hours=2))],
        id="kube-scheduler is gone",
    ),
    pytest.param(
        Reason.TOPOLOGY_CONFLICT,
        [pod("db-0", "data"), *BOUND, node("a1", "a", cordoned=True), node("b1", "b")],
        id="the volume's zone is cordoned",
    ),
    pytest.param(Reason.TOPOLOGY_CONFLICT, [pod("db-0", "data"), *BOUND, node("b1", "b")], id="no node in the zone"),
    pytest.param(
        Reason.VOLUMES_IN_DIFFERENT_ZONES,
        [
            pod("db-0", "data", "logs"),
            *BOUND,
            claim("logs", volume="pv-2"),
            volume("pv-2", claim="logs", zone="b"),
            node("a1", "a"),
            node("b1", "b"),
        ],
        id="two volumes in two zones",
    ),
    pytest.param(Reason.NO_NODE_FITS, [pod("db-0", "data", cpu="9"), *BOUND, node("a1")], id="no node is large enough"),
    pytest.param(
        Reason.ATTACH_LIMIT_REACHED,
        [pod("db-0", "data"), *BOUND, node("a1"), csi_node("a1", DRIVER, limit=0), driver()],
        id="the node attaches no more",
    ),
    pytest.param(
        Reason.VOLUME_IN_USE,
        [
            pod("db-0", "data"),
            claim(volume="pv-1", spec=ALONE),
            volume(claim="data", zone="a", spec=ALONE),
            storage_class(),
            pod("db-1", "data", node="a1"),
            node("a1"),
        ],
        id="another pod has the claim to itself",
    ),
    pytest.param(
        Reason.TOPOLOGY_CONFLICT,
        [pod("db-0", "data"), claim(), volume(zone="a"), storage_class(), node("a1", cordoned=True), node("b1", "b")],
        id="the only volume that fits is where no node is usable",
    ),
    pytest.param(
        Reason.SELECTED_NODE_STALE,
        [
            pod("db-0", "data"),
            claim(metadata={"annotations": {SELECTED_NODE: "a1"}}),
            storage_class(provisioner=DRIVER),
            driver(),
            csi_node("a1", DRIVER),
            node("a1", cordoned=True),
            node("b1", "b"),
            event("PersistentVolumeClaim", "data", "Provisioning", "for it", type="Normal", reporter=DRIVER),
        ],
        id="a volume is being made for a cordoned node",
    ),
    pytest.param(
        Reason.RESERVED_FOR_OTHER,
        [
            pod("db-0", "data", spec={"schedulingGates": [{"name": "scheduler.cloud.example/volumes"}]}, status=NEW),
            claim(),
            volume(metadata={"annotations": RESERVED_FOR_OTHER}),
            storage_class(),
            node("a1"),
        ],
        id="the only volume is reserved for another claim",
    ),
    pytest.param(
        Reason.EXTENDER_UNAVAILABLE,
        [
            pod("db-0", "data"),
            *BOUND,
            node("a1"),
            event(
                "Pod", "db-0", "FailedScheduling", 'Post "http://127.0.0.1:8890/v1/filter": connect: connection refused'
            ),
        ],
        id="an extender does not answer",
    ),
    pytest.param(
        Reason.BIND_TIMEOUT,
        [
            pod("db-0", "data"),
            *BOUND,
            node("a1"),
            unscheduled('running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'),
        ],
        id="binding took too long",
    ),
    pytest.param(
        Reason.DEVICE_CLAIM_PENDING,
        [
            pod("db-0", "data", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}),
            *BOUND,
            node("a1"),
        ],
        id="no such ResourceClaim",
    ),
    *(
        pytest.param(code, [placed(), *BOUND, node("a1"), node("a2"), *more], id=name)
        for code, name, more in [
            (Reason.ATTACH_CONFLICT, "attached elsewhere", [attachment("a2", attached=True)]),
            (Reason.ATTACH_FAILED, "the driver cannot attach it", [attachment("a1", error="no such disk")]),
            (
                Reason.ATTACH_CONFLICT,
                "by its Event",
                [pod_event("FailedAttachVolume", "Multi-Attach error")],
            ),
            (Reason.MOUNT_FAILED, "it cannot be mounted", [pod_event("FailedMount", "bad superblock")]),
            (
                Reason.MOUNT_FAILED,
                "it cannot be mounted by the driver, which is there",
                [pod_event("FailedMount", "bad superblock"), csi_node("a1", DRIVER)],
            ),
        ]
    ),
    # One hidden under another.
    pytest.param(
        Reason.VOLUME_IN_USE,
        [
            pod("db-0", "data", cpu="9"),
            claim(volume="pv-1", spec=ALONE),
            volume(claim="data", zone="a", spec=ALONE),
            storage_class(),
            pod("db-1", "data", node="a1"),
            node("a1"),
        ],
        id="another pod has the claim, and no node is large enough",
    ),
    pytest.param(
        Reason.ATTACH_CONFLICT,
        [
            placed(),
            *BOUND,
            node("a1"),
            attachment("a2", attached=True),
            event("Pod", "db-0", "FailedMount", "timed out waiting for the condition"),
        ],
        id="attached elsewhere, and so not mounted",
    ),
    pytest.param(
        Reason.DRIVER_NOT_ON_NODE,
        [
            placed(),
            *BOUND,
            node("a1"),
            csi_node("a1", "other.csi.example"),
            csi_node("a2", DRIVER),
            pod_event("FailedMount", f"driver name {DRIVER} not found in the list of registered CSI drivers"),
        ],
        id="the driver is not registered on the node, and so the volume is not mounted",
    ),
    pytest.param(
        Reason.DRIVER_NOT_ON_NODE,
        [
            placed(),
            *BOUND,
            node("a1"),
            csi_node("a1"),
            attachment("a1", error="no NodeID"),
            pod_event("FailedAttachVolume", "no NodeID"),
        ],
        id="the driver is not registered on the node, and so the volume is not attached",
    ),
    pytest.param(
        Reason.CLASS_NOT_FOUND,
        [pod("db-0", "data", cpu="9"), claim(storage_class="fsat"), storage_class(), node("a1")],
        id="no class, and no node is large enough",
    ),
    pytest.param(
        Reason.POD_GATED,
        [pod("db-0", "data", spec=GATED, status=NEW), *BOUND, node("b1", "b")],
        id="gated, and no node in the zone",
    ),
]


@pytest.mark.parametrize(("code", "documents"), CASES)
def test_the_cause_of_a_pending_pod(code: Reason, documents: list[Document]) -> None:
    item = why("pod/db-0", *documents)
    assert_problem(item, code)
    assert all(command.startswith("kubectl ") for command in item.next)
    assert item.causes[0].name == "web/db-0"


def test_the_answer_names_the_volumes_zone_and_what_makes_a_node_usable() -> None:
    item = why("pod/db-0", pod("db-0", "data"), *BOUND, node("a1", cordoned=True), node("a2", cpu="0"), node("b1", "b"))
    assert [(link.kind, link.name, link.says) for link in item.causes] == [
        ("Pod", "web/db-0", "Pending"),
        ("PersistentVolumeClaim", "web/data", "Bound"),
        ("PersistentVolume", "pv-1", "zone a"),
    ]
    assert (item.evidence[0].object, item.evidence[0].found) == (
        "a",
        "0 of 2 nodes usable: 1 Insufficient cpu, 1 cordoned",
    )
    assert (item.next, item.advice) == (
        ("kubectl uncordon a1",),
        ("if its maintenance is over; nodes in b cannot help",),
    )


def test_a_volume_that_is_held_for_a_replica_to_come_does_not_become_free_by_itself() -> None:
    prefix = "scheduler.cloud.example/"
    held = {f"{prefix}held-for": "web/data-db-9", f"{prefix}held-set-uid": "uid-db", f"{prefix}held-by": "host/1"}
    item = why(
        "pod/db-0",
        pod("db-0", "data", spec={"schedulingGates": [{"name": f"{prefix}volumes"}]}, status=NEW),
        claim(),
        volume(metadata={"annotations": held}),
        storage_class(),
        node("a1"),
    )
    assert_problem(item, Reason.RESERVED_FOR_OTHER)
    assert "web/data-db-9" in item.message
    assert "without an end" in item.advice[0]


def test_a_claim_that_waits_for_its_pod_is_explained_by_the_pod() -> None:
    waiting = [claim(), volume(zone="a"), storage_class(), pod("db-0", "data", cpu="9"), node("a1")]
    item = why("pvc/data", *waiting)
    assert item.code is Reason.NO_NODE_FITS
    assert [link.kind for link in item.causes] == ["PersistentVolumeClaim", "Pod"]


def test_a_pod_on_a_node_is_no_problem() -> None:
    item = why("pod/db-0", pod("db-0", "data", node="a1"), *BOUND)
    assert (item.code, item.problem) == (Reason.SCHEDULED, False)


def test_without_the_nodes_nothing_is_guessed() -> None:
    item = why("pod/db-0", pod("db-0", "data"), *BOUND, without=[Source.NODES])
    assert (item.code, item.problem) == (Reason.INCONCLUSIVE, False)
    assert "nodes (forbidden)" in item.message


@pytest.mark.parametrize("forbidden", [Source.ATTACHMENTS, Source.ALL_PODS])
def test_what_would_only_add_to_the_answer_is_named(forbidden: Source) -> None:
    documents = [pod("db-0", "data"), *BOUND, node("a1", cordoned=True), node("b1", "b")]
    item = why("pod/db-0", *documents, without=[forbidden])
    assert item.code is Reason.TOPOLOGY_CONFLICT
    assert [skipped.resource for skipped in item.skipped] == [forbidden]


def test_a_resource_that_no_node_has_may_be_one_of_a_device_class() -> None:
    requests = {"resources": {"requests": {"example.com/gpu": "1"}}}
    waits = pod("db-0", "data", spec={"containers": [{"name": "db", **requests}]})
    item = why("pod/db-0", waits, *BOUND, node("a1"))
    assert item.code is Reason.NO_NODE_FITS
    evidence = next(each for each in item.evidence if each.object.endswith("resources.requests"))
    assert evidence.found == "example.com/gpu, which no node has; DeviceClasses are not read"
    assert any("DeviceClass" in step for step in item.advice)
