"""What is left of a pool while volumes are made there, by what the objects show."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from binder.provisioning.pool import MAX_FOREIGN_AGE, REPORT_LAG
from kube.objects.labels import LabelSelector
from kube.objects.model import Claim
from tests.binder.provisioning.clusters import (
    GI,
    OURS,
    PLACE,
    Cluster,
    local_class,
    made,
    report,
    selected,
    with_driver,
)
from tests.builders import EPOCH, claim, csi_node, node, node_selector, storage_class, volume


def test_a_claim_that_is_being_provisioned_takes_its_room_beside_the_report() -> None:
    cluster = Cluster(report("200Gi"))
    assert cluster.left() == 200

    cluster.put(selected("a", "60Gi"), selected("b", "40Gi"))

    assert cluster.left() == 100
    assert {booking.claim for booking in cluster.room().in_flight} == {"default/a", "default/b"}


def test_the_claims_of_a_pod_are_not_in_its_own_way() -> None:
    cluster = Cluster(report("200Gi"), selected("a", "60Gi"))

    assert cluster.room(without=("uid-default-a",)).left == 200 * GI


def test_a_volume_counts_until_the_report_has_fallen_by_all_that_was_booked_before_it() -> None:
    cluster = Cluster(report("200Gi"))
    cluster.put(selected("a", "50Gi"))
    cluster.put(selected("b", "60Gi"), made("a", "50Gi"), made("b", "60Gi"))

    cluster.put(report("140Gi"))  # That is b alone: nothing says that a is in it.
    assert cluster.left() == 140 - 60
    cluster.put(report("90Gi"))

    assert cluster.left() == 90
    assert cluster.room().in_flight == ()


def test_a_change_alone_proves_nothing() -> None:
    cluster = Cluster(report("200Gi"), selected("a", "50Gi"), selected("b", "60Gi"))
    cluster.put(made("a", "50Gi"), made("b", "60Gi"))

    cluster.put(report("199Gi"))

    assert cluster.left() == 199 - 110


def test_a_fall_before_the_volume_is_saved_counts_for_it_afterwards() -> None:
    cluster = Cluster(report("200Gi"), selected("a", "50Gi"))

    cluster.put(report("150Gi"))
    assert cluster.left() == 100
    cluster.put(made("a", "50Gi"))

    assert cluster.left() == 150


def test_an_equal_report_is_never_written_so_a_volume_is_part_of_it_after_a_time() -> None:
    cluster = Cluster(report("200Gi"), selected("a", "50Gi"))
    cluster.put(made("a", "50Gi"))

    cluster.wait(seconds=119)
    assert cluster.left() == 150
    cluster.wait(seconds=1)

    assert cluster.left() == 200


def test_that_time_grows_with_the_reports_that_a_provisioner_writes_one_by_one() -> None:
    others = [replace(report("1Gi", f"m{number}"), uid=f"m{number}") for number in range(99)]
    cluster = Cluster(report("200Gi"), *others, selected("a", "50Gi"))
    cluster.put(made("a", "50Gi"))

    cluster.wait(seconds=299)
    assert cluster.left() == 150
    cluster.wait(seconds=1)

    assert cluster.left() == 200


def test_a_class_says_itself_how_long_its_reports_take() -> None:
    told = replace(local_class(), annotations=((OURS.report_after, "5m"),))
    cluster = Cluster(told, report("200Gi"), selected("a", "50Gi"))
    cluster.put(made("a", "50Gi"))

    cluster.wait(seconds=299)
    assert cluster.left() == 150
    cluster.wait(seconds=1)

    assert cluster.left() == 200


@pytest.mark.parametrize(
    ("written", "left"),
    [(None, 150), (timedelta(), 150), (timedelta(seconds=1), 150), (REPORT_LAG, 200)],
    ids=["no entry", "equal seconds", "asked for before the volume was saved, perhaps", "asked for after it"],
)
def test_after_a_restart_a_report_includes_what_was_saved_well_before_it_was_written(
    written: timedelta | None, left: int
) -> None:
    cluster = Cluster(report("200Gi", written=None if written is None else EPOCH + written), made("a", "50Gi"))

    assert cluster.left() == left


def test_after_a_restart_everything_in_flight_is_found_again() -> None:
    cluster = Cluster(report("200Gi"), selected("a", "50Gi"), selected("b", "60Gi"))
    cluster.put(made("a", "50Gi"))

    cluster.restart()

    assert cluster.left() == 90


def test_classes_that_differ_only_in_the_file_system_share_a_pool_and_the_least_report_holds() -> None:
    ext4, xfs = local_class("fast", **{"csi.storage.k8s.io/fstype": "ext4"}), local_class("xfs", fsType="xfs")
    other = local_class("slow", tier="hdd")
    cluster = Cluster(ext4, xfs, other, report("200Gi"), report("180Gi", of="xfs"), report("500Gi", of="slow"))

    cluster.put(selected("a", "50Gi", of="xfs"))

    assert [cluster.left(of=name) for name in ("fast", "xfs", "slow")] == [130, 130, 500]


def test_a_volume_counts_beside_each_report_that_does_not_include_it() -> None:
    cluster = Cluster(local_class("fast"), local_class("xfs"), report("200Gi"), report("200Gi", of="xfs"))
    cluster.put(selected("a", "50Gi"))
    cluster.put(made("a", "50Gi"))

    cluster.put(report("150Gi"))

    assert cluster.left() == 150
    cluster.put(report("150Gi", of="xfs"))
    assert cluster.left() == 150


def test_classes_with_one_pool_annotation_share_it() -> None:
    marks = ((OURS.pool, "disks"),)
    fast, bulk = replace(local_class(), annotations=marks), replace(local_class("bulk", tier="b"), annotations=marks)
    cluster = Cluster(fast, bulk, report("200Gi"), report("200Gi", of="bulk"), selected("a", "50Gi", of="bulk"))

    assert cluster.left() == 150


def test_a_class_that_joins_a_pool_later_brings_its_bookings() -> None:
    cluster = Cluster(
        local_class(), local_class("bulk", tier="b"), report("200Gi"), report("200Gi", of="bulk"), selected("a", "50Gi")
    )
    assert cluster.left(of="bulk") == 200
    marks = ((OURS.pool, "disks"),)

    cluster.put(replace(local_class(), annotations=marks), replace(local_class("bulk", tier="b"), annotations=marks))

    assert (cluster.left(), cluster.left(of="bulk")) == (150, 150)


FALSE = [
    pytest.param(lambda: replace(selected(ours=False), selector=LabelSelector()), "Selector", id="a selector"),
    pytest.param(lambda: selected(ours=False, of="none"), "Class", id="a class that does not exist"),
    pytest.param(lambda: selected(ours=False, of="static"), "Class", id="a class that provisions nothing"),
    pytest.param(lambda: selected(ours=False, of="now"), "Class", id="a class that does not wait for a node"),
    pytest.param(lambda: selected(ours=False, where="gone"), "NodeMissing", id="a node that does not exist"),
    pytest.param(lambda: selected(ours=False, where="bare"), "DriverMissing", id="a node without the driver"),
    pytest.param(lambda: selected(ours=False, of="zoned"), "TopologyNotAllowed", id="a place that is not allowed"),
    pytest.param(lambda: selected(ours=False, size="201Gi"), "TooLarge", id="more than was reported"),
    pytest.param(lambda: selected(ours=False, where="n2"), "NoReport", id="a node without a report"),
]


@pytest.mark.parametrize(("false_claim", "why"), FALSE)
def test_a_claim_that_could_not_be_provisioned_there_takes_no_room_and_is_named(
    false_claim: Callable[[], Claim], why: str
) -> None:
    zoned = replace(local_class("zoned"), allowed_topologies=node_selector({"zone": "z"}))
    classes = (local_class(), storage_class("static"), zoned, replace(local_class("now"), binding_mode="Immediate"))
    cluster = Cluster(*classes, report("200Gi"), node("bare"), csi_node("bare", limits={}))

    cluster.put(false_claim())

    assert cluster.left() == 200
    assert cluster.ignored() == {"default/data": why}


def test_a_claim_that_others_placed_counts_for_ten_minutes_without_a_volume_ours_until_it_has_one() -> None:
    cluster = Cluster(report("200Gi"), selected("theirs", "50Gi", ours=False), selected("ours", "30Gi"))
    assert cluster.left() == 120

    cluster.wait(seconds=MAX_FOREIGN_AGE.total_seconds())

    assert cluster.left() == 170
    assert cluster.ignored() == {"default/theirs": "Expired"}


def test_a_claim_stays_uncounted_when_the_list_of_drivers_of_its_node_is_gone() -> None:
    bare = csi_node("bare", limits={})
    cluster = Cluster(report("200Gi"), node("bare"), bare, selected("a", ours=False, where="bare"))
    assert cluster.ignored() == {"default/a": "DriverMissing"}
    cluster.delete(bare)
    assert cluster.ignored() == {"default/a": "DriverMissing"}


def test_a_claim_counts_once_its_node_has_the_driver() -> None:
    cluster = Cluster(report("200Gi"), report("90Gi", "late"), node("late", labels={}), csi_node("late", limits={}))
    cluster.put(selected("a", "50Gi", "late"))
    assert cluster.ignored() == {"default/a": "DriverMissing"}

    cluster.put(node("late", labels={PLACE: "late"}), with_driver("late"))

    assert cluster.left("late") == 40
    assert cluster.ignored() == {}


def test_a_claim_counts_from_the_first_report_of_its_place_on() -> None:
    cluster = Cluster(report("200Gi"), selected("a", "50Gi", "n2"))

    cluster.put(report("200Gi", "n2"))

    assert cluster.left("n2") == 150


def test_a_claim_that_is_withdrawn_leaves_its_room_and_what_later_ones_wait_for() -> None:
    cluster = Cluster(report("200Gi"), selected("a", "50Gi"))
    cluster.put(selected("b", "60Gi"), made("b", "60Gi"))

    cluster.put(claim("a", size="50Gi"))  # The provisioner gave up and removed the node.
    cluster.put(report("140Gi"))

    assert cluster.left() == 140
    assert cluster.room().in_flight == ()


def test_a_claim_deleted_before_any_provisioner_began_takes_nothing() -> None:
    cluster = Cluster(report("200Gi"), selected("a", "50Gi"))

    cluster.delete(selected("a"))

    assert cluster.left() == 200


def test_a_claim_deleted_after_a_provisioner_began_counts_until_its_volume_is_known() -> None:
    cluster = Cluster(report("200Gi"), selected("a", "50Gi", begun=True))
    cluster.delete(selected("a"))
    assert cluster.left() == 150

    cluster.put(replace(made("a", "50Gi"), phase="Released"))
    assert cluster.left() == 150
    cluster.delete(made("a"))

    assert cluster.left() == 200


def test_a_claim_deleted_after_a_provisioner_began_counts_for_ten_minutes_without_a_volume() -> None:
    cluster = Cluster(report("200Gi"), selected("a", "50Gi", begun=True))
    cluster.delete(selected("a"))

    cluster.wait(seconds=MAX_FOREIGN_AGE.total_seconds())

    assert cluster.left() == 200


def test_a_claim_made_again_under_its_name_is_another_one() -> None:
    cluster = Cluster(report("200Gi"), selected("a", "50Gi", begun=True))

    cluster.put(replace(selected("a", "30Gi"), uid="second"))

    assert cluster.left() == 200 - 50 - 30


def test_a_volume_that_appears_elsewhere_moves_its_booking() -> None:
    cluster = Cluster(report("200Gi"), report("200Gi", "n2"), selected("a", "50Gi"))

    cluster.put(made("a", "50Gi", "n2"))

    assert (cluster.left("n1"), cluster.left("n2")) == (200, 150)


def test_a_volume_counts_with_the_size_it_got() -> None:
    cluster = Cluster(report("200Gi"), selected("a", "50Gi"))
    cluster.put(selected("b", "60Gi"), made("a", "80Gi"), made("b", "60Gi"))
    assert cluster.left() == 60

    cluster.put(report("90Gi"))  # By 110: what was booked at first, but 80 and 60 were made.
    assert cluster.left() == 30
    cluster.put(report("60Gi"))

    assert cluster.left() == 60


def test_a_static_volume_takes_nothing() -> None:
    cluster = Cluster(report("200Gi"), selected("a", "50Gi"))

    cluster.put(volume("pv-9", claim=made("a").claim), replace(selected("a", "50Gi"), volume_name="pv-9"))

    assert cluster.left() == 200


def test_an_immediate_claim_counts_from_its_volume_on() -> None:
    cluster = Cluster(local_class(), replace(local_class("now"), binding_mode="Immediate"), report("200Gi"))

    cluster.put(made("a", "50Gi", of="now"), report("200Gi", of="now"))

    assert cluster.left() == 150


def test_an_expansion_counts_until_it_is_reported() -> None:
    bound = replace(claim("a", size="80Gi", volume_name="pvc-a"), phase="Bound")
    cluster = Cluster(report("200Gi"), made("a", "50Gi"), replace(bound, request=made("a", "50Gi").capacity))
    cluster.wait(minutes=3)
    assert cluster.left() == 200

    cluster.put(bound)
    assert cluster.left() == 170
    cluster.put(made("a", "80Gi"))
    assert cluster.left() == 170
    cluster.put(report("170Gi"))

    assert cluster.left() == 170
    assert cluster.room().in_flight == ()


def test_a_volume_settled_by_a_report_is_not_booked_again_when_it_changes() -> None:
    cluster = Cluster(report("200Gi"), selected("a", "50Gi"))
    cluster.put(made("a", "50Gi"))
    cluster.put(report("150Gi"))

    cluster.put(replace(made("a", "50Gi"), phase="Released"))

    assert cluster.left() == 150


def test_a_report_object_that_is_replaced_keeps_what_is_in_flight() -> None:
    cluster = Cluster(report("200Gi"), selected("a", "50Gi"))

    cluster.delete(report("200Gi"))
    cluster.put(replace(report("200Gi"), name="another"))

    assert cluster.left() == 150


def test_a_driver_without_room_for_a_size_is_not_tried_with_it_until_its_report_changes() -> None:
    cluster = Cluster(report("200Gi"))

    cluster.exhausted(80)
    assert cluster.room().fits(80 * GI) is False
    assert cluster.room().fits(79 * GI) is True
    cluster.put(report("199Gi"))

    assert cluster.room().fits(80 * GI) is True


def test_an_exhausted_pool_whose_report_stays_is_tried_after_a_time_that_doubles() -> None:
    cluster = Cluster(report("200Gi"))
    waits = []
    for _ in range(4):
        cluster.exhausted(80)
        since = cluster.now
        while not cluster.room().fits(80 * GI):
            cluster.wait(seconds=10)
        waits.append((cluster.now - since).total_seconds())

    assert waits == [10, 20, 40, 80]
