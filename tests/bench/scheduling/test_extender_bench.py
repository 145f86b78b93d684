"""The measurements of the extender run, and measure what they say."""

import math

import pytest

from bench.scheduling import extended_bench, extender_bench
from bench.scheduling.extender_target import LOCAL, MADE, PLAIN, RESERVED, Echo, ours
from scheduler.extender.wire import read
from tests.scheduler.extender_requests import NOW

NAMES = [f"node-{number}" for number in range(9)]


@pytest.mark.parametrize("claim", ["", RESERVED, PLAIN, LOCAL, MADE])
def test_what_is_compared_with_the_echo_answers_as_much(claim: str) -> None:
    body = extender_bench.request(NAMES, claim)
    assert read(body).names == NAMES
    answers, echo = ours(len(NAMES), NOW), Echo()
    assert len(answers.prioritize(body, NOW).body) >= len(echo.prioritize(body, NOW).body)
    rejected = claim in {PLAIN, MADE}
    assert (answers.filter(body, NOW).body == echo.filter(body, NOW).body) is not rejected


def test_the_extender_is_timed() -> None:
    rows = extender_bench.run(quick=True)
    assert all(row.value > 0 and math.isfinite(row.value) for row in rows)
    assert len(rows) == 16


@pytest.mark.cluster
def test_kube_scheduler_is_timed_on_a_control_plane() -> None:
    rows = extended_bench.run(quick=True)
    assert all(row.value > 0 and math.isfinite(row.value) for row in rows)
    assert len(rows) == 8, "five rates and, of three with an extender, the share kept"
