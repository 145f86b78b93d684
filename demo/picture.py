"""The demo's result as a picture for a page: what a terminal of 110 columns would show."""

from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console

from demo.view import Row, table

_COLUMNS: Final = 110


def save_picture(file: Path, rows: Sequence[Row], result: Iterable[str]) -> None:
    """Write an SVG of the table of claims and of what is said below it. Raises OSError."""
    console = Console(record=True, file=StringIO(), width=_COLUMNS, force_terminal=True, highlight=False)
    console.print(table(rows))
    console.print()
    for line in result:
        console.print(line, markup=False)
    file.write_text(console.export_svg(title="pvc-prebinder demo"), encoding="utf-8")
