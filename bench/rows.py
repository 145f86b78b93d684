"""The result of a measurement."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median


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

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.at_most is None and self.at_least is None:
            return None
        return (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )


def medians(rounds: Sequence[Sequence[Row]]) -> list[Row]:
    """Merge the rows of several rounds by their names: the median of each, and the range in its detail."""
    if len(rounds) < 2:
        return [row for rows in rounds for row in rows]
    values: dict[str, list[float]] = {}
    last: dict[str, Row] = {}
    for row in (row for rows in rounds for row in rows):
        values.setdefault(row.name, []).append(row.value)
        last[row.name] = row
    return [
        replace(
            row,
            value=median(values[name]),
            detail=f"{min(values[name]):.4g} to {max(values[name]):.4g} in {len(values[name])} rounds; {row.detail}",
        )
        for name, row in last.items()
    ]
