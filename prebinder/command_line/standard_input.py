"""What a command says when it waits for its input at a terminal."""

import sys
from collections.abc import Sequence

from why.rendering.lines import warn


def announce_waiting(filenames: Sequence[str], command: str) -> None:
    """Write a line to the standard error if `-` is among the files and nothing is piped in: it would seem to hang."""
    if "-" in filenames and sys.stdin.isatty():
        warn("waiting for objects at the terminal, as YAML or JSON; Ctrl-D ends them", command)
