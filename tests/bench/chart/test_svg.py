import pytest

from bench.chart.svg import Mark, Panel, picture, ticks


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        pytest.param(5, 60, [5, 10, 20, 50, 100], id="from-a-tick"),
        pytest.param(0.6, 0.7, [0.5, 1], id="within-two"),
        pytest.param(4.9, 5, [2, 5], id="to-a-tick"),
    ],
)
def test_ticks_enclose_the_numbers(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


def test_names_are_escaped() -> None:
    line = [Mark(1, 1, 1, 1), Mark(2, 2, 2, 2)]
    assert "a &lt; b &amp; c" in picture("title", ["a < b & c"], [Panel("panel", [line])], "below", "footer")
