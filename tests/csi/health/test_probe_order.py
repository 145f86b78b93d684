"""Which volumes are probed in between sweeps, and how many."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csi.health.probe_order import MIN_SHARE, next_in_use, spare_probes

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        pytest.param(0, 2400, id="no volumes"),
        pytest.param(10_000, 400, id="as many as the defaults are for"),
        pytest.param(11_500, 200, id="hardly any time is left"),
        pytest.param(12_000, 200, id="a sweep takes its whole interval"),
        pytest.param(100_000, 200, id="far too many for the rate"),
    ],
)
def test_what_the_rate_leaves_is_for_volumes_in_use(volumes: int, expected: int) -> None:
    assert spare_probes(volumes, rate=200.0, interval=60.0, seconds=10.0) == expected


@given(
    volumes=st.integers(0, 200_000),
    rate=st.floats(1, 1_000),
    interval=st.floats(2, 600),
    share=st.floats(0.01, 0.99),
)
def test_all_volumes_are_still_probed_in_the_interval_where_the_rate_permits(
    volumes: int, rate: float, interval: float, share: float
) -> None:
    seconds = share * interval
    count = min(spare_probes(volumes, rate, interval, seconds), volumes)
    needed = count * interval / seconds + (volumes - count)
    least = max(1.0, MIN_SHARE * rate * seconds) * interval / seconds
    assert needed <= max(rate * interval, volumes + least) * (1 + 1e-9)


def test_those_that_pods_wait_for_come_first_then_those_probed_longest_ago() -> None:
    known = {"a": 5, "b": 1, "c": 3, "d": 0, "e": 2}
    chosen = next_in_use([["a", "b", "c"], ["d", "e"]], lambda handle: EPOCH + timedelta(seconds=known[handle]), 4)
    assert chosen == ["b", "c", "a", "d"]


@given(sizes=st.lists(st.integers(0, 20), min_size=1, max_size=3), count=st.integers(1, 10))
def test_each_of_the_first_class_has_its_turn(sizes: list[int], count: int) -> None:
    classes = [[f"{number}-{each}" for each in range(size)] for number, size in enumerate(sizes)]
    known = dict.fromkeys((handle for handles in classes for handle in handles), EPOCH)
    for turn in range(1, -(-len(classes[0]) // count) + 1):
        chosen = next_in_use(classes, known.__getitem__, count)
        assert len(chosen) == len(set(chosen)) == min(count, len(known))
        known |= dict.fromkeys(chosen, EPOCH + timedelta(seconds=turn))
    assert all(known[handle] > EPOCH for handle in classes[0])
