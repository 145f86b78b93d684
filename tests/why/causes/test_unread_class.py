"""A user of one namespace, who may not read classes: what others report about the claim is the answer."""

from datetime import timedelta

import pytest

from binder.matching.rejection import Reason
from kube.objects.model import SELECTED_NODE
from tests.why.documents import DRIVER, Document, at, claim, event, pod, why
from why.facts.facts import Source
from why.report.report import Item

OWN = {Source.CLAIMS, Source.PODS, Source.EVENTS, Source.QUOTAS}
NOT_FOUND = 'storageclass.storage.k8s.io "fast" not found'
FULL = "rpc error: code = ResourceExhausted desc = full"
NO_CLASS = "no persistent volumes available for this claim and no storage class is set"
FIRST = "waiting for first consumer to be created before binding"


def reported(reason: str, note: str, reporter: str = "persistentvolume-controller", minutes: int = 1) -> Document:
    ago = timedelta(minutes=minutes)
    return event("PersistentVolumeClaim", "data", reason, note, reporter=reporter, ago=ago)


def answer(target: str, *documents: Document) -> Item:
    return why(target, *documents, without=set(Source) - OWN)


@pytest.mark.parametrize("target", ["pvc/data", "pod/db-0"])
@pytest.mark.parametrize(
    ("code", "report"),
    [
        (Reason.INSUFFICIENT_STORAGE, reported("ProvisioningFailed", FULL, f"{DRIVER}_controller-0")),
        (Reason.CLASS_NOT_FOUND, reported("ProvisioningFailed", NOT_FOUND)),
        (Reason.NO_STORAGE_CLASS, reported("FailedBinding", NO_CLASS)),
    ],
    ids=["a failure of its provisioner", "no such class", "no class"],
)
def test_what_is_reported_is_the_cause(target: str, code: Reason, report: Document) -> None:
    item = answer(target, claim(), pod("db-0", "data"), report)
    assert (item.code, item.problem) == (code, True), item
    assert "storageclasses" in {skipped.resource for skipped in item.skipped}
    assert item.evidence[0].found.startswith('"')
    assert item.next


@pytest.mark.parametrize(
    ("code", "report"),
    [
        (
            Reason.REQUESTED_VOLUME_MISMATCH,
            reported("VolumeMismatch", 'Cannot bind to requested volume "pv-1": too small'),
        ),
        (Reason.VOLUME_STILL_CLAIMED, reported("FailedBinding", 'volume "pv-1" already bound to a different claim.')),
    ],
    ids=["does not match", "belongs to another"],
)
def test_what_is_reported_of_the_requested_volume_is_the_cause(code: Reason, report: Document) -> None:
    item = answer("pvc/data", claim(spec={"volumeName": "pv-1"}), report)
    assert (item.code, item.problem) == (code, True), item
    assert report["message"] in item.evidence[0].found
    assert answer("pvc/data", claim(), report).code is Reason.INCONCLUSIVE


WAITING = "Waiting for a volume to be created either by the external provisioner 'ebs.csi.aws.com' or manually"
BEGUN = reported("Provisioning", "External provisioner is provisioning", f"{DRIVER}_controller-0")


def test_a_provisioner_that_reports_nothing_does_not_respond() -> None:
    item = answer("pvc/data", claim(), reported("ExternalProvisioning", WAITING))
    assert (item.code, item.problem) == (Reason.PROVISIONER_MISSING, True)
    assert "ebs.csi.aws.com does not respond" in item.message


@pytest.mark.parametrize(
    ("age", "others"), [(timedelta(minutes=1), []), (timedelta(hours=2), []), (timedelta(minutes=14), [BEGUN])]
)
def test_a_provisioner_may_have_begun_with_a_new_or_an_old_claim(age: timedelta, others: list[Document]) -> None:
    waits = claim(metadata={"creationTimestamp": at(age)})
    item = answer("pvc/data", waits, reported("ExternalProvisioning", WAITING), *others)
    assert item.code is Reason.INCONCLUSIVE


def test_a_claim_that_no_pod_uses_is_normal() -> None:
    waits = reported("WaitForFirstConsumer", FIRST)
    item = answer("pvc/data", claim(), waits)
    assert (item.code, item.problem) == (Reason.WAIT_FOR_FIRST_CONSUMER, False)
    assert answer("pvc/data", claim(), pod("db-0", "data"), waits).code is Reason.INCONCLUSIVE


NOT_BOUND = event("Pod", "db-0", "FailedMount", "error processing PVC web/data: PVC is not bound", reporter="kubelet")


@pytest.mark.parametrize("target", ["pvc/data", "pod/db-0"])
def test_a_claim_whose_only_pod_has_its_node_is_bound_by_no_scheduler(target: str) -> None:
    waits = reported("WaitForFirstConsumer", FIRST)
    placed = pod("db-0", "data", node="a1", status={"phase": "Pending"})
    item = answer(target, claim(), placed, waits, NOT_BOUND)
    assert (item.code, item.problem) == (Reason.POD_BYPASSES_SCHEDULER, True), item
    chosen = claim(metadata={"annotations": {SELECTED_NODE: "a1"}})
    assert answer(target, chosen, placed, waits, NOT_BOUND).code is not Reason.POD_BYPASSES_SCHEDULER


def test_an_image_that_cannot_be_pulled_is_no_question_of_volumes() -> None:
    waiting = [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    placed = pod("db-0", "data", node="a1", status={"phase": "Pending", "containerStatuses": waiting})
    item = answer("pod/db-0", claim(volume="pv-1"), placed)
    assert (item.code, item.problem) == (Reason.SCHEDULED, False), item


@pytest.mark.parametrize(
    "report",
    [
        reported("ProvisioningFailed", NOT_FOUND, minutes=10),
        reported("ProvisioningFailed", NOT_FOUND.replace("fast", "slow")),
        reported("ExternalProvisioning", "Waiting for a volume to be created"),
    ],
    ids=["not repeated any more", "of another class", "nothing wrong"],
)
def test_what_does_not_hold_is_no_cause(report: Document) -> None:
    assert answer("pvc/data", claim(), report).code is Reason.INCONCLUSIVE
