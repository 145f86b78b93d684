import pytest

from bench.rows import Row, medians


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


def test_rounds_are_merged_to_the_median_and_the_range() -> None:
    rounds = [[Row("speed", value, "1/s", f"load {value}"), Row("sure", 1, "x")] for value in (5, 9, 4)]
    speed, sure = medians(rounds)
    assert (speed.value, speed.detail) == (5, "4 to 9 in 3 rounds; load 4")
    assert (sure.value, sure.detail) == (1, "1 to 1 in 3 rounds; ")


def test_a_single_round_stays_as_it_is() -> None:
    assert medians([[Row("speed", 5, "1/s", "as it is")]]) == [Row("speed", 5, "1/s", "as it is")]
