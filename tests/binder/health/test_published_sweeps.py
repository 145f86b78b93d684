"""Reports of complete sweeps: written on a Lease and read again, and what they say of a volume."""

import json
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binder.health.published_sweeps import (
    PublishedSweep,
    published_sweeps,
    sweeps_annotation,
    swept_health,
    unpublished_exceptions,
)
from binder.reservation.contract import Annotations
from csi.health.complete_sweep import MAX_NAMED, CompleteSweep, SweepReport, report_of
from csi.health.verdict import HealthState
from kube.objects.model import Volume
from tests.builders import EPOCH, volume

DRIVER = "disk.csi.example"
OURS = Annotations()
MINUTE = timedelta(minutes=1)
NOW = EPOCH + timedelta(hours=1)
REPORT = SweepReport(
    DRIVER, NOW - timedelta(seconds=13), NOW - timedelta(seconds=12), MINUTE, version=50, volumes=3, unhealthy=1
)
SWEPT = volume(resource_version=50, created=NOW - timedelta(seconds=30))
LOST = {OURS.health: "DataLoss", OURS.health_reason: "Gone"}


def by(report: SweepReport, lease: str = "ns/lease") -> PublishedSweep:
    return PublishedSweep(report, lease)


def published(subject: Volume, *sweeps: PublishedSweep, now: datetime = NOW) -> tuple[str, str] | None:
    swept = swept_health(subject, sweeps, OURS, now)
    return None if swept is None else (str(swept.finding.state), swept.finding.reason)


HEALTHY = ("Healthy", "Probed")


@pytest.mark.parametrize(
    ("subject", "report", "expected"),
    [
        pytest.param(SWEPT, REPORT, HEALTHY, id="swept"),
        pytest.param(
            volume(annotations={OURS.health: "Healthy"}, resource_version=50), REPORT, HEALTHY, id="recovered before"
        ),
        pytest.param(volume(driver="other.csi.example"), REPORT, None, id="another driver's"),
        pytest.param(volume(source="nfs"), REPORT, None, id="of no driver"),
        pytest.param(volume(handle=""), REPORT, None, id="without a handle"),
        pytest.param(volume(annotations=LOST), REPORT, None, id="it reports itself unhealthy"),
        pytest.param(
            volume(resource_version=51, created=NOW - timedelta(minutes=4)),
            REPORT,
            ("Unknown", "NotSweptYet"),
            id="newer than the sweep",
        ),
        pytest.param(volume(resource_version=51, created=None), REPORT, ("Unknown", "NotSweptYet"), id="of no age"),
        pytest.param(volume(resource_version=51), REPORT, HEALTHY, id="old, and changed since"),
        pytest.param(
            SWEPT,
            replace(REPORT, exceptions=frozenset({"handle-pv-1"})),
            ("Unknown", "Unconfirmed"),
            id="an exception, not published yet",
        ),
        pytest.param(SWEPT, replace(REPORT, exceptions=None), ("Unknown", "Unconfirmed"), id="too many exceptions"),
        pytest.param(
            SWEPT, replace(REPORT, unsupported=3, unhealthy=0), ("Unsupported", "NoHealthCapability"), id="unsupported"
        ),
        pytest.param(SWEPT, replace(REPORT, volumes=0), ("Unknown", "Unconfirmed"), id="a sweep of nothing"),
    ],
)
def test_what_a_sweep_says(subject: Volume, report: SweepReport, expected: tuple[str, str] | None) -> None:
    assert published(subject, by(report)) == expected


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        pytest.param(timedelta(seconds=-30), HEALTHY, id="this machine's clock is slow"),
        pytest.param(timedelta(minutes=-2), ("Unknown", "SweepOutdated"), id="it is wrong"),
        pytest.param(timedelta(seconds=119), HEALTHY, id="one sweep was missed"),
        pytest.param(timedelta(seconds=121), ("Unknown", "SweepOutdated"), id="two were"),
    ],
)
def test_a_sweep_counts_until_the_next_but_one_is_due(later: timedelta, expected: tuple[str, str]) -> None:
    assert published(SWEPT, by(REPORT), now=NOW + later) == expected


def test_sweeps_that_take_long_count_longer() -> None:
    slow = replace(REPORT, began=REPORT.ended - timedelta(minutes=10))
    assert published(replace_version(1), by(slow), now=NOW + timedelta(minutes=20)) == HEALTHY


def replace_version(version: int) -> Volume:
    return volume(resource_version=version)


def test_of_several_sweeping_processes_the_latest_is_named_and_each_must_agree() -> None:
    later = replace(REPORT, began=NOW - timedelta(seconds=2), ended=NOW)
    swept = swept_health(SWEPT, [by(REPORT), by(later, "other/lease")], OURS, NOW)
    assert swept is not None
    assert (swept.ended, swept.finding.source) == (
        NOW,
        f"CSI driver {DRIVER}, as reported on Lease other/lease",
    )
    doubting = replace(REPORT, exceptions=frozenset({"handle-pv-1"}))
    assert published(SWEPT, by(doubting), by(later)) == ("Unknown", "Unconfirmed")
    outdated = replace(doubting, began=NOW - timedelta(hours=1), ended=NOW - timedelta(hours=1))
    assert published(SWEPT, by(outdated), by(later)) == HEALTHY
    assert published(SWEPT) is None


@pytest.mark.parametrize(
    ("report", "covered"),
    [
        pytest.param(REPORT, True, id="found healthy"),
        pytest.param(
            replace(REPORT, exceptions=frozenset({"handle-pv-1"}), unknown=1), False, id="named as an exception"
        ),
    ],
)
def test_a_volume_is_covered_by_a_sweep_that_knows_its_state(report: SweepReport, covered: bool) -> None:
    swept = swept_health(SWEPT, [by(report)], OURS, NOW)
    assert swept is not None
    assert swept.covered is covered


handles = st.sampled_from([f"handle-{number}" for number in range(4)])


@given(
    st.dictionaries(handles, st.sampled_from([state for state in HealthState if state is not HealthState.HEALTHY])),
    st.integers(4, 9),
    st.integers(0, 10**6),
)
def test_what_is_written_is_read(exceptions: dict[str, HealthState], volumes: int, version: int) -> None:
    sweep = CompleteSweep(DRIVER, EPOCH, EPOCH + MINUTE, volumes, exceptions)
    report = report_of(sweep, MINUTE, version, unpublished_exceptions(sweep, (), OURS))
    written = sweeps_annotation({DRIVER: report, "b": replace(report, driver="b")}, OURS)
    read = published_sweeps(written[OURS.sweeps], "ns/lease")
    assert [sweep.report for sweep in read] == [replace(report, driver="b"), report]
    for handle in (f"handle-{number}" for number in range(4)):
        spoken = swept_health(volume(handle=handle), read[1:], OURS, EPOCH + MINUTE)
        assert spoken is not None
        if spoken.finding.state is HealthState.HEALTHY:
            assert handle not in exceptions


def test_the_bound_on_what_is_named() -> None:
    states = {f"handle-pv-{number}": HealthState.INACCESSIBLE for number in range(MAX_NAMED + 1)}
    sweep = CompleteSweep(DRIVER, EPOCH, EPOCH, 500, states)
    assert unpublished_exceptions(sweep, (), OURS) is None
    named = [volume(f"pv-{number}", annotations=LOST) for number in range(MAX_NAMED)]
    assert unpublished_exceptions(sweep, named, OURS) == frozenset({f"handle-pv-{MAX_NAMED}"})
    others = [volume(exception.name, annotations=LOST, driver="other") for exception in named]
    assert unpublished_exceptions(sweep, others, OURS) is None


def test_a_report_that_names_no_losses_proves_none() -> None:
    twice = frozenset({"handle-1", "handle-2"})
    written = json.loads(sweeps_annotation({DRIVER: replace(REPORT, lost=2, lost_twice=twice)}, OURS)[OURS.sweeps])
    (read,) = published_sweeps(json.dumps(written), "ns/lease")
    assert (read.report.lost, read.report.lost_twice) == (2, twice)
    older = [{key: value for key, value in written[0].items() if key not in {"lost", "lostTwice"}}]
    (read,) = published_sweeps(json.dumps(older), "ns/lease")
    assert (read.report.lost, read.report.lost_twice) == (0, None)


def test_too_many_losses_to_be_named_prove_none() -> None:
    lost = frozenset(f"handle-{number}" for number in range(MAX_NAMED + 1))
    sweep = CompleteSweep(DRIVER, EPOCH, EPOCH, 500, dict.fromkeys(lost, HealthState.DATA_LOSS), lost)
    assert report_of(sweep, MINUTE, 1, None, lost).lost_twice is None


GOOD = json.loads(sweeps_annotation({DRIVER: REPORT}, OURS)[OURS.sweeps])[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "not JSON",
        "[1]",
        '["\ud800"]',
        *(
            json.dumps([{**GOOD, **change}])
            for change in (
                {"began": "yesterday"},
                {"ended": "0001-01-01T00:00:00Z"},
                {"intervalSeconds": 1e300},
                {"intervalSeconds": -1},
                {"resourceVersion": "many"},
                {"resourceVersion": "9" * 5000},
                {"exceptions": [1]},
                {"driver": None},
            )
        ),
    ],
)
def test_what_cannot_be_read_counts_as_absent(text: str) -> None:
    assert published_sweeps(text, "ns/lease") == []


def test_one_bad_report_hides_no_other() -> None:
    text = json.dumps([{**GOOD, "began": "no"}, GOOD, {**GOOD, "began": "0001-01-01T00:00:00Z", "more": 1}])
    read = published_sweeps(text, "ns/lease")
    assert [sweep.report.driver for sweep in read] == [DRIVER, DRIVER]
    assert published(SWEPT, *read) is not None
