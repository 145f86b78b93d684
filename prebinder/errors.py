"""Faults that are told to the user in one line and end the command."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a script can rely on."""

    FINE = 0
    ERROR = 1
    USAGE = 2
    PROBLEM_FOUND = 3
    """The command worked and found something wrong, such as a claim that no volume fits."""
    INCONCLUSIVE = 4
    """The command worked and cannot tell, because something it depends on could not be read."""


class CommandError(Exception):
    """The command cannot go on. Its text says what was wrong, where, and what to do; no traceback is shown."""

    exit_code = ExitCode.ERROR


class UsageError(CommandError):
    """What the user typed or wrote into the configuration file is not valid."""

    exit_code = ExitCode.USAGE
