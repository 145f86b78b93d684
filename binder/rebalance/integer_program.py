"""An integer linear program as a value, and its solution by HiGHS.

HiGHS is loaded by the first program: it is needed only where volumes are short. It gives way to other threads while it
works, runs in one thread and draws from a fixed seed, so that the outcome is the same everywhere unless time runs out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from highspy import HighsLp

_INTEGRAL: Final = 1e-6
"""How far from an integer a value may be: the solver's own tolerance."""


@dataclass(frozen=True, slots=True)
class Row:
    """`least` <= the sum of factor times column <= `most`."""

    factors: Mapping[int, float]
    least: float = -inf
    most: float = inf


@dataclass(frozen=True, slots=True)
class IntegerProgram:
    """Maximise the sum of the columns `gains`, each from 0 to its `most`.

    The first columns, as many as `start` has values and all `gains` among them, are integers, and there is a solution
    with these values. The other columns take any value.
    """

    most: Sequence[float]
    rows: Sequence[Row]
    gains: Sequence[int]
    start: Sequence[int]


@dataclass(frozen=True, slots=True)
class Solution:
    """`values`: of the integer columns. No solution gains more than `bound`. `seconds`: how long it took."""

    values: Sequence[int]
    bound: float
    seconds: float


class Solve(Protocol):
    """Solves integer programs."""

    def __call__(self, program: IntegerProgram, seconds: float, /) -> Solution:
        """Return the best solution found in that time: none that gains less than the program's start."""


def solve(program: IntegerProgram, seconds: float, /) -> Solution:
    """Return the best solution that HiGHS finds in that time, the program's start if it finds none."""
    import highspy  # noqa: PLC0415 - only where volumes are short

    highs = highspy.Highs()
    highs.silent()
    # With one gain for each pod the bound need not come closer than less than one pod. Presolved programs of some
    # hundred columns took seconds between two looks at the time, and found no more.
    options: dict[str, float | str] = {"threads": 1, "random_seed": 0, "time_limit": seconds, "presolve": "off"}
    options |= {"mip_abs_gap": 0.99, "mip_rel_gap": 0.0}
    for name, value in options.items():
        highs.setOptionValue(name, value)
    integers = len(program.start)
    highs.passModel(_as_highs(program))
    highs.setSolution(integers, list(range(integers)), list(map(float, program.start)))
    highs.run()
    information, values = highs.getInfo(), program.start
    if information.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        values = _better(program, highs.getSolution().col_value[:integers])
    # A bound that is not known yet is infinite.
    return Solution(values, information.mip_dual_bound, highs.getRunTime())


def _better(program: IntegerProgram, solution: Sequence[float]) -> Sequence[int]:
    """Return what was found in integers, unless it is not integral or gains less than the start."""
    rounded = [round(value) for value in solution]
    integral = all(abs(value - whole) <= _INTEGRAL for value, whole in zip(solution, rounded, strict=True))
    return rounded if integral and gained(program, rounded) >= gained(program, program.start) else program.start


def gained(program: IntegerProgram, values: Sequence[int]) -> int:
    """Return what these values of the integer columns gain."""
    return sum(values[column] for column in program.gains)


def _as_highs(program: IntegerProgram) -> "HighsLp":
    import highspy  # noqa: PLC0415 - as above

    columns, integers, gains = len(program.most), len(program.start), set(program.gains)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = columns, len(program.rows)
    model.sense_ = highspy.ObjSense.kMaximize
    model.col_cost_ = [float(column in gains) for column in range(columns)]
    model.col_lower_, model.col_upper_ = [0.0] * columns, list(program.most)
    model.row_lower_, model.row_upper_ = [row.least for row in program.rows], [row.most for row in program.rows]
    model.integrality_ = [highspy.HighsVarType.kInteger] * integers
    model.integrality_ += [highspy.HighsVarType.kContinuous] * (columns - integers)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = [0, *accumulate(len(row.factors) for row in program.rows)]
    model.a_matrix_.index_ = [column for row in program.rows for column in row.factors]
    model.a_matrix_.value_ = [factor for row in program.rows for factor in row.factors.values()]
    return model
