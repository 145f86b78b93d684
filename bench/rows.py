"""The result of a measurement."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final, Self

NOTICEABLE: Final = 0.25
"""Cores kept busy by others from which on a measurement counts as disturbed."""


@dataclass(frozen=True, slots=True)
class Row:
    """A number: what was measured, how much, in which unit, and what is needed to interpret it.

    `at_most` or `at_least` is the goal, if there is one.
    """

    name: str
    value: float
    unit: str
    detail: str = ""
    at_most: float | None = None
    at_least: float | None = None
    rounds: tuple[float, ...] = ()
    """What each round measured, if there were several; `value` is their median, or the one that counts."""
    beside: float = 0.0
    """Cores that other work on the machine kept busy meanwhile, in the worst round."""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.at_most is None and self.at_least is None:
            return None
        return (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )

    @property
    def lowest(self) -> float:
        return min(self.rounds, default=self.value)

    @property
    def highest(self) -> float:
        return max(self.rounds, default=self.value)

    @property
    def disturbed(self) -> bool:
        """Whether it ran beside other work."""
        return self.beside >= NOTICEABLE

    @classmethod
    def of_rounds(cls, name: str, rounds: Sequence[float], unit: str, detail: str = "") -> Self:
        """Return the median of several rounds, without a goal."""
        return cls(name, median(rounds), unit, detail, rounds=tuple(rounds) if len(rounds) > 1 else ())


def medians(rounds: Sequence[Sequence[Row]]) -> list[Row]:
    """Merge the rows of several rounds by their names: the median, all values, and the last round's detail."""
    if len(rounds) < 2:
        return [row for rows in rounds for row in rows]
    by_name: dict[str, list[Row]] = {}
    for row in (row for rows in rounds for row in rows):
        by_name.setdefault(row.name, []).append(row)
    return [_median(rows) for rows in by_name.values()]


def _median(rows: Sequence[Row]) -> Row:
    values = tuple(row.value for row in rows)
    return replace(rows[-1], value=median(values), rounds=values, beside=max(row.beside for row in rows))
