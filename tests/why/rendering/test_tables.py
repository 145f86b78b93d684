"""Tables in a narrow window."""

from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from why.rendering.tables import PlainTable, print_unbroken

CELLS = ("AccessModesMismatch", "pvc-0a1b2c3d-0a1b-4c5d-8e9f-000000000012", "web/data-of-a-long-name")
PROSE = "no Available volume is accessible from this node, and none can be provisioned for web/data-of-a-long-name"


def printed(width: int) -> str:
    table = PlainTable("REASON", "NEAREST", "CLAIM", "FOUND")
    table.add_row(*map(Text, CELLS), Text(PROSE))
    file = StringIO()
    console = Console(file=file, width=width)
    print_unbroken(table, console)
    assert console.width == width
    return file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 114, 120, 130, 300])
def test_no_word_is_broken_and_prose_is_wrapped(width: int) -> None:
    """At 114 columns every name has its place."""
    text = printed(width)
    header = ["REASON", "NEAREST", "CLAIM", "FOUND"]
    assert sorted(text.replace("─", "").split()) == sorted([*header, *CELLS, *PROSE.split()])
    assert max(map(len, text.splitlines())) <= max(width, 114)
