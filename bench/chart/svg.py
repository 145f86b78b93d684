"""Draws panels of lines with logarithmic axes side by side, as SVG for a light and a dark page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import Final
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 380
_LEFT, _GAP, _TOP, _BOTTOM = 48, 66, 84, 66
"""Room for the labels of an axis, between panels, for title and legend, for the sizes and the footer."""
_RADIUS: Final = 4

_STYLE: Final = """\
svg { font: 12px system-ui, sans-serif; --paper: #ffffff; --ink: #1f2328; --faint: #d1d9e0;
  --line-0: #6e7781; --line-1: #0969da; --line-2: #bc4c00; }
@media (prefers-color-scheme: dark) {
  svg { --paper: #0d1117; --ink: #e6edf3; --faint: #30363d; --line-0: #9198a1; --line-1: #58a6ff; --line-2: #f0883e; }
}
text { fill: var(--ink); } .title { font-weight: 600; font-size: 13px; } .middle { text-anchor: middle; }
.end { text-anchor: end; } .grid { stroke: var(--faint); }
"""


@dataclass(frozen=True, slots=True)
class Mark:
    """A measured point; `low` and `high` are drawn as a bar, and the mark is hollow if other work disturbed it."""

    x: float
    y: float
    low: float
    high: float
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """A title and lines, in the order of the legend's names. All numbers are above 0."""

    title: str
    lines: Sequence[Sequence[Mark]]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps numbers from `low` to `high` to a length from `begin` to `end`, logarithmically."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, number: float) -> float:
        return self.begin + (self.end - self.begin) * log(number / self.low) / log(self.high / self.low)


def picture(title: str, names: Sequence[str], panels: Sequence[Panel], below: str, footer: str) -> str:
    """Return the SVG: `names` are the lines of every panel, `below` is what the horizontal axes show."""
    width = (WIDTH - _LEFT - _GAP * (len(panels) - 1) - 16) / len(panels)
    drawn: list[str] = []
    for number, panel in enumerate(panels):
        left = _LEFT + number * (width + _GAP)
        drawn += _panel(panel, left, left + width, below)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        ' role="img" aria-labelledby="title">',
        f'<title id="title">{escape(title)}</title>',
        f"<style>\n{_STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" style="fill: var(--paper)"/>',
        *_legend(names),
        *drawn,
        _text(_LEFT, HEIGHT - 12, footer),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def ticks(low: float, high: float) -> list[float]:
    """Return the numbers 1, 2 and 5 times powers of ten from the last one up to `low` to the first one from `high`."""
    every = [base * 10.0**power for power in range(-3, 7) for base in (1, 2, 5)]
    return every[
        max(at for at, tick in enumerate(every) if tick <= low) : 1
        + min(at for at, tick in enumerate(every) if tick >= high)
    ]


def _legend(names: Sequence[str]) -> Iterator[str]:
    left = float(_LEFT)
    for number, name in enumerate(names):
        yield _mark(left + _RADIUS, 24, number, hollow=False)
        yield _text(left + 14, 28, name)
        left += 40 + 7 * len(name)


def _panel(panel: Panel, left: float, right: float, below: str) -> Iterator[str]:
    marks = [mark for line in panel.lines for mark in line]
    sizes = sorted({mark.x for mark in marks})
    numbers = ticks(min(mark.low for mark in marks), max(mark.high for mark in marks))
    across = _Scale(sizes[0], sizes[-1], left, right)
    up = _Scale(numbers[0], numbers[-1], HEIGHT - _BOTTOM, _TOP)
    yield _text(left, _TOP - 22, panel.title, "title")
    for number in numbers:
        yield _line(left, up.at(number), right, up.at(number), "grid")
        yield _text(left - 8, up.at(number) + 4, f"{number:,g}", "end")
    for size in sizes:
        yield _line(across.at(size), _TOP, across.at(size), HEIGHT - _BOTTOM, "grid")
        yield _text(across.at(size), HEIGHT - _BOTTOM + 18, f"{size:,g}", "middle")
    yield _text((left + right) / 2, HEIGHT - _BOTTOM + 36, below, "middle")
    for number, line in enumerate(panel.lines):
        yield from _drawn(line, number, across, up)


def _drawn(line: Sequence[Mark], number: int, across: _Scale, up: _Scale) -> Iterator[str]:
    style = f'style="stroke: var(--line-{number}); stroke-width: 2"'
    for before, after in pairwise(line):
        yield _line(across.at(before.x), up.at(before.y), across.at(after.x), up.at(after.y), more=style)
    for mark in line:
        x = across.at(mark.x)
        yield _line(x, up.at(mark.low), x, up.at(mark.high), more=style)
        yield _mark(x, up.at(mark.y), number, hollow=mark.hollow)


def _mark(x: float, y: float, number: int, *, hollow: bool) -> str:
    """A circle, a square or a diamond, so that lines differ by more than their colour."""
    fill = "--paper" if hollow else f"--line-{number}"
    style = f'style="fill: var({fill}); stroke: var(--line-{number}); stroke-width: 1.5"'
    if number % 3 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}" {style}/>'
    turn = f' transform="rotate(45 {x:.1f} {y:.1f})"' if number % 3 == 2 else ""
    corner, side = f'x="{x - _RADIUS:.1f}" y="{y - _RADIUS:.1f}"', 2 * _RADIUS
    return f'<rect {corner} width="{side}" height="{side}"{turn} {style}/>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str = "", more: str = "") -> str:
    attributes = " ".join(filter(None, (f'class="{kind}"' if kind else "", more)))
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {attributes}/>'


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{f" class={kind!r}" if kind else ""}>{escape(text)}</text>'
