"""The style of tables, and how they fit a window."""

import sys
from collections.abc import Iterable, Sequence
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kube.plain_text import printable

_MAX_WIDTH: Final = 1 << 16
"""Columns if the output is not a terminal: a program reads it by lines."""


def plain(text: str, style: str = "") -> Text:
    """Return a text for a console or a cell, which is never markup."""
    return Text(printable(text), style=style)


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


def table_of(headers: Sequence[str], rows: Iterable[Sequence[str]], *, headed: bool = True) -> PlainTable:
    """Return a table of these rows, and of its headers unless it is not `headed`."""
    table = PlainTable(*headers)
    table.show_header = headed
    for row in rows:
        table.add_texts(*row)
    return table


class GrowingTable:
    """A table that is printed in parts as rows come, with its headers before the first."""

    def __init__(self, *headers: str, headed: bool = True) -> None:
        self._headers = headers
        self._headed = not headed

    def print(self, rows: Sequence[Sequence[str]]) -> None:
        """Print further rows, and at once also where the output is no terminal."""
        table = table_of(self._headers, rows, headed=not self._headed)
        self._headed = True
        print_unbroken(table, console_for())
        sys.stdout.flush()


def print_unbroken(table: Table, console: Console) -> None:
    """Print a table without breaking a word or a name: in a window too narrow for that, its lines are longer."""
    cells = [[*([str(column.header)] * table.show_header), *map(str, column.cells)] for column in table.columns]
    words = [max((cell_len(word) for cell in column for word in cell.split()), default=1) for column in cells]
    widths = [max(map(cell_len, column), default=0) for column in cells]
    natural = console.measure(table, options=console.options.update(width=_MAX_WIDTH)).maximum
    too_much = natural - max(console.width, natural - sum(widths) + sum(words))
    for _ in range(too_much):
        widest = max(range(len(widths)), key=lambda place: (widths[place] > words[place], widths[place]))
        widths[widest] -= 1
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width
    window, console.width = console.width, max(console.width, natural - max(too_much, 0))
    with console.capture() as printed:
        console.print(table, crop=False)
    console.width = window
    console.file.write("".join(f"{line.rstrip(' ')}\n" for line in printed.get().splitlines()))


def console_for() -> Console:
    """Return a console on the standard output: formatted on a terminal, plain and unbroken anywhere else."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_MAX_WIDTH)
