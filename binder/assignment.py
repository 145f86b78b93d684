"""Distinct volumes for all claims of a pod at once: if an assignment exists it is found, and the best one is chosen.

The best wastes the least capacity in total; the requests are given, so that is the one of least total capacity. Among
equals the claims, in the order of their keys, get the first volumes by name. This makes the best one unique, whatever
the order of the input.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kube.model import Volume

Row = list[int]


def assign(options: Mapping[str, Sequence[Volume]]) -> dict[str, Volume] | None:
    """Return a volume for each claim key, no volume twice, or None when there is no such assignment.

    `options` holds for each claim every volume that fits it, sorted by capacity and name. Of k claims only the first
    k options of each can matter: a claim beyond its first k leaves one of these free, because the k-1 others hold at
    most k-1 of them, and that one is no larger and, if as large, earlier by name.
    """
    claims = sorted(options)
    shortlists = [tuple(options[claim][: len(claims)]) for claim in claims]
    if not all(shortlists):
        return None
    if len({shortlist[0].name for shortlist in shortlists}) == len(claims):
        return {claim: shortlist[0] for claim, shortlist in zip(claims, shortlists, strict=True)}
    volumes = {volume.name: volume for shortlist in shortlists for volume in shortlist}
    names = sorted(volumes)
    if len(names) < len(claims):
        return None
    costs, impossible = _costs(shortlists, names)
    chosen = _cheapest(costs)
    if any(costs[row][column] >= impossible for row, column in enumerate(chosen)):
        return None
    return {claim: volumes[names[column]] for claim, column in zip(claims, chosen, strict=True)}


def _costs(shortlists: Sequence[Sequence[Volume]], names: Sequence[str]) -> tuple[list[Row], int]:
    """Return what each volume costs each claim, and from which cost on a pair is impossible.

    A cost is a number of several digits in base n: the capacity first, then one digit per claim for the name, the
    first claim's the most significant. A sum of them therefore compares as capacity, then name by name. One impossible
    pair outweighs every sum of possible ones.
    """
    claims, base = len(shortlists), len(names) + 1
    place = {name: column for column, name in enumerate(names)}
    unit = base**claims
    largest = max(volume.capacity for shortlist in shortlists for volume in shortlist)
    impossible = (largest + 1) * unit * (claims + 1)
    costs = [[impossible] * len(names) for _ in shortlists]
    for row, shortlist in enumerate(shortlists):
        digit = base ** (claims - 1 - row)
        for volume in shortlist:
            column = place[volume.name]
            costs[row][column] = volume.capacity * unit + column * digit
    return costs, impossible


def _cheapest(costs: Sequence[Row]) -> list[int]:
    """Return a column for each row so that the sum of costs is least: shortest augmenting paths with potentials.

    The Hungarian algorithm on exact integers. There are at least as many columns as rows.
    """
    state = _State(costs, [0] * len(costs), [0] * len(costs[0]), [None] * len(costs[0]))
    for row in range(len(costs)):
        _add_row(state, row)
    chosen = {row: column for column, row in enumerate(state.row_of) if row is not None}
    return [chosen[row] for row in range(len(costs))]


@dataclass(frozen=True, slots=True)
class _State:
    """Rows placed so far, and potentials under which no reduced cost is negative and each placed one is zero."""

    costs: Sequence[Row]
    row_potential: Row
    column_potential: Row
    row_of: list[int | None]


def _add_row(state: _State, start: int) -> None:
    """Give one more row a column, moving earlier rows where that is cheaper."""
    distance, came_from, settled = _shortest_path(state, start)
    end = settled[-1]
    state.row_potential[start] += distance[end]
    for column in settled:
        saved = distance[end] - distance[column]
        state.column_potential[column] -= saved
        owner = state.row_of[column]
        if owner is not None:
            state.row_potential[owner] += saved
    at: int | None = end
    while at is not None:
        previous = came_from[at]
        state.row_of[at] = start if previous is None else state.row_of[previous]
        at = previous


def _shortest_path(state: _State, start: int) -> tuple[dict[int, int], dict[int, int | None], list[int]]:
    """Return the way to the nearest column without a row: distances, predecessors, and the columns in order settled."""
    distance: dict[int, int] = {}
    came_from: dict[int, int | None] = {}
    settled: list[int] = []
    unsettled = set(range(len(state.row_of)))
    row, at, travelled = start, None, 0
    while True:
        for column in unsettled:
            reduced = state.costs[row][column] - state.row_potential[row] - state.column_potential[column]
            if column not in distance or travelled + reduced < distance[column]:
                distance[column], came_from[column] = travelled + reduced, at
        at = min(unsettled, key=lambda column: distance[column])
        unsettled.remove(at)
        settled.append(at)
        travelled = distance[at]
        owner = state.row_of[at]
        if owner is None:
            return distance, came_from, settled
        row = owner
