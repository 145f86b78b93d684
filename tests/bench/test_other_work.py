import pytest

from bench.other_work import OtherWork, busy_seconds

STAT = """\
cpu  1000 20 300 90000 50 0 40 5 0 0
cpu0 600 10 200 45000 30 0 40 5 0 0
cpu1 400 10 100 45000 20 0 0 0 0 0
intr 1 2 3
"""


def test_busy_is_everything_but_idle_and_waiting_for_disks() -> None:
    assert busy_seconds(STAT, {0, 1}) == pytest.approx(13.65)
    assert busy_seconds(STAT, {1}) == pytest.approx(5.1)


def test_our_own_work_is_not_other_work() -> None:
    others = OtherWork()
    assert others.cores() >= 0
