from collections.abc import Sequence
from itertools import product
from math import isfinite

from hypothesis import given, settings
from hypothesis import strategies as st

from binder.rebalance.integer_program import IntegerProgram, Row, gained, solve

factors = st.dictionaries(st.integers(0, 2), st.integers(1, 3).map(float), min_size=1)
rows = st.lists(st.builds(Row, factors, most=st.integers(0, 8).map(float)), min_size=1, max_size=3)
columns = st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True)
VALUES = tuple(product(range(4), repeat=3))


@given(rows=rows, gains=columns, number=st.integers(0, len(VALUES) - 1))
@settings(max_examples=100, deadline=None)
def test_no_values_gain_more_than_the_solution(rows: list[Row], gains: list[int], number: int) -> None:
    start = next(values for values in (*VALUES[number:], *VALUES) if holds(rows, values))
    program = IntegerProgram([3.0] * 3, rows, gains, start)
    solution = solve(program, 60.0)
    possible = [values for values in VALUES if holds(rows, values)]
    most = max(gained(program, values) for values in possible)
    assert tuple(solution.values) in possible
    assert gained(program, solution.values) == most
    assert not isfinite(solution.bound) or solution.bound > most - 1e-6


def test_without_time_the_start_is_the_answer() -> None:
    program = IntegerProgram([9.0] * 2, [Row({0: 2.0, 1: 3.0}, most=12.0)], [0, 1], [0, 4])
    assert gained(program, solve(program, 0.0).values) >= 4


def holds(rows: Sequence[Row], values: Sequence[int]) -> bool:
    sums = [sum(factor * values[column] for column, factor in row.factors.items()) for row in rows]
    return all(row.least <= total <= row.most for row, total in zip(rows, sums, strict=True))
