"""The table of texts: which row explains an error, and the finding with what the row adds to it."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from string import Formatter
from typing import Final

from kube.plain_text import shell
from why.causes.finding import Finding, Step

MAX_CHARACTERS: Final = 4096
"""As much of an error as is searched. The note of an Event has 1,024; the error of a VolumeAttachment may be longer."""

_NOT_GIVEN: Final = "?"


@dataclass(frozen=True, slots=True)
class TextRow:
    """A text and what it means. `cause`, `advice` and `command` may name its groups, and what its finding is about."""

    name: str
    during: Sequence[str]
    pattern: re.Pattern[str]
    cause: str
    advice: str
    source: str
    command: str = ""


@lru_cache(maxsize=1)
def rows() -> tuple[TextRow, ...]:
    """Return the table, in its order: the first row that matches explains a text. Read once, when it is needed."""
    table = tomllib.loads(files(__package__).joinpath("texts.toml").read_text("utf-8"))["text"]
    return tuple(TextRow(**{**row, "pattern": re.compile(row["pattern"])}) for row in table)


def row_for(during: str, error: str) -> tuple[TextRow, re.Match[str]] | None:
    """Return the row that explains an error of this operation, with its match."""
    searched = error[:MAX_CHARACTERS]
    matches = ((row, row.pattern.search(searched)) for row in rows() if during in row.during)
    return next(((row, match) for row, match in matches if match is not None), None)


def explained(finding: Finding, during: str, error: str, **about: str) -> Finding:
    """Return a finding about this error with the cause and the advice of its row, unchanged if no row explains it.

    `during` is `provision`, `attach`, `mount` or `resize`; `about` are the names that a row may use besides its groups.
    The row's command replaces the finding's one, which stays if the row has none.
    """
    explanation = row_for(during, error)
    if explanation is None:
        return finding
    row, match = explanation
    names = {**about, **{name: value or _NOT_GIVEN for name, value in match.groupdict().items()}}
    command = _command(row.command, names) if row.command else finding.next[0].command
    message = f"{finding.message.removesuffix('.')}: {row.cause.format_map(names)}."
    return replace(finding, message=message, next=(Step(command, row.advice.format_map(names)), *finding.next[1:]))


def _command(template: str, names: Mapping[str, str]) -> str:
    """Return the command of a row, with each name as one word of the shell."""
    return shell(template, *(names[field] for _, field, _, _ in Formatter().parse(template) if field))
