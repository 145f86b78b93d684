"""What is said of a volume whose claim was deleted, or seems to have been."""

from dataclasses import replace
from datetime import timedelta

import pytest

from binder.matching.rejection import Reason
from binder.reservation.contract import Annotations, Holder, VolumeReservation
from tests.why.documents import (
    NAMESPACE,
    NOW,
    Document,
    assert_problem,
    at,
    claim,
    event,
    facts_of,
    lease,
    node,
    pod,
    storage_class,
    volume,
    why,
)
from tests.why.dumps.dump import attachment
from why.explain.answering import report_on
from why.explain.targets import parse_target
from why.report.report import Item

OURS = Annotations()
DELETE = {"persistentVolumeReclaimPolicy": "Delete"}


@pytest.mark.parametrize(
    ("namespace", "owner"), [(NAMESPACE, "claim web/data, which"), ("other", "claim web/data, which")]
)
def test_a_deleted_claim_is_named_to_all_readers_of_its_volume(namespace: str, owner: str) -> None:
    facts = replace(facts_of(volume(claim="data", phase="Released")), namespace=namespace)
    (item,) = report_on(facts, (parse_target("pv/pv-1"),), namespace).items
    assert f"it holds the data of {owner} was deleted" in item.message


@pytest.mark.parametrize("phase", ["Failed", "Released"])
@pytest.mark.parametrize("bound", [True, False])
def test_a_claim_that_exists_is_not_called_deleted(phase: str, bound: bool) -> None:
    owner = claim(volume="pv-1") if bound else claim(spec={"volumeName": ""})
    stopped = lease("kube-controller-manager", timedelta(hours=1))
    item = why("pv/pv-1", owner, volume(claim="data", phase=phase), node("a1"), stopped)
    assert_problem(item, Reason.VOLUME_FAILED)
    assert item.message == f"The volume is {phase}, as if its claim web/data had been deleted, which exists."
    assert "patch" not in item.next[0]
    assert "last renewed 1h ago" in item.evidence[-1].found


@pytest.mark.parametrize(("phase", "code"), [("Failed", Reason.VOLUME_FAILED), ("Released", Reason.VOLUME_RELEASED)])
def test_a_claim_that_got_another_volume_is_not_called_deleted(phase: str, code: Reason) -> None:
    item = why("pv/pv-1", claim(volume="pv-2"), volume(claim="data", phase=phase, spec=DELETE), node("a1"))
    assert_problem(item, code)
    assert "claim web/data got volume pv-2 instead" in item.message
    assert "was deleted" not in item.message


def test_why_it_failed_is_in_its_status_and_does_not_expire() -> None:
    failed = volume(claim="old", phase="Failed", spec=DELETE, status={"message": "the disk is still attached"})
    item = why("pv/pv-1", failed, node("a1"))
    assert_problem(item, Reason.VOLUME_FAILED)
    assert item.message.startswith("The volume could not be reclaimed after a claim")
    assert item.evidence[-1].found == '"the disk is still attached"'


def test_an_event_says_it_if_its_status_does_not() -> None:
    reported = event("PersistentVolume", "pv-1", "VolumeFailedDelete", "it has snapshots")
    reported["involvedObject"] = {"kind": "PersistentVolume", "name": "pv-1"}
    item = why("pv/pv-1", volume(claim="old", phase="Failed", spec=DELETE), reported, node("a1"))
    assert "it has snapshots" in item.evidence[-1].found


def test_a_volume_that_is_being_deleted_names_its_finalizers() -> None:
    about = {
        "deletionTimestamp": "2026-01-02T11:00:00Z",
        "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"],
    }
    item = why("pv/pv-1", volume(metadata=about), node("a1"))
    assert_problem(item, Reason.VOLUME_TERMINATING)
    assert item.evidence[-1].found == "external-provisioner.volume.kubernetes.io/finalizer"


@pytest.mark.parametrize("claims", [[claim("another")], [claim()]], ids=["gone", "created again"])
def test_a_bound_volume_of_a_deleted_claim_was_not_released(claims: list[Document]) -> None:
    stopped = lease("kube-controller-manager", timedelta(hours=1))
    facts = replace(facts_of(volume(claim="data", claim_uid="old"), *claims, stopped), everywhere=True)
    (item,) = report_on(facts, (parse_target("pv/pv-1"),), NAMESPACE).items
    assert_problem(item, Reason.VOLUME_RELEASED)
    assert "which was deleted: the PV controller has not released it." in item.message
    assert "last renewed 1h ago" in item.evidence[-1].found


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_a_volume_that_the_pv_controller_has_not_seen_yet_is_linked_first(phase: str) -> None:
    item = why("pv/pv-1", volume(phase=phase), node("a1"))
    assert item.code is Reason.PROGRESSING
    assert [link.name for link in item.causes] == ["pv-1"]


def test_a_bound_volume_of_a_claim_that_may_not_be_read_is_bound() -> None:
    item = why("pv/pv-1", volume(claim="data"), node("a1"))
    assert (item.code, item.problem) == (Reason.BOUND, False)


def of_all_namespaces(*documents: Document) -> Item:
    facts = replace(facts_of(*documents), everywhere=True)
    (item,) = report_on(facts, (parse_target("pv/pv-1"),), NAMESPACE).items
    return item


@pytest.mark.parametrize("claims", [[claim("another")], [claim()]], ids=["gone", "created again"])
def test_an_available_volume_that_was_bound_to_a_deleted_claim_is_nobodys(claims: list[Document]) -> None:
    item = of_all_namespaces(volume(claim="data", claim_uid="old", phase="Available"), *claims)
    assert_problem(item, Reason.VOLUME_RELEASED)
    assert "claim web/data, which was deleted: the PV controller has not released it." in item.message


def test_a_bound_volume_of_a_claim_that_got_another_is_not_its_volume() -> None:
    item = of_all_namespaces(volume(claim="data"), claim(volume="pv-2"))
    assert_problem(item, Reason.VOLUME_RELEASED)
    assert item.message.startswith("The volume is Bound, and claim web/data got volume pv-2 instead:")
    assert item.causes[-1].says == "Bound"


@pytest.mark.parametrize("phase", ["Failed", "Released"])
def test_no_claim_reference_is_removed_where_there_is_none(phase: str) -> None:
    item = why("pv/pv-1", volume(phase=phase), node("a1"))
    assert "a deleted claim was deleted" not in item.message
    assert not any("patch" in command for command in item.next)


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ([claim("another")], "for claim web/data only, which does not exist."),
        ([claim(volume="pv-2")], "for claim web/data only, which has volume pv-2."),
        ([claim(size="20Gi")], "for claim web/data only, which it does not fit: TooSmall."),
        ([claim()], "for claim web/data only."),
    ],
    ids=["no claim", "has another", "wants more", "fits"],
)
def test_an_available_volume_says_why_its_claim_does_not_get_it(claims: list[Document], says: str) -> None:
    item = of_all_namespaces(volume(claim="data", claim_uid=None, phase="Available"), *claims)
    assert (item.code, item.problem) == (Reason.AVAILABLE, False)
    assert item.message.endswith(says)


def test_a_reserved_volume_names_the_claim() -> None:
    reservation = VolumeReservation("web/data", "uid-data", NOW, NOW + timedelta(minutes=5), Holder("controller", 1))
    marked = {"annotations": Annotations().for_volume(reservation)}
    item = of_all_namespaces(volume(metadata=marked), claim())
    assert item.message == "Available, and reserved by pvc-prebinder for claim web/data until 12:05:00Z."


def test_a_volume_that_is_being_deleted_names_what_keeps_it() -> None:
    reported = event("PersistentVolume", "pv-1", "VolumeFailedDelete", "it has snapshots")
    reported["involvedObject"] = {"kind": "PersistentVolume", "name": "pv-1"}
    about = {"deletionTimestamp": "2026-01-02T11:00:00Z", "finalizers": ["external-attacher/disk-csi-example"]}
    deleted = volume(claim="data", phase="Released", metadata=about)
    item = why("pv/pv-1", deleted, attachment("lost"), node("a1"), reported)
    assert_problem(item, Reason.VOLUME_TERMINATING)
    assert item.evidence[-2].found == "attached to node lost, which does not exist"
    assert "it has snapshots" in item.evidence[-1].found


def test_a_volume_that_is_being_deleted_does_not_wait_for_a_claim_that_is_gone() -> None:
    item = of_all_namespaces(volume(claim="old", metadata={"deletionTimestamp": "2026-01-02T11:00:00Z"}), claim())
    assert item.message == "The volume is being deleted, and waits until its finalizers are removed."


def test_a_claim_of_which_a_dump_leaves_out_the_uid_is_not_another() -> None:
    assert of_all_namespaces(volume(claim="data"), claim(volume="pv-1", metadata={"uid": ""})).code is Reason.BOUND


def kept_for(owner: str, uid: str) -> Document:
    """A volume that mode provision has set aside for a claim of the namespace `web`."""
    prefix = "scheduler.cloud.example/set-aside-"
    record = {f"{prefix}for": f"{NAMESPACE}/{owner}", f"{prefix}for-uid": uid, f"{prefix}at": at(timedelta(0))}
    return volume(claim="set-aside-pv-1", claim_uid="", phase="Available", metadata={"annotations": record})


def test_a_volume_that_is_kept_while_others_are_made_says_for_which_claim() -> None:
    own = claim("data")
    uid = own["metadata"]["uid"]
    item = why("pv/pv-1", own, storage_class(), kept_for("data", uid), node("a1"))
    assert (item.code, item.problem) == (Reason.PROGRESSING, False)
    assert (
        item.message == "pvc-prebinder keeps the volume for claim web/data until the other volumes of its pod are made."
    )


def test_a_claim_for_which_a_volume_is_kept_waits_for_the_others_of_its_pod() -> None:
    own = claim("data")
    item = why(
        "pvc/data", own, storage_class(), kept_for("data", own["metadata"]["uid"]), node("a1"), pod("db", "data")
    )
    assert item.message == "Volume pv-1 is kept for the claim until the other volumes of its pod are made."
    assert not item.problem


def test_a_claim_learns_that_the_only_volume_is_kept_for_another() -> None:
    item = why(
        "pvc/other", claim("other"), storage_class(), kept_for("data", "uid-of-data"), node("a1"), pod("b", "other")
    )
    assert_problem(item, Reason.RESERVED_FOR_OTHER)
    assert "is kept for claim web/data" in item.message
    assert item.next[0].startswith("kubectl get pv pv-1 -o yaml")


@pytest.mark.parametrize(
    ("state", "reason", "owner", "is_planned"),
    [
        ("DataLoss", "DiskGone", "StatefulSet", True),
        ("Inaccessible", "VolumeNotFound", "StatefulSet", True),
        ("Inaccessible", "PathDown", "StatefulSet", False),
        ("Degraded", "Slow", "StatefulSet", False),
        ("DataLoss", "DiskGone", "ReplicaSet", False),
    ],
)
def test_a_bound_volume_whose_data_is_lost_leads_to_the_plan_of_its_replacement(
    state: str, reason: str, owner: str, is_planned: bool
) -> None:
    words = {OURS.health: state, OURS.health_reason: reason}
    lost = volume(claim="data", phase="Bound", metadata={"annotations": words})
    user = pod("db-0", "data", metadata={"ownerReferences": [{"kind": owner, "name": "db", "controller": True}]})
    item = why("pv/pv-1", claim(volume="pv-1"), lost, user, node("a1"))
    assert_problem(item, Reason.UNHEALTHY)
    assert ("pvc-prebinder replace pod/db-0 -n web" in item.next) is is_planned
    assert ("What is on pv-1 (10Gi) and nowhere else is lost" in " ".join(item.advice)) is is_planned
