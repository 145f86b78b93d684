"""A simulation as an SVG chart: placed pods over time, and pods by zone."""

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from prebinder.simulate.report import Report
from scheduler.simulator.simulated_cluster import Entry, SimulatedChange

_WIDTH: Final = 860
_HEIGHT: Final = 420
_LEFT, _TOP, _BOTTOM = 60, 50, 60
_MAX_POINTS: Final = 400
_INK, _LINE, _FAINT = "#1f2933", "#2563eb", "#d5dbe3"


def chart(report: Report, log: Sequence[Entry]) -> str:
    """Return an SVG chart: pods placed over simulated time, and pods by zone at the end."""
    end = max((entry.at for entry in log), default=0) or 1
    placed = [entry.at for entry in log if entry.change is SimulatedChange.PLACE]
    result = report.result if report.what_if is None else report.what_if.result
    title = f"{result.placed} of {result.pods} pods placed, {result.pods_per_second:,.0f} pods/s (simulated)"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{_INK}">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="26" font-size="16">{escape(title)}</text>',
        *_curve(sorted(placed), end),
        *_bars(Counter(result.pods_by_zone)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _curve(placed: Sequence[int], end: int) -> Iterable[str]:
    width, height = 460, _HEIGHT - _TOP - _BOTTOM
    most, bottom = max(1, len(placed)), _TOP + height
    step = max(1, len(placed) // _MAX_POINTS)
    counted = [(at, number) for number, at in enumerate(placed, 1) if number % step == 0 or number == most]
    points = " ".join(f"{_LEFT + at * width / end:.1f},{bottom - number * height / most:.1f}" for at, number in counted)
    yield f'<path d="M{_LEFT} {_TOP}V{bottom}H{_LEFT + width}" fill="none" stroke="{_FAINT}"/>'
    yield f'<polyline points="{_LEFT},{bottom} {points}" fill="none" stroke="{_LINE}" stroke-width="2"/>'
    yield f'<text x="{_LEFT - 8}" y="{_TOP + 4}" text-anchor="end">{most}</text>'
    yield f'<text x="{_LEFT + width}" y="{bottom + 18}" text-anchor="end">{end / 1_000_000:.2f} s</text>'
    yield f'<text x="{_LEFT}" y="{bottom + 36}">pods placed over time</text>'


def _bars(zones: Counter[str]) -> Iterable[str]:
    left, width, height = 580, 240, _HEIGHT - _TOP - _BOTTOM
    most, bottom = max([1, *zones.values()]), _TOP + height
    each = width / max(1, len(zones))
    for number, (zone, count) in enumerate(sorted(zones.items())):
        tall, x = count * height / most, left + number * each
        yield f'<rect x="{x:.1f}" y="{bottom - tall:.1f}" width="{each * 0.8:.1f}" height="{tall:.1f}" fill="{_LINE}"/>'
        yield f'<text x="{x + each * 0.4:.1f}" y="{bottom - tall - 4:.1f}" text-anchor="middle">{count}</text>'
        yield f'<text x="{x + each * 0.4:.1f}" y="{bottom + 18}" text-anchor="middle">{escape(zone)}</text>'
    yield f'<text x="{left}" y="{bottom + 36}">pods by zone</text>'
