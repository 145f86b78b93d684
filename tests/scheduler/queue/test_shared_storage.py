"""Pods that wait for what is left of a driver's storage: sums, reports of several classes, and volumes in flight.

kube-scheduler compares each claim alone with one report, so its hints know of none of this.
"""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from kube.objects.model import CSIStorageCapacity, Record
from kube.rules.quantity import parse_quantity
from scheduler.cycle.cycle import Unschedulable, decide
from scheduler.cycle.diagnosis import diagnose
from scheduler.framework.cluster_event import ClusterEvent
from scheduler.queue.expiry import RECHECK_SECONDS
from scheduler.queue.hints import may_help
from scheduler.queue.requeue import wanted_by
from tests.binder.provisioning.clusters import local_class, made, report, selected
from tests.scheduler.volumes.test_pod_sums import PROFILE, base, user, view

FORMATTED = {"csi.storage.k8s.io/fstype": "xfs"}
"""A class of these parameters shares the storage of one without."""
ROOMY = report("100Gi")


def stated(capacity: str, largest: str | None = None) -> CSIStorageCapacity:
    return report(capacity, largest=largest)


def of_other_class(size: str) -> CSIStorageCapacity:
    return report(size, of="formatted")


def rejected(*records: Record | None, sizes: Iterable[str] = ("40Gi", "40Gi")) -> Unschedulable | None:
    """Decide for a pod with claims of these sizes; None if it fits."""
    shown = (record for record in records if record is not None)
    cluster = view(*base("n1"), local_class("formatted", **FORMATTED), *user("db", *sizes), *shown)
    decision = decide(cluster.storage.snapshot.pods["default/db"], cluster, PROFILE)
    return decision if isinstance(decision, Unschedulable) else None


@pytest.mark.parametrize(
    ("beside", "old", "new"),
    [
        pytest.param((), stated("70Gi"), stated("80Gi"), id="more is free"),
        pytest.param((), stated("70Gi", "60Gi"), stated("80Gi", "80Gi"), id="one volume may be larger"),
        pytest.param((), stated("70Gi", "81Gi"), stated("90Gi", "81Gi"), id="more is free for the sum only"),
        pytest.param((), None, ROOMY, id="a first report"),
        pytest.param(
            (ROOMY,), of_other_class("70Gi"), of_other_class("80Gi"), id="the report of the other class grows"
        ),
        pytest.param((ROOMY,), of_other_class("70Gi"), None, id="the smaller of two reports is gone"),
    ],
)
def test_a_report_that_leaves_more_wakes_the_pod(
    beside: tuple[Record, ...], old: Record | None, new: Record | None
) -> None:
    before = rejected(*beside, old)
    assert before is not None
    assert rejected(*beside, new) is None, "the change makes it fit"
    hints, wanted = diagnose(before).hints, wanted_by(before)
    assert may_help(before.judgement.info.pod, hints, ClusterEvent(old, new), wanted)


def test_reports_about_other_storage_do_not_wake_it() -> None:
    before = rejected(stated("70Gi"))
    assert before is not None
    hints, wanted, elsewhere = diagnose(before).hints, wanted_by(before), report("70Gi", of="strange")
    grown = replace(elsewhere, capacity=parse_quantity("500Gi"))
    for old, new in ((elsewhere, grown), (None, elsewhere), (elsewhere, None)):
        assert not may_help(before.judgement.info.pod, hints, ClusterEvent(old, new), wanted)


@pytest.mark.parametrize(
    ("in_flight", "seconds"),
    [
        pytest.param((), None, id="nothing"),
        pytest.param((selected("other", "30Gi"),), RECHECK_SECONDS, id="a volume to be made"),
        pytest.param((made("other", "30Gi"),), RECHECK_SECONDS, id="a volume that is not reported yet"),
        pytest.param((selected("other", "30Gi", of="formatted"),), RECHECK_SECONDS, id="of the other class"),
    ],
)
def test_a_pod_beside_volumes_in_flight_is_retried_soon_for_they_end_without_a_report(
    in_flight: tuple[Record, ...], seconds: float | None
) -> None:
    unschedulable = rejected(ROOMY, of_other_class("100Gi"), *in_flight, sizes=("60Gi", "50Gi"))
    assert unschedulable is not None
    assert wanted_by(unschedulable).again_in == seconds


def test_volumes_in_flight_in_other_storage_are_no_reason_to_retry() -> None:
    unschedulable = rejected(
        stated("70Gi"), local_class("strange", disk="slow"), report(of="strange"), selected("other", of="strange")
    )
    assert unschedulable is not None
    assert wanted_by(unschedulable).again_in is None
