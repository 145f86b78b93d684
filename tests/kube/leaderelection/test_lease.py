from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kube.clock import micro_time
from kube.leaderelection.lease import (
    Acquire,
    LeaseRecord,
    LeaseTiming,
    Observed,
    Renew,
    StandBy,
    decide,
    held_spec,
    observe,
    parse_lease,
)


def record(holder: str = "other", version: str = "1", renewed: str = "2026-01-01T00:00:00.000000Z") -> LeaseRecord:
    return LeaseRecord(resource_version=version, holder=holder, duration=15.0, transitions=4, renewed=renewed)


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        pytest.param(None, Acquire(0), id="no lease yet"),
        pytest.param(Observed(record(""), 99.0), Acquire(5), id="released"),
        pytest.param(Observed(record("me"), 0.0), Renew(4), id="ours, however old"),
        pytest.param(Observed(record(), 90.0), StandBy("other", 5.0), id="seen alive lately"),
        pytest.param(Observed(record(), 85.0), Acquire(5), id="no change for its duration"),
        pytest.param(Observed(replace(record(""), transitions=2**31 - 1), 99.0), Acquire(0), id="no greater number"),
    ],
)
def test_decision(observed: Observed | None, expected: Acquire | Renew | StandBy) -> None:
    assert decide(observed, "me", 100.0) == expected


def test_only_a_change_restarts_the_wait_and_not_the_clock_of_the_holder() -> None:
    first = observe(None, record(renewed="2030-01-01T00:00:00.000000Z"), 10.0)
    same = observe(first, record(renewed="2030-01-01T00:00:00.000000Z"), 20.0)
    changed = observe(same, record(version="2", renewed="1990-01-01T00:00:00.000000Z"), 24.0)
    assert (first.since, same.since, changed.since) == (10.0, 10.0, 24.0)


def test_times_are_utc_micro_times() -> None:
    assert micro_time(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2026-01-02T03:04:05.000000Z"


def test_a_lease_without_a_spec_counts_as_released() -> None:
    parsed = parse_lease(b'{"metadata":{"resourceVersion":"3"}}', LeaseTiming())
    assert (parsed.holder, parsed.transitions, parsed.resource_version) == ("", 0, "3")


def test_a_renewal_leaves_the_time_of_acquisition_alone() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    taken = held_spec("me", 3, now, LeaseTiming(), acquired=True)
    renewed = held_spec("me", 3, now, LeaseTiming(), acquired=False)
    assert set(taken) - set(renewed) == {"acquireTime"}
    assert renewed["leaseDurationSeconds"] == 15


@pytest.mark.parametrize("timing", [(10, 15, 2), (15, 10, 10), (15, 10, 0)], ids=str)
def test_timing_that_cannot_be_safe_is_rejected(timing: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="lease duration > renew deadline > retry"):
        LeaseTiming(*timing)
