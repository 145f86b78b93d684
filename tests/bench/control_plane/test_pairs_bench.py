"""Each measurement runs at a tiny scale and yields what it says; no figure is compared here."""

import math

import pytest

from bench.control_plane.pairs_bench import Case, cases, measure

AGENTS = ("ours", "controller manager", "kube-scheduler")


def test_every_case_with_us_has_one_without_us_to_compare_with() -> None:
    chosen = cases(500)
    in_tree = {(case.pairs, case.lifted) for case in chosen if not case.mode}
    assert {(case.pairs, case.lifted) for case in chosen} == in_tree
    assert len({case.title for case in chosen}) == len(chosen)


@pytest.mark.cluster
def test_pairs_are_timed_on_a_control_plane() -> None:
    case = Case(3, "complete", gated=True)
    rows = {row.name.removeprefix(f"{case.title}: "): row.value for row in measure([case])}
    times = ["to Bound", "reserved p50", "bound p50", "bound p99", "on a node p50"]
    assert all(rows[name] > 0 and math.isfinite(rows[name]) for name in times)
    assert rows["answered 409"] >= 0
    # At most the four of the bind, the gate, and an Event; fewer if the PV controller was faster.
    assert 2 <= rows["writes, ours"] <= 6
    assert rows.keys() == {*times, "answered 409", *(f"writes, {who}" for who in AGENTS)}
