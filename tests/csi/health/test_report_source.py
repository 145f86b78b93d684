"""A driver's message becomes one line of bounded length that a terminal prints as it is."""

import pytest

from csi.health.report_source import printable


@pytest.mark.parametrize(
    ("message", "line"),
    [
        pytest.param("disk \u00e9 is slow", "disk \u00e9 is slow", id="as it is"),
        pytest.param(" two\n  lines\t", "two lines", id="one line"),
        pytest.param("red \x1b[31m", "red \N{REPLACEMENT CHARACTER}[31m", id="no escape sequence"),
        pytest.param("a" * 20, "a" * 20, id="as long as it may be"),
        pytest.param("a" * 21, "a" * 19 + "\N{HORIZONTAL ELLIPSIS}", id="longer"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_message_is_one_line_of_bounded_length(message: str, line: str) -> None:
    assert printable(message, 20) == line
