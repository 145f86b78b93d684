"""Each measurement runs at a tiny scale and yields what it says; how fast is never asked here."""

import math

import pytest

from bench.control_plane.pairs_bench import Case, cases, measure


def test_every_case_with_us_has_one_without_us_to_compare_with() -> None:
    chosen = cases(500)
    in_tree = {(case.pairs, case.lifted) for case in chosen if not case.mode}
    assert {(case.pairs, case.lifted) for case in chosen} == in_tree
    assert len({case.title for case in chosen}) == len(chosen)


@pytest.mark.cluster
def test_pairs_are_timed_on_a_control_plane() -> None:
    rows = {row.name: row.value for row in measure([Case(3, "complete", gated=True)])}
    assert all(value > 0 and math.isfinite(value) for value in rows.values())
    assert len(rows) == 4
