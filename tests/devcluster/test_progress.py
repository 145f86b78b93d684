import io

import pytest

from devcluster.progress import Progress, duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_in_a_log_there_is_a_line_at_the_start_and_one_at_the_end() -> None:
    stream = io.StringIO()
    progress = Progress("building x", stream)
    progress.tick()
    progress.done()
    assert stream.getvalue() == "building x ...\nbuilding x: done in 0 s\n"


def test_on_a_terminal_it_stays_on_its_line_until_the_end() -> None:
    stream = Terminal()
    progress = Progress("building x", stream)
    assert "\n" not in stream.getvalue()
    progress.done("failed")
    assert stream.getvalue().split("\r")[-1] == "building x: failed in 0 s\x1b[K\n"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.9, "59 s"), (60.0, "1 min 0 s"), (3725.0, "62 min 5 s")]
)
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text
