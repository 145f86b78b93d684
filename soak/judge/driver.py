"""What the controllers may do with volumes of the driver that misbehaves, by the record of what it was made to do.

Annotations say nothing here: while a driver is probed its volumes are as it reports them.
"""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from soak.judge import facts
from soak.judge.history import Change
from soak.judge.rules import Violation
from soak.judge.writes import Authors, Party

KNOWN_WITHIN: Final = 20.0
"""Seconds from a change of the driver until no write relies on what it reported before: the age that a verdict may
have, the time for a call, and for a request to an API server that is slow."""
_SILENT: Final = frozenset({"hang", "flood", "pause", "kill"})
"""Kinds of trouble in which nothing about a volume can be learned."""

_Past = list[tuple[float, str]]
"""Values, each with the time from which on it holds."""


@dataclass(slots=True)
class DriverRecord:
    """What the driver was made to do: its trouble, "" while it has none, and the states of its volumes."""

    troubles: _Past = field(default_factory=list)
    states: defaultdict[str, _Past] = field(default_factory=lambda: defaultdict(list))

    def wrong(self, volume: str, at: float) -> str:
        """Return why the volume must not be taken at that time, or ""."""
        since, trouble = _at(self.troubles, at)
        if trouble in _SILENT and at - since > KNOWN_WITHIN:
            return f"although its driver has not answered ({trouble}) for {at - since:.0f} s"
        changed, state = _at(self.states[volume], at)
        known = at - max(since, changed)
        if not trouble and state not in ("", "Healthy") and known > KNOWN_WITHIN:
            return f"although its driver has reported {state} for {known:.0f} s"
        return ""


def read_record(lines: Iterable[str]) -> DriverRecord:
    """Read the file that the stage writes."""
    record = DriverRecord()
    for event in map(json.loads, lines):
        if "volume" in event:
            record.states[event["volume"]].append((event["at"], event["state"]))
        else:
            record.troubles.append((event["at"], event["trouble"]))
    return record


def judge_driver(changes: Iterable[Change], authors: Authors, record: DriverRecord) -> Iterator[Violation]:
    """Check each volume of the driver that a controller reserved or committed."""
    for change in changes:
        if change.kind != "PersistentVolume" or not facts.is_probed(change.after) or not _taken(change):
            continue
        write = authors.of(change.kind, change.key, change.revision)
        if write is None or write.party is not Party.CONTROLLER:
            continue
        wrong = record.wrong(change.key, write.received)
        if wrong:
            yield Violation("no volume of unknown health", f"{change.key} was taken {wrong}", (change.revision,))


def _taken(change: Change) -> bool:
    before, after = facts.reference(change.before), facts.reference(change.after)
    if after is not None and change.after is not None and facts.is_placeholder(change.after):
        return False
    reserved = facts.reserved_for(change.after)
    committed = after is not None and (before is None or before[0] != after[0])
    return committed or (reserved is not None and reserved != facts.reserved_for(change.before))


def _at(past: _Past, at: float) -> tuple[float, str]:
    """Return since when the value of that time holds, and the value; the beginning and "" before the first."""
    number = bisect_right(past, at, key=itemgetter(0))
    return past[number - 1] if number else (0.0, "")
