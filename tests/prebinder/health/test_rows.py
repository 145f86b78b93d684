"""What the command `health` says of a volume, by who spoke of it."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from binder.health.node_storage import NodeStorage
from binder.health.published_sweeps import PublishedSweep
from binder.health.reported_health import reported
from binder.reservation.contract import Annotations
from csi.health.complete_sweep import SweepReport
from csi.health.verdict import HealthState, Verdict
from kube.objects.model import ClaimReference, Volume
from kube.objects.reports import ClaimHealth, HealthCondition, NodeReport
from kube.store.store import snapshot_of
from prebinder.health.rows import HEADERS, WIDE_HEADERS, HealthRow, health_row
from tests.builders import EPOCH, claim, volume

PREFIX = "scheduler.cloud.example/"
UNHEALTHY = {
    f"{PREFIX}health": "DataLoss",
    f"{PREFIX}health-reason": "Gone",
    f"{PREFIX}health-since": "2026-01-01T00:00:00Z",
}
KEPT = volume(
    annotations=UNHEALTHY | {f"{PREFIX}quarantine": "DataLoss: Gone"}, claim=ClaimReference("ours", "quarantine-pv-1")
)


def answer(state: HealthState) -> Verdict:
    return Verdict(state, "Said", "in words", "ControllerGetVolume", EPOCH)


def row_of(
    subject: Volume, verdict: Verdict | None, health: ClaimHealth | None = None, *sweeps: SweepReport
) -> HealthRow:
    snapshot = snapshot_of([subject, msgspec.structs.replace(claim("data", volume_name=subject.name), health=health)])
    drivers = {subject.driver} if verdict is not None else frozenset[str]()
    now = EPOCH + timedelta(days=1)
    reports = reported(subject, snapshot, NodeStorage(), Annotations(), drivers, now)
    published = [PublishedSweep(sweep, "ns/lease") for sweep in sweeps]
    return health_row(subject, verdict, reports, Annotations(), now, published)


@pytest.mark.parametrize(
    ("subject", "verdict", "short", "unhealthy"),
    [
        pytest.param(volume(zone="a"), None, ("Unknown", "NotReported", "", "a", ""), False, id="never reported"),
        pytest.param(
            volume(annotations=UNHEALTHY, claim="default/data"),
            None,
            ("DataLoss", "Gone", "2026-01-01T00:00:00Z", "", "default/data"),
            True,
            id="by its annotations",
        ),
        pytest.param(KEPT, None, ("DataLoss", "Gone", "2026-01-01T00:00:00Z", "", ""), True, id="in quarantine"),
        pytest.param(
            volume(annotations=UNHEALTHY),
            answer(HealthState.DATA_LOSS),
            ("DataLoss", "Said", "2026-01-01T00:00:00Z", "", ""),
            True,
            id="the driver agrees, so it has lasted",
        ),
        pytest.param(
            volume(annotations=UNHEALTHY),
            answer(HealthState.HEALTHY),
            ("Healthy", "Said", "", "", ""),
            False,
            id="the driver knows better",
        ),
        pytest.param(
            volume(), answer(HealthState.UNKNOWN), ("Unknown", "Said", "", "", ""), False, id="the driver is silent"
        ),
    ],
)
def test_a_row(subject: Volume, verdict: Verdict | None, short: tuple[str, ...], unhealthy: bool) -> None:
    row = row_of(subject, verdict)
    assert tuple(row.cells(wide=False)) == ("pv-1", *short)
    assert row.unhealthy is unhealthy
    assert len(row.cells(wide=False)) == len(HEADERS)
    assert len(row.cells(wide=True)) == len(WIDE_HEADERS)


def test_what_is_not_known_is_null_in_json() -> None:
    document = row_of(volume(), None).document()
    assert (document["since"], document["claim"], document["probed"]) == (None, None, None)
    assert document["quarantined"] is False


def test_the_time_of_the_probe_is_no_change() -> None:
    first = row_of(volume(), answer(HealthState.HEALTHY))
    later = row_of(
        volume(),
        Verdict(HealthState.HEALTHY, "Said", "in words", "ControllerGetVolume", EPOCH.replace(year=2027)),
    )
    assert later.same_news(first)
    assert not row_of(volume(), answer(HealthState.DEGRADED)).same_news(first)
    assert not first.same_news(None)


BOUND = volume(claim="default/data")
LOST = ClaimHealth((HealthCondition("DataLoss", "Gone", "in words"),), EPOCH, (NodeReport("n1", True),))


def test_all_sources_are_named_and_the_worst_is_shown() -> None:
    row = row_of(BOUND, answer(HealthState.DEGRADED), LOST)
    assert (row.health, row.reason, row.source) == ("DataLoss", "Gone", "status.healthStatus of the claim")
    assert row.since == "2026-01-01T00:00:00Z"
    assert row.message == (
        "in words; but ControllerGetVolume reports Degraded (Said); but csi-addons on n1 reports Healthy "
        "(VolumeConditionNormal)"
    )
    assert row.unhealthy


def test_what_says_no_time_has_none() -> None:
    row = row_of(BOUND, None, ClaimHealth((HealthCondition("Degraded", "Slow"),)))
    assert (row.health, row.since, row.probed) == ("Degraded", "", "")


DAY = EPOCH + timedelta(days=1)
JUST_SWEPT = SweepReport(
    BOUND.driver, DAY - timedelta(seconds=13), DAY - timedelta(seconds=12), timedelta(minutes=1), 1, 9
)
LEASE = f"CSI driver {BOUND.driver}, as reported on Lease ns/lease"


def test_a_volume_that_was_just_swept_is_healthy() -> None:
    row = row_of(volume(zone="a"), None, None, JUST_SWEPT)
    assert tuple(row.cells(wide=False)) == ("pv-1", "Healthy", "probed 12s ago", "", "a", "")
    document = row.document()
    assert (document["health"], document["reason"], document["probed"]) == ("Healthy", "Probed", "2026-01-01T23:59:48Z")
    assert (document["since"], document["source"], "age" in document) == (None, LEASE, False)
    assert row.same_news(replace(row, probed="later", age="1s"))
    gone = row.deleted()
    assert "ago" not in " ".join(gone.cells(wide=True))


def test_a_sweep_that_does_not_count_says_why_and_when() -> None:
    outdated = replace(JUST_SWEPT, began=EPOCH, ended=EPOCH)
    row = row_of(volume(), None, None, outdated)
    assert tuple(row.cells(wide=False)) == ("pv-1", "Unknown", "SweepOutdated", "", "", "")
    assert (row.probed, row.source, row.message) == (
        "2026-01-01T00:00:00Z",
        LEASE,
        "the last complete sweep is too old to count",
    )
    assert row_of(volume(driver="other.csi.example"), None, None, JUST_SWEPT).reason == "NotReported"


def test_what_others_report_counts_beside_a_sweep() -> None:
    row = row_of(BOUND, None, LOST, JUST_SWEPT)
    assert (row.health, row.reason, row.age) == ("DataLoss", "Gone", "")
    assert f"but {LEASE} reports Healthy (Probed)" in row.message
    outdated = replace(JUST_SWEPT, began=EPOCH, ended=EPOCH)
    assert "SweepOutdated" not in row_of(BOUND, None, LOST, outdated).message
    published = row_of(volume(annotations=UNHEALTHY), None, None, JUST_SWEPT)
    assert (published.health, published.message) == ("DataLoss", "")


def test_a_command_that_probes_the_driver_needs_no_sweep() -> None:
    row = row_of(volume(), answer(HealthState.UNKNOWN), None, JUST_SWEPT)
    assert (row.health, row.reason, row.age) == ("Unknown", "Said", "")
