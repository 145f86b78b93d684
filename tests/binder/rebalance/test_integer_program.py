from itertools import product
from math import isfinite

from hypothesis import given, settings
from hypothesis import strategies as st

from binder.rebalance.integer_program import IntegerProgram, Row, gained, solve

factors = st.dictionaries(st.integers(0, 2), st.integers(1, 3).map(float), min_size=1)
rows = st.lists(st.builds(Row, factors, most=st.integers(0, 8).map(float)), min_size=1, max_size=3)


@given(rows=rows, gains=st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True), kept=st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_values_gain_more_than_the_solution(rows: list[Row], gains: list[int], kept: bool) -> None:
    fixed = frozenset({0}) if kept else frozenset()
    program = IntegerProgram([3.0] * 3, rows, gains, [0, 0, 0], fixed)
    solution = solve(program, 60.0)
    possible = [values for values in product(range(4), repeat=3) if _holds(program, values)]
    assert tuple(solution.values) in possible
    assert gained(program, solution.values) == max(gained(program, values) for values in possible)
    assert isfinite(solution.bound)


def test_without_time_the_start_is_the_answer() -> None:
    program = IntegerProgram([9.0] * 2, [Row({0: 2.0, 1: 3.0}, most=12.0)], [0, 1], [0, 4])
    assert gained(program, solve(program, 0.0).values) >= 4


def _holds(program: IntegerProgram, values: tuple[int, ...]) -> bool:
    sums = [sum(factor * values[column] for column, factor in row.factors.items()) for row in program.rows]
    within = all(row.least <= total <= row.most for row, total in zip(program.rows, sums, strict=True))
    return within and all(values[column] == program.start[column] for column in program.fixed)
