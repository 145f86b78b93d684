"""What CSINodes report about storage: for nodes, and for volumes that can be reached from nowhere else."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from binder.health.node_storage import NodeStorage, reject_storage
from binder.matching.rejection import Reason
from binder.model.decision import Reject, Reserve
from kube.objects.model import CSINode, Volume
from kube.objects.reports import StorageCondition
from kube.store.store import snapshot_of
from tests.binder.views import NOW, chosen, planned, view
from tests.builders import claim, csi_node, node, pod, volume

DRIVER = "disk.csi.example"
CUT = StorageCondition(DRIVER, "StorageUnreachable", "Net")
SLOW = StorageCondition(DRIVER, "StorageDegraded", "Slow")


def reporting(name: str, *conditions: StorageCondition) -> CSINode:
    return csi_node(name, reports=conditions)


NODES = (node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b"))
LOCAL, ZONAL, ANYWHERE = volume("local", node="a1"), volume("zonal", zone="a"), volume("anywhere")


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        pytest.param({}, {}, id="nothing reported"),
        pytest.param({"a1": [CUT]}, {"local": "Inaccessible"}, id="one node: the end of its local volume"),
        pytest.param(
            {"a1": [CUT], "a2": [SLOW]}, {"local": "Inaccessible", "zonal": "Degraded"}, id="the best node counts"
        ),
        pytest.param(
            {"a1": [SLOW, CUT], "a2": [CUT], "b1": [CUT]},
            {"local": "Inaccessible", "zonal": "Inaccessible", "anywhere": "Inaccessible"},
            id="every node",
        ),
        pytest.param({"a1": [StorageCondition("other", "StorageUnreachable")]}, {}, id="another driver's storage"),
        pytest.param({"a1": [StorageCondition(DRIVER, "StorageOdd")]}, {}, id="an unknown word"),
        pytest.param(
            {"a1": [StorageCondition(DRIVER, "StorageUnreachable", volume_mode="Block")]}, {}, id="another volume mode"
        ),
        pytest.param(
            {"a1": [StorageCondition(DRIVER, "StorageUnreachable", access_mode="ReadWriteOnce")]},
            {"local": "Inaccessible"},
            id="its access mode",
        ),
    ],
)
def test_a_volume_is_as_healthy_as_the_best_of_its_nodes(
    reports: Mapping[str, list[StorageCondition]], expected: Mapping[str, str]
) -> None:
    snapshot = snapshot_of((*NODES, *(reporting(name, *conditions) for name, conditions in reports.items())))
    storage = NodeStorage()
    findings = {volume.name: storage.finding(volume, snapshot, NOW) for volume in (LOCAL, ZONAL, ANYWHERE)}
    assert {name: str(finding.state) for name, finding in findings.items() if finding is not None} == expected


def test_a_later_report_is_seen() -> None:
    before = snapshot_of((*NODES, reporting("a1", CUT)))
    storage = NodeStorage()
    cut = storage.finding(LOCAL, before, NOW)
    assert cut is not None
    assert storage.finding(LOCAL, snapshot_of((*NODES, reporting("a1", SLOW))), NOW) != cut
    assert storage.finding(LOCAL, snapshot_of(NODES), NOW) is None


def test_a_report_without_a_time_counts_from_the_moment_of_reading() -> None:
    storage, snapshot = NodeStorage(), snapshot_of((*NODES, reporting("a1", CUT)))
    moments = (NOW, NOW + timedelta(hours=1))
    assert [getattr(storage.finding(LOCAL, snapshot, now), "since", None) for now in moments] == [*moments]


def test_a_node_without_its_storage_is_not_for_the_pod() -> None:
    snapshot = snapshot_of((*NODES, reporting("a1", SLOW, CUT)))
    rejected = reject_storage([DRIVER], snapshot, "a1")
    assert rejected is not None
    assert (rejected.reason, rejected.subject) == (Reason.STORAGE_UNREACHABLE, "a1")
    assert rejected.offered == "StorageUnreachable: Net (status.storageHealth of CSINode a1)"
    assert reject_storage(["other"], snapshot, "a1") is None
    assert reject_storage([DRIVER], snapshot, "a2") is None


def plan_with(*records: CSINode | Volume) -> Reserve | Reject:
    seen = view(node("a1"), node("a2"), claim("data"), pod("web", claims=["data"]), *records)
    decision = planned(seen)["web"]
    assert isinstance(decision, Reserve | Reject)
    return decision


def test_the_plan_takes_a_node_that_reaches_the_storage() -> None:
    decision = plan_with(volume("pv-1"), reporting("a1", CUT))
    assert (chosen(decision), getattr(decision, "node", "")) == ({"data": "pv-1"}, "a2")


def test_a_degraded_node_is_still_taken() -> None:
    assert getattr(plan_with(volume("pv-1"), reporting("a1", SLOW)), "node", "") == "a1"


def test_a_volume_of_another_driver_may_go_there() -> None:
    assert getattr(plan_with(volume("pv-1", driver="other"), reporting("a1", CUT)), "node", "") == "a1"


def test_a_local_volume_whose_node_is_cut_off_is_rejected_with_the_source() -> None:
    decision = plan_with(volume("pv-1", node="a1"), reporting("a1", CUT))
    assert isinstance(decision, Reject)
    evidence = [str(rejection) for rejection in decision.rejections if rejection.reason is Reason.UNHEALTHY]
    assert any("Inaccessible: Net (status.storageHealth of CSINode a1)" in line for line in evidence)


def test_all_nodes_cut_off_for_the_pod_is_reported_as_such() -> None:
    """Two zones: the volume can be reached from b1, where the pod may not go."""
    seen = view(
        node("a1", labels={"disk": "yes"}),
        node("b1"),
        claim("data"),
        pod("web", claims=["data"], node_selector={"disk": "yes"}),
        volume("pv-1"),
        reporting("a1", CUT),
    )
    decision = planned(seen)["web"]
    assert isinstance(decision, Reject)
    assert decision.reason is Reason.NO_NODE_FITS
    assert Reason.STORAGE_UNREACHABLE in {rejection.reason for rejection in decision.rejections}
