"""The published picture and table are those of the published data, and the data are those of a file of results."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from bench.chart import pairs
from bench.chart.pairs import Data, Point, Value
from bench.control_plane.pairs_bench import BOUND_P50, BOUND_P99, RATE
from bench.control_plane.scaling_bench import MODES, MORE, SIZES, case
from bench.rows import Row

STARTED = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"


def results(rows: list[Row]) -> bytes:
    machine = {"cores": 2, "processor": "any"}
    parts = {"n": [asdict(row) | {"met": row.met} for row in rows]}
    return msgspec.json.encode({"started": STARTED, "kubernetes": "1.37", "machine": machine, "parts": parts})


def point(mode: str, size: int, rate: float, beside: float = 0.0) -> Point:
    return Point(mode, size, 3, Value(rate, rate / 2, rate * 2), Value(9, 9, 9), Value(12, 12, 12), beside)


def test_the_published_picture_and_table_are_those_of_the_data() -> None:
    data = pairs.read(pairs.DATA)
    assert pairs.PICTURE.read_text(encoding="utf-8") == pairs.drawn(data), "run python -m bench.chart"
    assert pairs.split(pairs.PAGE.read_text(encoding="utf-8"))[1] == pairs.table(data), "run python -m bench.chart"
    assert f"]({pairs.PICTURE.relative_to(pairs.PAGE.parent)})" in pairs.PAGE.read_text(encoding="utf-8")


def test_the_published_data_are_of_every_mode() -> None:
    data = pairs.read(pairs.DATA)
    for mode in MODES:
        sizes = [each.pairs for each in data.points if each.mode == mode]
        assert sizes == sorted(set(sizes))
        assert set(sizes) <= {*SIZES, *MORE}
        assert len(sizes) > 1
    for value in (value for each in data.points for value in (each.per_second, each.p50, each.p99)):
        assert 0 < value.low <= value.median <= value.high


def test_results_become_data_and_what_was_not_measured_is_left_out() -> None:
    title = case("prebind", 50).title
    rows = [
        Row(f"{title}: {RATE}", 5, "pairs/s", rounds=(4, 6, 5), beside=0.1),
        Row(f"{title}: {BOUND_P50}", 60.123, "s", rounds=(60.123, 70, 50)),
        Row(f"{title}: {BOUND_P99}", 99, "s", rounds=(99, 99, 99), beside=0.5),
        Row(f"{case('', 50).title}: {RATE}", 5, "pairs/s"),
    ]
    data = pairs.data_of(results(rows))
    expected = Point("prebind", 50, 3, Value(5, 4, 6), Value(60.1, 50, 70), Value(99, 99, 99), 0.5)
    assert data == Data(STARTED, "1.37", 2, [expected])


def test_results_of_other_parts_are_rejected() -> None:
    with pytest.raises(ValueError, match="part n"):
        pairs.data_of(results([]))


def test_a_disturbed_point_is_hollow_and_named_in_the_table() -> None:
    data = Data(STARTED, "1.37", 2, [point("", 50, 5), point("", 500, 5), point("complete", 50, 60, beside=1.5)])
    circles = [each for each in shapes(pairs.drawn(data), "circle") if "--paper" in each.get("style", "")]
    squares = [
        each for each in shapes(pairs.drawn(data), "rect") if "fill: var(--paper); stroke" in each.get("style", "")
    ]
    assert (len(circles), len(squares)) == (0, 2)
    assert "| 50 | mode complete, beside other work | 60 (30 to 120) |" in pairs.table(data)
    assert "hollow" in pairs.drawn(data)


def test_undisturbed_points_are_not_explained() -> None:
    assert "hollow" not in pairs.drawn(Data(STARTED, "1.37", 2, [point("", 50, 5), point("", 500, 5)]))


def test_the_picture_adapts_to_a_dark_page() -> None:
    text = pairs.drawn(Data(STARTED, "1.37", 2, [point("", 50, 5), point("", 500, 5)]))
    assert "prefers-color-scheme: dark" in text
    assert ElementTree.fromstring(text).get("role") == "img"


def test_publishing_needs_a_place_in_the_page(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no place"):
        pairs.split((tmp_path / "none").name)


def shapes(text: str, kind: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(text).iter(f"{SVG}{kind}"))
