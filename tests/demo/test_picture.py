"""The demo's result as an SVG."""

from pathlib import Path
from xml.etree import ElementTree

from demo.picture import save_picture
from demo.view import Row


def test_it_holds_the_table_and_what_is_said_below_it(tmp_path: Path) -> None:
    row = Row("data-db-0", "db-0", "zone-b", "b-medium-1", "✓ Healthy", "Bound", 2.7, 2.7)
    save_picture(tmp_path / "demo.svg", [row], ["1 of 1 claims bound.", "", "[x] <b>is text</b> " + "word " * 40])
    shown = "".join(ElementTree.fromstring((tmp_path / "demo.svg").read_text()).itertext()).replace("\xa0", " ")
    for text in ("data-db-0", "b-medium-1", "1 of 1 claims bound.", "[x] <b>is text</b>"):
        assert text in shown
    assert shown.count("word") == 40
