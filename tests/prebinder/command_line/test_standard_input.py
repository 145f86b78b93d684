"""A command that reads a file of objects from a terminal does not seem to hang."""

import os
import pty
import subprocess
import sys

import pytest

WAITING = "waiting for objects at the terminal"
ENDED = b"\x04" * 4
"""Ctrl-D, once for each time that the end may be read."""


@pytest.mark.parametrize("command", ["why", "match", "simulate"])
def test_it_says_that_it_waits_and_how_to_end_that(command: str) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, ENDED)
    arguments = [sys.executable, "-m", "prebinder.cli", command, "-f", "-"]
    finished = subprocess.run(arguments, stdin=theirs, capture_output=True, check=False, text=True)
    os.close(theirs)
    os.close(ours)
    assert f"pvc-prebinder {command}: {WAITING}, as YAML or JSON; Ctrl-D ends them" in finished.stderr


def test_piped_input_is_read_without_a_word() -> None:
    arguments = [sys.executable, "-m", "prebinder.cli", "why", "-f", "-"]
    finished = subprocess.run(arguments, input="{}", capture_output=True, check=False, text=True)
    assert WAITING not in finished.stderr
