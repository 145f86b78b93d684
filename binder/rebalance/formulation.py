"""Which pods can be served together, as an integer program.

An integer for each shape of pods and each topology open to it says how many of them go there. Whether their claims can
all have volumes is asked of the volumes by size, not volume by volume: going down from the largest, claims of a size
take from the volumes of at least that size which larger claims have left. That is exact, because the volumes that suit
a larger claim of a family suit each smaller one too. Where volumes suit several families a column for each of these
says how many of its claims they serve; as in every network of flows these columns need not be declared integers.

Pools, from which volumes are to be made, are bins: the sum of what is needed of one is at most what is left of it. Of
the room on nodes the program knows the sum over a topology: exact where each node is a topology of its own.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd

from binder.assignment.node_booking import NodeBooking
from binder.assignment.placing import Placing
from binder.assignment.topologies import Topology
from binder.provisioning.pass_pools import PassPools
from binder.provisioning.pool import PoolKey
from binder.rebalance.competition import ClaimFamily, ClaimKind, Competition, PodShape
from binder.rebalance.integer_program import IntegerProgram, Row
from kube.objects.model import Volume

Place = tuple[int, int]
"""A shape, by its place among the shapes of the competition, and a topology, by its number."""
Factors = dict[int, float]


@dataclass(slots=True)
class Formulation:
    """The columns and rows of a competition. `most`: by column, those of the places first, which are integers.

    `start`: how many pods are at which place now.
    """

    places: Sequence[Place]
    start: Sequence[int]
    most: list[float]
    rows: list[Row] = field(default_factory=list)
    _by_column: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    _indexed: int = 0

    def part(
        self, gains: Sequence[int], values: Sequence[int], moving: Iterable[int]
    ) -> tuple[Sequence[int], IntegerProgram]:
        """Return the program in which only the `moving` places change, and its integer columns by their places here.

        The others keep their values. What does not concern the moving places is left out.
        """
        wanted = sorted(moving)
        rows, columns = self._concerned(wanted)
        place_of = {column: place for place, column in enumerate([*wanted, *columns])}
        return wanted, IntegerProgram(
            [self.most[column] for column in place_of],
            [_shortened(self.rows[number], values, place_of) for number in rows],
            [place_of[column] for column in gains if column in place_of],
            [values[column] for column in wanted],
        )

    def _concerned(self, moving: Iterable[int]) -> tuple[list[int], list[int]]:
        """Return the rows of these columns, and the columns that are no places and may change with them."""
        rows: set[int] = set()
        columns: set[int] = set()
        unseen = list(moving)
        while unseen:
            for number in self._rows_of(unseen.pop()):
                if number not in rows:
                    rows.add(number)
                    joined = {column for column in self.rows[number].factors if column >= len(self.places)} - columns
                    columns |= joined
                    unseen.extend(joined)
        return sorted(rows), sorted(columns)

    def _rows_of(self, column: int) -> Sequence[int]:
        for number in range(self._indexed, len(self.rows)):
            for each in self.rows[number].factors:
                self._by_column[each].append(number)
        self._indexed = len(self.rows)
        return self._by_column[column]

    def new_column(self, most: float) -> int:
        """Add a column that need not be an integer."""
        self.most.append(most)
        return len(self.most) - 1


def _shortened(row: Row, values: Sequence[int], place_of: Mapping[int, int]) -> Row:
    """Return the row of the columns that have a place, the others being constant."""
    kept = sum(factor * values[column] for column, factor in row.factors.items() if column not in place_of)
    factors = {place_of[column]: factor for column, factor in row.factors.items() if column in place_of}
    return Row(factors, row.least - kept, row.most - kept)


def formulate(competition: Competition, placing: Placing, bounds: Mapping[Place, int]) -> Formulation:
    """Return the formulation of a competition; `bounds` are for places that were found to take no more pods."""
    shapes = competition.shapes
    places = [(number, topology) for number, shape in enumerate(shapes) for topology in shape.kinds]
    start = [shapes[number].at.get(topology, 0) for number, topology in places]
    most = [bounds.get(place, len(shapes[place[0]].demands)) for place in places]
    formulation = Formulation(places, start, [float(each) for each in most])
    _add_pods(formulation, shapes)
    _VolumeRows(formulation, competition).add()
    _add_pools(formulation, competition, placing.pools)
    _add_nodes(formulation, competition, placing)
    return formulation


def _add_pods(formulation: Formulation, shapes: Sequence[PodShape]) -> None:
    """A pod that has a place keeps one, and no pod gets two."""
    columns: defaultdict[int, Factors] = defaultdict(dict)
    for column, (number, _) in enumerate(formulation.places):
        columns[number][column] = 1.0
    for number, factors in columns.items():
        formulation.rows.append(Row(factors, shapes[number].placed, len(shapes[number].demands)))


class _VolumeRows:
    """`_requests`: how many claims of a kind each column has. `_shares`: by kind, what each pool of volumes serves."""

    def __init__(self, formulation: Formulation, competition: Competition) -> None:
        self._formulation = formulation
        self._requests: defaultdict[ClaimKind, Factors] = defaultdict(dict)
        for column, (number, topology) in enumerate(formulation.places):
            for kind, count in Counter(competition.shapes[number].kinds[topology]).items():
                self._requests[kind][column] = float(count)
        self._sizes: defaultdict[ClaimFamily, set[int]] = defaultdict(set)
        for family, request in self._requests:
            self._sizes[family].add(request)
        self._pools = _pools(competition.listed)
        self._shared = Counter(family for families in self._pools for family in families)
        self._shares: defaultdict[ClaimKind, Factors] = defaultdict(dict)

    def add(self) -> None:
        for families, volumes in self._pools.items():
            self._add_pool(families, volumes)
        for kind, shares in self._shares.items():
            self._formulation.rows.append(Row({**self._requests[kind], **shares}, 0.0, 0.0))

    def _add_pool(self, families: Sequence[ClaimFamily], volumes: Sequence[Volume]) -> None:
        """Add a row for each requested size, the largest first: what it leaves over goes to the next."""
        sizes = sorted(set().union(*(self._sizes[family] for family in families)))
        counts = Counter(bisect_right(sizes, volume.capacity) for volume in volumes)
        handed_down: Factors = {}
        for place in range(len(sizes), 0, -1):
            left_over = self._formulation.new_column(len(volumes))
            factors: Factors = {left_over: 1.0, **handed_down}
            for family in families:
                for column, factor in self._taken(ClaimKind(family, sizes[place - 1]), len(volumes)).items():
                    factors[column] = factors.get(column, 0.0) + factor
            self._formulation.rows.append(Row(factors, counts[place], counts[place]))
            handed_down = {left_over: -1.0}

    def _taken(self, kind: ClaimKind, most: int) -> Factors:
        """Return what claims of the kind take from a pool that has this many volumes."""
        if kind not in self._requests or self._shared[kind.family] == 1:
            return self._requests.get(kind, {})
        share = self._formulation.new_column(most)
        self._shares[kind][share] = -1.0
        return {share: 1.0}


def _pools(listed: Mapping[ClaimFamily, Sequence[Volume]]) -> dict[tuple[ClaimFamily, ...], list[Volume]]:
    """Return the volumes by the families that they are listed for."""
    families: defaultdict[str, list[ClaimFamily]] = defaultdict(list)
    named: dict[str, Volume] = {}
    for family, volumes in listed.items():
        for volume in volumes:
            families[volume.name].append(family)
            named[volume.name] = volume
    pools: defaultdict[tuple[ClaimFamily, ...], list[Volume]] = defaultdict(list)
    for name, suited in families.items():
        pools[tuple(suited)].append(named[name])
    return pools


def _add_pools(formulation: Formulation, competition: Competition, pools: PassPools) -> None:
    """Add a row for each pool that has less left than all pods that may come together need.

    In units of which every sum is a multiple, so that the numbers of the program are small and exact.
    """
    needed: defaultdict[PoolKey, dict[int, int]] = defaultdict(dict)
    for column, (number, topology) in enumerate(formulation.places):
        for pool, size in competition.shapes[number].needs.get(topology, {}).items():
            needed[pool][column] = size
    for pool, sizes in needed.items():
        left = pools.left_together(pool)
        if sum(size * formulation.most[column] for column, size in sizes.items()) > left:
            unit = gcd(*sizes.values())
            factors = {column: float(size // unit) for column, size in sizes.items()}
            formulation.rows.append(Row(factors, most=float(left // unit)))


def _add_nodes(formulation: Formulation, competition: Competition, placing: Placing) -> None:
    """Add rows for topologies, and for those that finer ones are parts of."""
    wanted: defaultdict[Topology, defaultdict[str, Factors]] = defaultdict(lambda: defaultdict(dict))
    for column, (number, at) in enumerate(formulation.places):
        shape, topology = competition.shapes[number], competition.topologies[at]
        for name, amount in placing.booking.takes(shape.demands[0], shape.attach):
            for each in dict.fromkeys((topology, placing.around(topology))):
                wanted[each][name][column] = float(amount)
    for topology, factors in wanted.items():
        nodes = (node.name for node in topology.nodes)
        formulation.rows.extend(_short(formulation, factors, nodes, placing.booking))


def _short(
    formulation: Formulation, wanted: Mapping[str, Factors], nodes: Iterable[str], booking: NodeBooking
) -> Iterator[Row]:
    """Yield a row for each resource of which the nodes have less than all pods that may come together want."""
    missing = {
        name: sum(amount * formulation.most[column] for column, amount in factors.items())
        for name, factors in wanted.items()
    }
    have = dict.fromkeys(missing, 0.0)
    for node in nodes:
        for name in list(missing):
            have[name] += booking.left(node, name)
            if have[name] >= missing[name]:
                del missing[name]
        if not missing:
            return
    for name in missing:
        unit = max(wanted[name].values())
        yield Row({column: amount / unit for column, amount in wanted[name].items()}, most=have[name] / unit)
