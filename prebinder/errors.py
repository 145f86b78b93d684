"""Errors that are reported to the user in one line and end the command."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes that scripts can rely on."""

    FINE = 0
    ERROR = 1
    USAGE = 2
    PROBLEM_FOUND = 3
    """The command worked and found a problem, such as a claim that no volume fits."""
    INCONCLUSIVE = 4
    """The command worked but the result is inconclusive, because something it depends on could not be read."""


class CommandError(Exception):
    """The command cannot continue. Its text states the problem, its place, and the next step; no traceback is shown."""

    exit_code = ExitCode.ERROR


class UsageError(CommandError):
    """An invalid argument or configuration file."""

    exit_code = ExitCode.USAGE
