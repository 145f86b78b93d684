"""The report for people: one block for each object, no line longer than the window except commands."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from rich.console import Console
from rich.text import Text

from kube.plain_text import printable
from why.causes.objects import age_of
from why.report.report import Item, Link, WhyReport

_SHORT: Final = {"Pod": "pod", "PersistentVolumeClaim": "pvc", "PersistentVolume": "pv", "StatefulSet": "statefulset"}
_IN_CHAIN: Final = {"PersistentVolumeClaim": "claim ", "StorageClass": "class ", "Scheduler": "scheduler "}
_INDENT: Final = "  "
_MAX_NAMED: Final = 20
_JOINT: Final = "\0"
"""Stands for a space at which no line ends."""
_MAX_NOTE_COLUMN: Final = 100
"""Where a note beside a command ends at most, so that the command can be copied from the line."""


def print_report(
    report: WhyReport, console: Console, now: datetime, *, wide: bool = False, grouped: bool = False
) -> None:
    """Print every item, a blank line between. `grouped`: print one of those with an equal cause, and name the rest."""
    for number, (item, *others) in enumerate(_equals(report.items) if grouped else [[each] for each in report.items]):
        if number:
            console.print()
        _print_item(item, console, now, wide=wide)
        for line in _wrapped(f"The same holds for {_named(others)}", console.width) if others else ():
            console.print(Text(printable(line)), soft_wrap=True)


def _equals(items: Iterable[Item]) -> Sequence[Sequence[Item]]:
    """Return the items by what is said of them, but for their own name and those of their claims."""
    groups: dict[tuple[object, ...], list[Item]] = {}
    for item in items:
        own = sorted({item.name, *(claim.partition("/")[2] for claim in item.claims)}, key=len, reverse=True)
        message = re.sub("|".join(map(re.escape, own)), "", item.message)
        groups.setdefault((item.kind, item.status, item.code, item.problem, message), []).append(item)
    return list(groups.values())


def _named(items: Sequence[Item]) -> str:
    names = ", ".join(full_name(item) for item in items[:_MAX_NAMED])
    more = len(items) - _MAX_NAMED
    return f"{names} and {more} more" if more > 0 else names


def _print_item(item: Item, console: Console, now: datetime, *, wide: bool) -> None:
    mark, style = _mark(item)
    age = age_of(item.since, now)
    header = Text.assemble(
        (f"{mark} ", style),
        printable(" ".join(filter(None, (_SHORT.get(item.kind, item.kind), full_name(item), item.status, age, "· ")))),
        (str(item.code), style),
    )
    console.print(header, soft_wrap=True)
    for line in _body(item, console.width, wide=wide):
        console.print(Text(printable(line)), soft_wrap=True)


def full_name(item: Item) -> str:
    return f"{item.namespace}/{item.name}" if item.namespace else item.name


def _mark(item: Item) -> tuple[str, str]:
    if not item.conclusive:
        return "?", "yellow"
    return ("✗", "bold red") if item.problem else ("○", "green")


def _body(item: Item, width: int, *, wide: bool) -> Iterator[str]:
    yield from _wrapped(item.message, width)
    if len(item.causes) > 1 or wide:
        yield from _wrapped(" → ".join(_in_chain(link, item) for link in item.causes), width)
    for evidence in item.evidence:
        wanted = f"; wanted {evidence.wanted}" if evidence.wanted else ""
        yield from _wrapped(f"{evidence.object}: {evidence.found}{wanted}", width)
    for number, (command, note) in enumerate(zip(item.next, item.advice, strict=True)):
        label = "Next: " if not number else "      "
        yield from _step(label, command, note, width)
    yield from _read(item, width)


def _step(label: str, command: str, note: str, width: int) -> Iterator[str]:
    line = f"{_INDENT}{label}{command}"
    if note and len(line) + len(note) + 6 <= min(width, _MAX_NOTE_COLUMN):
        yield f"{line}   ({note})"
        return
    yield line
    yield from note_lines(note, width, 8)


def note_lines(note: str, width: int, indent: int) -> Sequence[str]:
    """Return a note in parentheses on lines of its own, none if it is empty. A quoted command is never broken."""
    if not note:
        return []
    lines = textwrap.wrap(
        re.sub(r"`[^`]*`", lambda command: command[0].replace(" ", _JOINT), f"({note})"),
        max(width, 40),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 1),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_JOINT, " ") for line in lines]


def _read(item: Item, width: int) -> Iterator[str]:
    if not item.skipped:
        return
    because: dict[str, list[str]] = {}
    for skipped in item.skipped:
        because.setdefault(skipped.because, []).append(skipped.resource)
    unread = "; ".join(f"{', '.join(resources)} skipped ({reason})" for reason, resources in because.items())
    yield from _wrapped(f"Read {len(item.sources)} of {len(item.sources) + len(item.skipped)} sources; {unread}", width)


def _in_chain(link: Link, item: Item) -> str:
    name = link.name.removeprefix(f"{item.namespace}/") if item.namespace else link.name
    says = link.says
    if link is item.causes[0] and link.kind != "PersistentVolume":
        return name
    if link.kind == "PersistentVolume":
        return f"{name}, {says}" if says else name
    return f"{_IN_CHAIN.get(link.kind, link.kind.lower() + ' ')}{name}{f' ({says})' if says else ''}"


def _wrapped(text: str, width: int) -> Sequence[str]:
    return textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=_INDENT,
        subsequent_indent=_INDENT * 2,
        break_long_words=False,
        break_on_hyphens=False,
    )
