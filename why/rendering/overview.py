"""Everything pending in a table: one line for each cause, the worst first."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from rich.console import Console
from rich.text import Text

from kube.plain_text import printable
from why.causes.objects import age_of
from why.rendering.text import full_name, note_lines
from why.report.report import Item, WhyReport

_CULPRITS: Final = {
    "StorageClass": "class",
    "Provisioner": "driver",
    "Scheduler": "scheduler",
    "ResourceQuota": "quota",
}
"""Kinds whose objects each have their own line, because the next step differs; and how they are called there."""


_SHORT_NOTE: Final = 48
"""Characters of a note that fits before its command."""

_HEADER: Final = ("ROOT CAUSE", "OF", "CLAIMS", "OLDEST", "EXAMPLE")
_EXAMPLE_WIDTH: Final = 20
"""Columns to which examples are aligned; a longer one moves its own line only."""

_CHANGES: Final = re.compile(r"^kubectl .*\b(?:annotate|delete|patch|taint)\b")
"""Commands that are never shown without their note: it says what is lost, or what to make sure of first."""

_INDENT: Final = " " * 4
_MIN_TEXT_COLUMNS: Final = 12
"""Columns of a text that is worth its place, even if the line is then longer than the window."""


@dataclass(slots=True)
class CauseGroup:
    """Items with the same cause and root object. The oldest is the example."""

    items: list[Item] = field(default_factory=list)

    @property
    def claims(self) -> int:
        """Claims that this cause keeps from being bound; a pod whose claims are bound counts once."""
        return len({claim for item in self.items for claim in item.claims or (full_name(item),)})

    @property
    def example(self) -> Item:
        return min(self.items, key=lambda item: (item.since is None, item.since.timestamp() if item.since else 0.0))


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the table: its cells but the last, and the next step. `note` follows it, unless it is empty."""

    cells: tuple[str, str, str, str, str]
    style: str
    next: str
    note: str
    is_problem: bool


def groups(items: Iterable[Item]) -> Sequence[CauseGroup]:
    """Return the items by cause and root object: problems first, then inconclusive ones, then normal ones."""
    by_cause: dict[tuple[object, ...], CauseGroup] = {}
    for item in items:
        by_cause.setdefault((item.code, item.problem, _culprit(item)), CauseGroup()).items.append(item)
    return sorted(
        by_cause.values(),
        key=lambda group: (not group.items[0].problem, group.items[0].conclusive, -group.claims, group.items[0].code),
    )


def _culprit(item: Item) -> str:
    """Return the object that tells a cause from an equal one, such as `class fast`; empty if there is none."""
    for link in item.causes:
        if link.kind in _CULPRITS:
            # A provisioner reports as DRIVER_POD_UID: each of its pods reports the same.
            return f"{_CULPRITS[link.kind]} {link.name.partition('_')[0]}"
    return ""


def print_overview(report: WhyReport, console: Console, now: datetime, *, headers: bool = True) -> None:
    """Print one line for each cause. A next step that does not fit beside it follows on a line of its own: neither a
    name nor a command is ever truncated or broken.
    """
    rows = [_row(group, now) for group in groups(report.items)]
    widths = [max(len(cell) for cell in column) for column in zip(_HEADER, *(row.cells for row in rows), strict=True)]
    widths[-1] = min(widths[-1], _EXAMPLE_WIDTH)
    if headers:
        console.print(Text(f"{_aligned(_HEADER, widths)}  NEXT", style="bold"), soft_wrap=True)
    for row in rows:
        line = _aligned(row.cells, widths)
        left = console.width - len(line) - 2
        is_below = row.is_problem and (len(row.next) > left or bool(row.note))
        beside = "" if is_below else textwrap.shorten(row.next, max(left, _MIN_TEXT_COLUMNS), placeholder=" ...")
        code = len(row.cells[0])
        console.print(Text.assemble((line[:code], row.style), f"{line[code:]}  {beside}".rstrip()), soft_wrap=True)
        if is_below:
            console.print(Text(f"{_INDENT}{row.next}"), soft_wrap=True)
        for noted in note_lines(row.note, console.width, len(_INDENT) + 2):
            console.print(Text(noted), soft_wrap=True)


def _row(group: CauseGroup, now: datetime) -> _Row:
    item = group.example
    style = "red" if item.problem else "yellow" if not item.conclusive else "green"
    mark = "" if item.problem else " ?" if not item.conclusive else " ○"
    culprit, age = printable(_culprit(item)) or "-", age_of(item.since, now) or "-"
    cells = (f"{item.code}{mark}", culprit, str(group.claims), age, printable(full_name(item)))
    note = item.advice[0] if item.problem and item.next and _CHANGES.match(item.next[0]) else ""
    return _Row(cells, style, _next(item, note), printable(note), is_problem=item.problem)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return the cells in columns; numbers end at the same place."""
    code, culprit, claims, oldest, example = cells
    first = f"{code:<{widths[0]}}  {culprit:<{widths[1]}}"
    return f"{first}  {claims:>{widths[2]}}  {oldest:<{widths[3]}}  {example:<{widths[4]}}"


def _next(item: Item, note: str) -> str:
    if not item.problem:
        return printable(item.message)
    first = item.next[0] if item.next else item.message
    has_note = not note and bool(item.advice) and 0 < len(item.advice[0]) < _SHORT_NOTE
    return printable(f"{item.advice[0]}: {first}" if has_note else first)
