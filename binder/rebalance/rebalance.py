"""Makes room for pods that came too late in a batch, by moving pods placed in the same batch.

Which pods can be served together, and in which topologies, is an integer program (binder.rebalance.formulation): who
was placed stays placed, only where, and with what, changes, and as many of the others as possible join them, more
urgent ones first. Its solution is placed pod by pod, by the rules for single pods. What was there
before is kept unless more pods are placed that way and none is lost.
"""

from collections.abc import Sequence
from typing import Final

from binder.assignment.placing import PlacedPod, Placing
from binder.model.demand import Demand
from binder.rebalance.competition import Competition, competing, competition_of
from binder.rebalance.formulation import Place, formulate
from binder.rebalance.integer_program import Solve
from binder.rebalance.search import most_served
from binder.rebalance.solution_placing import PlacePod, place_solution

_SECONDS: Final = (4.0, 1.0, 1.0)
"""For the search, which the other pods of the pass wait for; and for further ones, because pods found no single node
with room for them although the nodes together have it."""


def rebalance(placing: Placing, rivals: Sequence[Demand], place: PlacePod, solve: Solve) -> None:
    """Place as many of the rivals as possible; each of them could be served alone."""
    lifted = competing(placing, rivals)
    placing.lift(lifted)
    competition = competition_of(placing, lifted, rivals)
    if not _replaced(placing, competition, lifted, place, solve):
        for placed in lifted:
            placing.restore(placed)


def _replaced(
    placing: Placing, competition: Competition, lifted: Sequence[PlacedPod], place: PlacePod, solve: Solve
) -> bool:
    """Whether the pods of the competition are placed now, more than were lifted and all of these."""
    bounds: dict[Place, int] = {}
    for seconds in _SECONDS:
        formulation = formulate(competition, placing, bounds)
        counts = most_served(formulation, competition.shapes, solve, seconds)
        if sum(counts.values()) <= len(lifted):
            return False
        crowded = place_solution(placing, competition, counts, place)
        placed = {demand.pod.key for shape in competition.shapes for demand in shape.demands} & placing.placed.keys()
        if len(placed) > len(lifted) and all(each.demand.pod.key in placed for each in lifted):
            return True
        placing.lift([placing.placed[key] for key in placed])
        if not crowded:
            return False
        bounds |= crowded
    return False
