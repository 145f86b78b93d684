"""What a published sweep says of one volume."""

from datetime import timedelta

import pytest

from csi.health.complete_sweep import OLD, SweepReport
from csi.health.verdict import HealthState
from tests.fake_clock import START

MINUTE = timedelta(minutes=1)


def report(volumes: int = 3, unsupported: int = 0, exceptions: frozenset[str] | None = frozenset()) -> SweepReport:
    return SweepReport(
        "d", START, START, MINUTE, version=7, volumes=volumes, unsupported=unsupported, exceptions=exceptions
    )


@pytest.mark.parametrize(
    ("sweep", "state"),
    [
        pytest.param(report(), HealthState.HEALTHY, id="no exception"),
        pytest.param(report(exceptions=frozenset({"other"})), HealthState.HEALTHY, id="an exception of another volume"),
        pytest.param(report(exceptions=frozenset({"v"})), HealthState.UNKNOWN, id="an exception"),
        pytest.param(report(exceptions=None), HealthState.UNKNOWN, id="too many exceptions to be named"),
        pytest.param(report(volumes=0), HealthState.UNKNOWN, id="it probed no volume"),
        pytest.param(report(unsupported=3), HealthState.UNSUPPORTED, id="a driver that reports no health"),
        pytest.param(report(unsupported=2), HealthState.HEALTHY, id="a driver that reports health of some"),
    ],
)
def test_a_volume_without_an_annotation(sweep: SweepReport, state: HealthState) -> None:
    assert sweep.state_of("v") is state


@pytest.mark.parametrize(
    ("version", "age", "covered"),
    [
        pytest.param(6, timedelta(), True, id="seen in an older version"),
        pytest.param(7, timedelta(), True, id="seen in this version"),
        pytest.param(8, timedelta(), False, id="changed since"),
        pytest.param(8, OLD, True, id="changed since, but old enough"),
        pytest.param(8, None, False, id="of unknown age"),
    ],
)
def test_what_a_sweep_covers(version: int, age: timedelta | None, *, covered: bool) -> None:
    assert report().covers(version, None if age is None else START - age) is covered
