import pytest

from bench.rows import Row


@pytest.mark.parametrize(
    ("row", "met"),
    [
        pytest.param(Row("r", 5, "s"), None, id="no-goal"),
        pytest.param(Row("r", 5, "s", at_most=5), True, id="at-most"),
        pytest.param(Row("r", 6, "s", at_most=5), False, id="too-much"),
        pytest.param(Row("r", 5, "x", at_least=5), True, id="at-least"),
        pytest.param(Row("r", 4, "x", at_least=5), False, id="too-little"),
    ],
)
def test_a_row_knows_whether_its_goal_is_met(row: Row, met: bool | None) -> None:
    assert row.met is met
