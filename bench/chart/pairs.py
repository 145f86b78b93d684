"""Pairs of claim and pod over their number: from the results of part n to data, and from these to picture and table.

The data are kept beside the picture, as the only source of both.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.chart.svg import Mark, Panel, picture
from bench.control_plane.pairs_bench import BOUND_P50, BOUND_P99, RATE
from bench.control_plane.scaling_bench import MODES, MORE, SIZES, case
from bench.rows import NOTICEABLE, Row

_DOCS: Final = Path(__file__).parents[2] / "docs"
DATA: Final = _DOCS / "pictures" / "pairs.json"
PICTURE: Final = _DOCS / "pictures" / "pairs.svg"
PAGE: Final = _DOCS / "performance.md"
BEGIN, END = "<!-- Written by `python -m bench.chart`. -->\n", "<!-- End -->\n"
"""The lines around the table in the page."""

NAMES: Final[Mapping[str, str]] = {"": "Kubernetes alone", "prebind": "mode prebind", "complete": "mode complete"}


class Value(msgspec.Struct, frozen=True):
    """A median, and the range of the rounds."""

    median: float
    low: float
    high: float


class Point(msgspec.Struct, frozen=True):
    """One number of pairs in one mode; the times are seconds from pod to Bound. `beside`: cores busy with other
    work."""

    mode: str
    pairs: int
    rounds: int
    per_second: Value
    p50: Value
    p99: Value
    beside: float

    @property
    def disturbed(self) -> bool:
        return self.beside >= NOTICEABLE


class Data(msgspec.Struct, frozen=True):
    """What was measured, when, on how many cores, with which Kubernetes."""

    started: datetime
    kubernetes: str
    cores: int
    points: list[Point]


class _Results(msgspec.Struct):
    """The part of a file in bench/results that is needed here."""

    started: datetime
    kubernetes: str
    machine: dict[str, Any]
    parts: dict[str, list[Row]]


def publish(results: Path) -> Path:
    """Write the data of these results, the picture and the table. Raises ValueError if they have no part n."""
    DATA.write_bytes(msgspec.json.format(msgspec.json.encode(data_of(results.read_bytes()))) + b"\n")
    return redraw()


def redraw() -> Path:
    """Write the picture and the page's table from the data."""
    data = read(DATA)
    PICTURE.write_text(drawn(data), encoding="utf-8")
    before, inside, after = split(PAGE.read_text(encoding="utf-8"))
    if inside != table(data):
        PAGE.write_text(before + table(data) + after, encoding="utf-8")
    return PICTURE


def read(path: Path) -> Data:
    """Read the data beside the picture."""
    return msgspec.json.decode(path.read_bytes(), type=Data)


def split(page: str) -> tuple[str, str, str]:
    """Return the page before, in and after the lines that `table` returns."""
    before, begin, rest = page.partition(BEGIN)
    inside, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} has no place for the table: expected the lines {BEGIN!r} and {END!r}")
    return before + begin, inside, end + after


def data_of(results: bytes) -> Data:
    """Return the data in a file of bench/results. Raises ValueError if it has no part n."""
    decoded = msgspec.json.decode(results, type=_Results)
    rows = {row.name: row for row in decoded.parts.get("n", [])}
    points = [point for mode in MODES for pairs in (*SIZES, *MORE) for point in _point(rows, mode, pairs)]
    if not points:
        raise ValueError("expected results of part n: python -m bench --only n")
    return Data(decoded.started, decoded.kubernetes, int(decoded.machine["cores"]), points)


def _point(rows: Mapping[str, Row], mode: str, pairs: int) -> Iterator[Point]:
    title = case(mode, pairs).title
    measured = [rows.get(f"{title}: {what}") for what in (RATE, BOUND_P50, BOUND_P99)]
    present = [row for row in measured if row is not None]
    if len(present) == len(measured):
        rate = present[0]
        per_second, p50, p99 = map(_value, present)
        beside = max(row.beside for row in present)
        yield Point(mode, pairs, len(rate.rounds) or 1, per_second, p50, p99, round(beside, 2))


def _value(row: Row) -> Value:
    return Value(*(float(f"{number:.3g}") for number in (row.value, row.lowest, row.highest)))


def drawn(data: Data) -> str:
    """Return the picture."""
    modes = [mode for mode in MODES if _of(data, mode)]
    panels = [
        Panel(
            "Pairs bound a second (more is better)",
            [[_mark(point, point.per_second) for point in _of(data, mode)] for mode in modes],
        ),
        Panel(
            "Seconds to Bound, median (less is better)",
            [[_mark(point, point.p50) for point in _of(data, mode)] for mode in modes],
        ),
    ]
    title = f"Pairs bound a second and seconds to Bound over the number of pairs: {', '.join(map(NAMES.get, modes))}"  # type: ignore[arg-type]
    footer = f"{conditions(data)}. Logarithmic axes."
    return picture(title, [NAMES[mode] for mode in modes], panels, "pairs created at once", footer)


def conditions(data: Data) -> str:
    """Return under which conditions the data were measured, as a sentence without its end."""
    rounds = sorted({point.rounds for point in data.points})
    several = f"medians of {' or '.join(map(str, rounds))} rounds, bars: their range" if rounds[-1] > 1 else "one round"
    text = f"Kubernetes {data.kubernetes} at its default limits, {data.cores} cores, {data.started:%B %Y}; {several}"
    return f"{text}; hollow: beside other work" if any(point.disturbed for point in data.points) else text


def table(data: Data) -> str:
    """Return the numbers as a table in Markdown."""
    lines = ["", "| pairs | mode | pairs/s | pod to Bound, p50 | p99 |", "|---|---|---|---|---|"]
    for pairs in sorted({point.pairs for point in data.points}):
        for point in data.points:
            if point.pairs == pairs:
                cells = (
                    _cell(point.per_second, ""),
                    _cell(point.p50, " s"),
                    _cell(point.p99, " s"),
                )
                where = f"{NAMES[point.mode]}{', beside other work' if point.disturbed else ''}"
                lines.append(f"| {pairs:,} | {where} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", ""])


def _of(data: Data, mode: str) -> list[Point]:
    return [point for point in data.points if point.mode == mode]


def _mark(point: Point, value: Value) -> Mark:
    return Mark(point.pairs, value.median, value.low, value.high, hollow=point.disturbed)


def _cell(value: Value, unit: str) -> str:
    ranged = f" ({value.low:g} to {value.high:g})" if value.low < value.high else ""
    return f"{value.median:g}{unit}{ranged}"
