"""What the logs of our processes must not contain."""

from collections.abc import Iterator
from typing import Final

from soak.judge.rules import Violation

_FORBIDDEN: Final = ("Traceback (most recent call last)", "was never retrieved", "was never awaited")
_AROUND: Final = 12


def judge_log(name: str, text: str) -> Iterator[Violation]:
    """Check the log of one process."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if any(words in line for words in _FORBIDDEN):
            shown = "\n    ".join(lines[max(0, number - 2) : number + _AROUND])
            yield Violation("logs are clean", f"{name}, line {number + 1}:\n    {shown}", ())
