"""Places the pods of a solution: the program says how many go to which topology; nodes and volumes are found here."""

from collections.abc import Callable, Mapping

from binder.assignment.bipartite_matching import Bits
from binder.assignment.placing import Placing
from binder.model.demand import Demand
from binder.rebalance.competition import ClaimKind, Competition, PodShape
from binder.rebalance.formulation import Place
from kube.objects.model import Volume

Counts = Mapping[Place, int]
PlacePod = Callable[[Demand], object]
"""Places a pod wherever there is room for it."""


def place_solution(placing: Placing, competition: Competition, counts: Counts, place: PlacePod) -> dict[Place, int]:
    """Place the pods as counted, then those left over wherever there is still room.

    Return for each place where not all of its pods found a node how many did.
    """
    crowded = _SolutionPlacing(placing, competition, counts).run()
    for shape in competition.shapes:
        for demand in shape.demands:
            if demand.pod.key not in placing.placed:
                place(demand)
    return crowded


class _SolutionPlacing:
    """Assigns nodes, then volumes: of all that serve these claims those of least capacity.

    Relies on no count: nodes are found and volumes matched by the rules for single pods.
    """

    def __init__(self, placing: Placing, competition: Competition, counts: Counts) -> None:
        self._placing = placing
        self._competition = competition
        self._counts = counts
        used = (competition.shapes[number].kinds[topology] for (number, topology), count in counts.items() if count)
        self._number: dict[ClaimKind, int] = {}
        for kinds in used:
            for kind in kinds:
                self._number.setdefault(kind, len(self._number))
        self._matching = competition.matching(list(self._number))
        self._on_nodes: list[tuple[Demand, PodShape, int, str]] = []
        self._crowded: dict[Place, int] = {}

    def run(self) -> dict[Place, int]:
        shapes = self._competition.shapes
        for number in sorted(
            range(len(shapes)), key=lambda number: shapes[number].demands[0].pod.requests, reverse=True
        ):
            self._find_nodes(number)
        self._matching.tighten()
        self._settle()
        return self._crowded

    def _find_nodes(self, number: int) -> None:
        """Find nodes for the pods of a shape, those that were placed before first."""
        shape, booking = self._competition.shapes[number], self._placing.booking
        waiting = iter(shape.demands)
        for topology, kinds in shape.kinds.items():
            for placed in range(self._counts.get((number, topology), 0)):
                node = booking.find(shape.demands[0], self._competition.topologies[topology], shape.attach)
                if node is None:
                    self._crowded[number, topology] = placed
                    break
                demand = next(waiting, None)
                if demand is None or not all(self._matching.add(self._number[kind]) for kind in kinds):
                    # No solution of the program has more pods or claims than there are.
                    return
                if not booking.take(demand, node, shape.attach):
                    return
                self._on_nodes.append((demand, shape, topology, node))

    def _settle(self) -> None:
        left_over: dict[ClaimKind, Bits] = {}
        for demand, shape, topology, node in self._on_nodes:
            volumes: dict[str, Volume] = {}
            for claim, kind in zip(demand.required, self._competition.kinds_of(demand, topology), strict=True):
                left = left_over.get(kind, self._matching.held(self._number[kind]))
                lowest = left & -left
                left_over[kind] = left ^ lowest
                volumes[claim.key] = self._competition.volumes[lowest.bit_length() - 1]
            self._placing.booking.give_back(demand, node, shape.attach)
            self._placing.settle(demand, self._competition.topologies[topology], volumes)
