"""The most pods that can be served, within a few seconds.

A program is tried as a whole first. What is not solved soon is searched in windows: a few pods move among a few
topologies while all others stay where they are, which takes milliseconds, and one window goes on from the last. Then
the whole program is tried once more, beginning with what the windows found.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final, TypeVar

from binder.rebalance.competition import PodShape
from binder.rebalance.formulation import Formulation
from binder.rebalance.integer_program import Row, Solve
from binder.rebalance.solution_placing import Counts

_FIRST_SECONDS: Final = 0.25
_WINDOW_SECONDS: Final = 0.25
_MAX_WINDOWS: Final = 60
_TOPOLOGIES: Final = 6
_LATECOMERS: Final = 15
_PLACED: Final = 30
"""Shapes of pods that lack a place, and of others, in a window."""
_INEXACT: Final = 1e-6
_MAX_PRIORITIES: Final = 4
"""Priorities distinguished among the pods that came too late; the lowest ones count as one."""

T = TypeVar("T")


def most_served(formulation: Formulation, shapes: Sequence[PodShape], solve: Solve, seconds: float) -> Counts:
    """Return how many pods of which shape go where so that most are served, more urgent ones first.

    That the most are served is certain only if the search ends before `seconds` have gone by.
    """
    values: Sequence[int] = formulation.start
    ranked = _ranked(formulation, shapes)
    for columns in ranked:
        search = _Search(formulation, shapes, columns, values, solve, seconds / len(ranked))
        search.run()
        values = search.values
        formulation.rows.append(Row(dict.fromkeys(columns, 1.0), sum(values[column] for column in columns)))
    return dict(zip(formulation.places, values, strict=True))


def _ranked(formulation: Formulation, shapes: Sequence[PodShape]) -> list[list[int]]:
    """Return the columns of shapes that lack a place, by priority, the highest first."""
    priorities = sorted({shape.priority for shape in shapes if shape.lack}, reverse=True)
    rank = {priority: min(place, _MAX_PRIORITIES - 1) for place, priority in enumerate(priorities)}
    ranked: defaultdict[int, list[int]] = defaultdict(list)
    for column, (number, _) in enumerate(formulation.places):
        if shapes[number].lack:
            ranked[rank[shapes[number].priority]].append(column)
    return [ranked[place] for place in sorted(ranked)]


@dataclass(slots=True)
class _Search:
    """For the most pods of some shapes, whose places are `columns`."""

    formulation: Formulation
    shapes: Sequence[PodShape]
    columns: Sequence[int]
    values: Sequence[int]
    solve: Solve
    seconds: float

    def run(self) -> None:
        """Improve the values until no better ones are possible or the time is over."""
        everything = range(len(self.formulation.places))
        latecomers = sorted({self.formulation.places[column][0] for column in self.columns})
        bound = float(sum(len(self.shapes[number].demands) for number in latecomers))
        bound = min(bound, self._improve(everything, _FIRST_SECONDS) + _INEXACT)
        end = self.seconds / 4
        for moving in self._windows(latecomers):
            if self._served() > bound - 1 or self.seconds <= end:
                break
            self._improve(moving, _WINDOW_SECONDS)
        if self._served() <= bound - 1 and self.seconds > 0:
            self._improve(everything, self.seconds)

    def _served(self) -> int:
        return sum(self.values[column] for column in self.columns)

    def _improve(self, moving: Iterable[int], seconds: float) -> float:
        """Go on from the present values; return how many pods can be served at most if only these columns change."""
        columns, program = self.formulation.part(self.columns, self.values, moving)
        solution = self.solve(program, min(seconds, self.seconds))
        values = list(self.values)
        for column, value in zip(columns, solution.values, strict=True):
            values[column] = value
        self.values = values
        self.seconds -= solution.seconds
        return solution.bound

    def _windows(self, latecomers: Sequence[int]) -> Iterator[list[int]]:
        """Yield which columns may change, others at each turn."""
        places = self.formulation.places
        everywhere = sorted({topology for _, topology in places})
        for turn in range(_MAX_WINDOWS):
            moving = set(_some(latecomers, turn, _LATECOMERS))
            own = sorted({topology for number in moving for topology in self.shapes[number].kinds})
            within = {*_some(own, turn, _TOPOLOGIES // 2), *_some(everywhere, turn, _TOPOLOGIES // 2)}
            there = (number for (number, at), pods in zip(places, self.values, strict=True) if pods and at in within)
            moving.update(_some(sorted(set(there)), turn, _PLACED + 2 * turn))
            yield [column for column, (number, at) in enumerate(places) if number in moving and at in within]


def _some(every: Sequence[T], turn: int, count: int) -> list[T]:
    """Return so many at most, others at each turn, by multiplicative hashing (Knuth)."""
    drawn = nsmallest(count, range(len(every)), key=lambda place: (place + 1) * (2 * turn + 1) * 2654435761 % 2**32)
    return [every[place] for place in drawn]
