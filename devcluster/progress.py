"""Progress on stderr: in place on a terminal, else a line every few seconds."""

import sys
import time
from typing import TextIO

_LINE_SECONDS = 15.0
_TERMINAL_SECONDS = 0.5


class Progress:
    """The progress of one step; call `tick` often and `done` once."""

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = stream or sys.stderr
        self._start = self._shown = time.monotonic()
        self._in_place = self._stream.isatty()
        self._show(f"{what} ...")

    def tick(self) -> None:
        """Show the elapsed time, if it is due."""
        now = time.monotonic()
        if now - self._shown >= (_TERMINAL_SECONDS if self._in_place else _LINE_SECONDS):
            self._shown = now
            self._show(f"{self._what} ... {duration(now - self._start)}")

    def done(self, outcome: str = "done") -> None:
        """Show the result."""
        self._show(f"{self._what}: {outcome} in {duration(time.monotonic() - self._start)}")
        if self._in_place:
            self._stream.write("\n")

    def _show(self, line: str) -> None:
        # \x1b[K clears what a longer line before left behind.
        self._stream.write(f"\r{line}\x1b[K" if self._in_place else f"{line}\n")
        self._stream.flush()


def duration(seconds: float) -> str:
    """Return `7 s` or `2 min 5 s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
