"""How long a verdict may be used."""

from datetime import timedelta

import pytest

from csi.health.verdict import UNKNOWN_KEPT_FOR, HealthState, Verdict
from tests.fake_clock import START

MINUTE, INSTANT = timedelta(minutes=1), timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("state", "age", "fresh"),
    [
        pytest.param(HealthState.HEALTHY, MINUTE, True, id="as old as allowed"),
        pytest.param(HealthState.HEALTHY, MINUTE + INSTANT, False, id="older"),
        pytest.param(HealthState.DATA_LOSS, MINUTE, True, id="unhealthy, as old as allowed"),
        pytest.param(HealthState.UNKNOWN, UNKNOWN_KEPT_FOR, True, id="a failure a moment ago"),
        pytest.param(HealthState.UNKNOWN, UNKNOWN_KEPT_FOR + INSTANT, False, id="a failure before that"),
        pytest.param(HealthState.HEALTHY, -INSTANT, False, id="from the future"),
    ],
)
def test_a_verdict_is_fresh_up_to_an_age(state: HealthState, age: timedelta, *, fresh: bool) -> None:
    assert Verdict(state, "R", "", "s", START - age).fresh(START, MINUTE) is fresh
