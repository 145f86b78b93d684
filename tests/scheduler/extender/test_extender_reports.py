"""Nodes that report on their storage, and what the extender rejects because of it (KEP-1432)."""

import pytest

from binder.reservation.contract import Annotations
from kube.objects.model import BIND_COMPLETED, SELECTED_NODE, CSINode, Record
from kube.objects.reports import StorageCondition
from kube.store.store import Store
from scheduler.extender.extender import Extender
from tests.builders import claim, csi_node, storage_class, volume
from tests.scheduler.extender_requests import PREFIX, extender, filtered, kept, nodes, put, unhealthy_volume

ALL = ["n1", "n2", "n3", "n4"]
DRIVER, OTHER = "disk.csi.example", "other.csi.example"
MADE = storage_class("made", provisioner=DRIVER)
BOUND = claim(volume_name="pv", phase="Bound", annotations={BIND_COMPLETED: "yes"})


def report(name: str, status: str = "StorageUnreachable", driver: str = DRIVER, access_mode: str = "") -> CSINode:
    return csi_node(name, reports=[StorageCondition(driver, status, "Net", access_mode=access_mode)])


@pytest.mark.parametrize(
    ("records", "rejected"),
    [
        pytest.param([claim(), volume(), report("n1")], ["n1"], id="a free volume"),
        pytest.param([claim(), volume(driver=OTHER), report("n1")], [], id="of another driver"),
        pytest.param([claim(), volume(), report("n1", driver=OTHER)], [], id="another driver reports"),
        pytest.param([claim(), volume(zone="b"), report("n1"), report("n3")], ["n3"], id="where it is reached"),
        pytest.param([claim(), volume(zone="b"), report("n3"), report("n4")], ["n3", "n4"], id="a whole zone"),
        pytest.param([claim(), volume(), report("n1", "StorageDegraded")], [], id="degraded on one of four"),
        pytest.param([claim(), volume(node="n1"), report("n1", "StorageDegraded")], ["n1"], id="degraded and local"),
        pytest.param([claim(), volume(), report("n1", access_mode="ReadWriteMany")], [], id="one access mode"),
        pytest.param([claim(), volume(claim="default/data"), report("n1")], ["n1"], id="a volume that names the claim"),
        pytest.param([BOUND, volume("pv", claim="default/data"), report("n1")], ["n1"], id="a bound volume"),
        pytest.param([BOUND, volume("pv", driver=OTHER), report("n1")], [], id="a bound volume of another driver"),
        pytest.param([MADE, claim(storage_class="made"), report("n1")], ["n1"], id="a volume to be made"),
        pytest.param([claim(), report("n1")], [], id="no volume and no provisioner"),
        pytest.param(
            [MADE, claim(storage_class="made", annotations={SELECTED_NODE: "n1"}), report("n1")], [], id="making it"
        ),
        pytest.param([claim(), volume("a"), volume("b", driver=OTHER), report("n1")], [], id="one as large will do"),
        pytest.param(
            [claim(), volume("a"), volume("b", size="20Gi", driver=OTHER), report("n1")],
            ["n1"],
            id="kube-scheduler takes the smaller",
        ),
        pytest.param(
            [claim(), unhealthy_volume("a"), volume("b", driver=OTHER), report("n1", driver=OTHER)],
            ["n1"],
            id="one is unhealthy and the other out of reach",
        ),
        pytest.param([claim(), volume(), report("n9")], [], id="a node that is not asked about"),
        pytest.param([volume(), report("n1")], [], id="no claim"),
    ],
)
def test_nodes_that_report(records: list[Record], rejected: list[str]) -> None:
    assert kept(extender([*nodes(), *records]), ALL) == [name for name in ALL if name not in rejected]


def test_all_nodes_cut_off_is_reported_of_each_with_the_reason() -> None:
    records: list[Record] = [claim(), volume("pv", zone="b"), *(report(name) for name in ALL)]
    rejected = filtered(extender([*nodes(), *records]), ALL)["FailedAndUnresolvableNodes"]
    message = f"claim data would get volume pv: StorageUnreachable, reported for {DRIVER} by the node's CSINode"
    assert rejected == {"n3": message, "n4": message}


def test_nodes_alike_are_cut_off_from_different_storage() -> None:
    records: list[Record] = [claim(), volume(), report("n1"), report("n2", driver=OTHER)]
    assert kept(extender([*nodes("aaaa"), *records]), ALL) == ["n2", "n3", "n4"]


def test_the_second_claim_of_a_pod() -> None:
    records: list[Record] = [claim("data"), claim("log", size="20Gi"), volume(driver=OTHER), volume("log", size="20Gi")]
    assert kept(extender([*nodes(), *records, report("n1")]), ALL, claims=["data", "log"]) == ALL[1:]


def test_a_report_that_ends() -> None:
    store = Store(PREFIX)
    answers = Extender(store, Annotations())
    records: list[Record] = [storage_class(), *nodes(), claim(), volume(), report("n1")]
    for record in records:
        put(store, record)
    assert kept(answers, ALL) == ALL[1:]
    put(store, csi_node("n1", resource_version=2))
    assert kept(answers, ALL) == ALL


def test_pods_of_other_schedulers_and_without_claims_are_left_alone() -> None:
    answers = extender([*nodes(), claim(), volume(), report("n1")], scheduler_names=["ours"])
    assert kept(answers, ALL) == ALL
    assert kept(answers, ALL, scheduler_name="ours", claims=[]) == ALL
    assert kept(answers, ALL, scheduler_name="ours") == ALL[1:]
