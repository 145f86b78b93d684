"""What the command `health` says of a volume, by who spoke of it."""

import pytest

from csi.verdict import HealthState, Verdict
from kube.model import ClaimReference, Volume
from prebinder.health_rows import HEADERS, WIDE_HEADERS, health_row
from tests.builders import EPOCH, volume

PREFIX = "scheduler.cloud.example/"
SICK = {
    f"{PREFIX}health": "DataLoss",
    f"{PREFIX}health-reason": "Gone",
    f"{PREFIX}health-since": "2026-01-01T00:00:00Z",
}
KEPT = volume(
    annotations=SICK | {f"{PREFIX}quarantine": "DataLoss: Gone"}, claim=ClaimReference("ours", "quarantine-pv-1")
)


def answer(state: HealthState) -> Verdict:
    return Verdict(state, "Said", "in words", "ControllerGetVolume", EPOCH)


@pytest.mark.parametrize(
    ("subject", "asked", "short", "sick"),
    [
        pytest.param(volume(zone="a"), None, ("Unknown", "NotReported", "", "a", ""), False, id="never reported"),
        pytest.param(
            volume(annotations=SICK, claim="default/data"),
            None,
            ("DataLoss", "Gone", "2026-01-01T00:00:00Z", "", "default/data"),
            True,
            id="by its annotations",
        ),
        pytest.param(KEPT, None, ("DataLoss", "Gone", "2026-01-01T00:00:00Z", "", ""), True, id="in quarantine"),
        pytest.param(
            volume(annotations=SICK),
            answer(HealthState.DATA_LOSS),
            ("DataLoss", "Said", "2026-01-01T00:00:00Z", "", ""),
            True,
            id="the driver agrees, so it has lasted",
        ),
        pytest.param(
            volume(annotations=SICK),
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
def test_a_row(subject: Volume, asked: Verdict | None, short: tuple[str, ...], sick: bool) -> None:
    row = health_row(subject, asked, PREFIX)
    assert tuple(row.cells(wide=False)) == ("pv-1", *short)
    assert row.sick is sick
    assert len(row.cells(wide=False)) == len(HEADERS)
    assert len(row.cells(wide=True)) == len(WIDE_HEADERS)


def test_what_is_not_known_is_null_in_json() -> None:
    found = health_row(volume(), None, PREFIX).document()
    assert (found["since"], found["claim"], found["probed"]) == (None, None, None)
    assert found["quarantined"] is False


def test_the_time_of_asking_is_no_news() -> None:
    first = health_row(volume(), answer(HealthState.HEALTHY), PREFIX)
    later = health_row(
        volume(),
        Verdict(HealthState.HEALTHY, "Said", "in words", "ControllerGetVolume", EPOCH.replace(year=2027)),
        PREFIX,
    )
    assert later.same_news(first)
    assert not health_row(volume(), answer(HealthState.DEGRADED), PREFIX).same_news(first)
    assert not first.same_news(None)
