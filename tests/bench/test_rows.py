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
    rounds = [
        [Row("speed", value, "1/s", f"load {value}", beside=value / 10), Row("sure", 1, "x")] for value in (5, 9, 4)
    ]
    speed, sure = medians(rounds)
    assert (speed.value, speed.lowest, speed.highest, speed.rounds) == (5, 4, 9, (5, 9, 4))
    assert (speed.detail, speed.beside) == ("load 4", 0.9)
    assert (sure.value, sure.rounds) == (1, (1, 1, 1))


def test_a_single_round_stays_as_it_is() -> None:
    assert medians([[Row("speed", 5, "1/s", "as it is")]]) == [Row("speed", 5, "1/s", "as it is")]
    assert (Row("speed", 5, "1/s").lowest, Row("speed", 5, "1/s").highest) == (5, 5)


def test_rounds_of_one_part_are_a_row() -> None:
    assert Row.of_rounds("speed", [5, 9, 4], "1/s", "in turn") == Row("speed", 5, "1/s", "in turn", rounds=(5, 9, 4))
    assert Row.of_rounds("speed", [5], "1/s") == Row("speed", 5, "1/s")


@pytest.mark.parametrize(("cores", "disturbed"), [(0.0, False), (0.2, False), (0.25, True), (2.0, True)])
def test_a_row_beside_other_work_is_disturbed(cores: float, disturbed: bool) -> None:
    assert Row("speed", 5, "1/s", beside=cores).disturbed is disturbed
