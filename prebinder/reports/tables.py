"""The style of tables."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text


def table_of(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table of plain texts; empty cells are shown as a dash."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell or "-") for cell in row))
    return table
