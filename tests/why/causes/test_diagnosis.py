"""The answers about a claim, its pod and the claim that it is copied from agree."""

from datetime import timedelta

import pytest

from binder.matching.rejection import Reason
from kube.objects.model import SELECTED_NODE
from tests.why.documents import (
    DRIVER,
    DYNAMIC,
    INSTALLED,
    Document,
    assert_problem,
    claim,
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

NOTHING = timedelta()


def test_a_claim_and_its_pod_agree_that_it_has_taken_too_long() -> None:
    waiting = [claim(), volume(zone="a"), storage_class(), pod("db-0", "data"), node("n1")]
    of_claim, of_pod = why("pvc/data", *waiting), why("pod/db-0", *waiting)
    assert (of_pod.code, of_pod.problem) == (Reason.PROGRESSING, True)
    assert (of_claim.code, of_claim.problem, of_claim.next) == (of_pod.code, of_pod.problem, of_pod.next)
    assert [link.name for link in of_claim.causes] == ["web/data", "web/db-0"]


def test_a_claim_and_its_pod_agree_about_what_may_not_be_read() -> None:
    waiting = [claim(), volume(zone="a"), storage_class(), pod("db-0", "data"), node("n1")]
    of_claim, of_pod = (why(each, *waiting, without=[Source.EVENTS]) for each in ("pvc/data", "pod/db-0"))
    assert (of_claim.code, of_claim.problem) == (of_pod.code, of_pod.problem) == (Reason.INCONCLUSIVE, False)


def test_a_pod_and_its_immediate_claim_agree_that_it_has_taken_too_long() -> None:
    alive = lease("disk-csi-example", NOTHING, "storage")
    waiting = [claim(), DYNAMIC, *INSTALLED, alive, pod("db-0", "data"), node("n1")]
    of_claim, of_pod = why("pvc/data", *waiting), why("pod/db-0", *waiting)
    assert (of_claim.code, of_claim.problem) == (of_pod.code, of_pod.problem) == (Reason.PROGRESSING, True)
    assert of_claim.next == of_pod.next


def test_a_pod_and_its_claim_agree_that_provisioning_takes_too_long() -> None:
    begun = event("PersistentVolumeClaim", "data", "Provisioning", "It is provisioning", reporter=DRIVER, type="Normal")
    chosen = claim(metadata={"annotations": {SELECTED_NODE: "n1"}})
    later, alive = storage_class(provisioner=DRIVER), lease("disk-csi-example", NOTHING, "storage")
    waiting = [chosen, later, *INSTALLED, alive, begun, pod("db-0", "data"), node("n1")]
    of_claim, of_pod = why("pvc/data", *waiting), why("pod/db-0", *waiting)
    assert (of_claim.code, of_claim.problem) == (of_pod.code, of_pod.problem) == (Reason.PROGRESSING, True)
    assert of_claim.next == of_pod.next
    assert of_claim.evidence == of_pod.evidence
    assert [link.name for link in of_pod.causes] == ["web/db-0", "web/data"]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ({}, Reason.CLASS_NOT_FOUND),
        ({"error": {"message": "the PVC original is not yet bound to a PV"}}, Reason.CLASS_NOT_FOUND),
        ({"boundVolumeSnapshotContentName": "content"}, Reason.DATA_SOURCE_NOT_READY),
    ],
    ids=["not tried", "failed", "taken"],
)
def test_a_snapshot_of_a_claim_that_is_not_bound(state: Document, code: Reason) -> None:
    """The cause is that of the claim, unless the snapshot was taken before."""
    api = "snapshot.storage.k8s.io"
    snapshot: Document = {
        "apiVersion": f"{api}/v1",
        "kind": "VolumeSnapshot",
        "metadata": metadata("before"),
        "spec": {"source": {"persistentVolumeClaimName": "original"}},
        "status": {"readyToUse": False, **state},
    }
    copy = claim("copy", spec={"dataSourceRef": {"apiGroup": api, "kind": "VolumeSnapshot", "name": "before"}})
    item = why("pvc/copy", copy, DYNAMIC, *INSTALLED, snapshot, claim("original", "fsat"))
    assert_problem(item, code)
    if code is Reason.CLASS_NOT_FOUND:
        assert [each.name for each in item.causes] == ["web/copy", "web/before", "web/original", "fsat"]
