"""Everything pending in a table: one line for each cause, the worst first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from prebinder.why.causes.objects import age_of
from prebinder.why.rendering.text import full_name, printable
from prebinder.why.report.report import Item, WhyReport

_CULPRITS: Final = frozenset({"StorageClass", "Provisioner", "Scheduler", "ResourceQuota"})
"""Kinds whose objects each have their own line: the next step differs."""


_SHORT_NOTE: Final = 48
"""Characters of a note that fits before its command."""


@dataclass(slots=True)
class Group:
    """Items with the same cause and root object. The oldest is the example."""

    items: list[Item] = field(default_factory=list)

    @property
    def claims(self) -> int:
        """Claims that this cause keeps from being bound; a pod whose claims are bound counts once."""
        return len({claim for item in self.items for claim in item.claims or (full_name(item),)})

    @property
    def example(self) -> Item:
        return min(self.items, key=lambda item: (item.since is None, item.since.timestamp() if item.since else 0.0))


def groups(items: Iterable[Item]) -> Sequence[Group]:
    """Return the items by cause and root object: problems first, then inconclusive ones, then normal ones."""
    by_cause: dict[tuple[object, ...], Group] = {}
    for item in items:
        culprit = next((link.name for link in item.causes if link.kind in _CULPRITS), "")
        by_cause.setdefault((item.code, item.problem, culprit), Group()).items.append(item)
    return sorted(
        by_cause.values(),
        key=lambda group: (not group.items[0].problem, group.items[0].conclusive, -group.claims, group.items[0].code),
    )


def print_overview(report: WhyReport, console: Console, now: datetime) -> None:
    """Print one line for each cause."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("ROOT CAUSE", no_wrap=True)
    table.add_column("CLAIMS", justify="right", no_wrap=True)
    table.add_column("OLDEST", no_wrap=True)
    table.add_column("EXAMPLE", overflow="ellipsis", no_wrap=True, max_width=28)
    table.add_column("NEXT", overflow="fold", ratio=1)
    for group in groups(report.items):
        item = group.example
        style = "red" if item.problem else "yellow" if not item.conclusive else "green"
        mark = "" if item.problem else " ?" if not item.conclusive else " ○"
        table.add_row(
            Text(f"{item.code}{mark}", style=style),
            str(group.claims),
            age_of(item.since, now) or "-",
            Text(printable(full_name(item))),
            # A command is never truncated; normal states need none.
            Text(_next(item)) if item.problem else Text(_next(item), no_wrap=True, overflow="ellipsis"),
        )
    console.print(table)


def _next(item: Item) -> str:
    if not item.problem:
        return printable(item.message)
    first = item.next[0] if item.next else item.message
    has_note = bool(item.advice) and 0 < len(item.advice[0]) < _SHORT_NOTE
    return printable(f"{item.advice[0]}: {first}" if has_note else first)
