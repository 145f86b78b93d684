"""The style of tables, and how they fit a window."""

import sys
from collections.abc import Iterable, Sequence
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from why.rendering.lines import plain

_MAX_WIDTH: Final = 1 << 16
_PLAIN_WIDTH: Final = 160
"""Columns if the output is not a terminal, where the width of the reader's window is unknown."""


class PlainTable(Table):
    """A table in the style of all reports. Cells are printable texts, and never markup."""

    def __init__(self, *headers: str) -> None:
        super().__init__(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for header in headers:
            self.add_column(plain(header), overflow="fold")

    def add_texts(self, *cells: Text | str) -> None:
        """Add a row. An empty cell is shown as a dash."""
        texts = (cell if isinstance(cell, Text) else Text(cell) for cell in cells)
        self.add_row(*(plain(text.plain or "-", str(text.style)) for text in texts))


def table_of(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> PlainTable:
    """Return a table of these rows."""
    table = PlainTable(*headers)
    for row in rows:
        table.add_texts(*row)
    return table


class GrowingTable:
    """A table that is printed in parts as rows come, with its headers before the first."""

    def __init__(self, *headers: str) -> None:
        self._headers = headers
        self._headed = False

    def print(self, rows: Sequence[Sequence[str]]) -> None:
        """Print further rows, and at once also where the output is no terminal."""
        table = table_of(self._headers, rows)
        table.show_header = not self._headed
        self._headed = True
        print_unbroken(table, console_for())
        sys.stdout.flush()


def print_unbroken(table: Table, console: Console) -> None:
    """Print a table without breaking a word or a name: in a window too narrow for that, its lines are longer."""
    cells = [[str(cell) for cell in (column.header, *column.cells)] for column in table.columns]
    words = [max((cell_len(word) for cell in column for word in cell.split()), default=1) for column in cells]
    widths = [max(map(cell_len, column)) for column in cells]
    natural = console.measure(table, options=console.options.update(width=_MAX_WIDTH)).maximum
    too_much = natural - max(console.width, natural - sum(widths) + sum(words))
    for _ in range(too_much):
        widest = max(range(len(widths)), key=lambda place: (widths[place] > words[place], widths[place]))
        widths[widest] -= 1
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width
    window, console.width = console.width, max(console.width, natural - max(too_much, 0))
    console.print(table, crop=False)
    console.width = window


def console_for() -> Console:
    """Return a console on the standard output: formatted on a terminal, plain and wide anywhere else."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH)
