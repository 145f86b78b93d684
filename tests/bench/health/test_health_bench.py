"""The measurements of sweeps and reactions at a tiny scale: what they count is checked, their speed is not."""

import pytest

from bench.health.delay import distribution
from bench.health.reaction_bench import SMALL, busiest, react
from bench.health.sweep_bench import run as sweep
from bench.health.watch import Seen


def test_a_distribution_is_reported_by_its_longest() -> None:
    row = distribution("delay", [float(number) for number in range(101)], latest=99)
    assert (row.value, row.met) == (100, False)
    assert "p50 50.0 s" in row.detail


@pytest.mark.parametrize(
    ("moments", "most"),
    [([], 0), ([5.0], 1), ([0.0, 0.5, 1.4, 1.45, 1.49, 3.0], 4), ([0.0, 1.0, 2.0], 1)],
    ids=["none", "one", "a window, not a calendar second", "a second apart"],
)
def test_the_busiest_second(moments: list[float], most: int) -> None:
    assert busiest([Seen(at, "v", unhealthy=True, quarantined=False) for at in moments]) == most


def test_sweeps_are_timed() -> None:
    rows = sweep(quick=True)
    assert all(row.value > 0 for row in rows)
    calls = {row.name: int(row.detail.partition(" calls")[0]) for row in rows if " calls" in row.detail}
    by_list = "40 volumes by ControllerListVolumeHealth"
    assert calls[f"{by_list}, from then on"] < 40 < calls[f"{by_list}, the first time, each confirmed by get"]


@pytest.mark.cluster
async def test_reactions_are_seen_on_a_control_plane() -> None:
    rows = {row.name: row for row in await react(SMALL)}
    assert rows["writes while nothing changes"].value == 0
    counted = [row for name, row in rows.items() if row.unit == "" and name != "writes while nothing changes"]
    assert len(counted) == 5
    assert [row.name for row in counted if not row.met] == []
