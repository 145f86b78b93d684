"""Which placed pods compete with the rivals, for which volumes, what suits which kind in which topology, and where pods
are.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from msgspec.structs import replace

from binder.assignment.bipartite_matching import BipartiteMatching, Bits
from binder.assignment.node_booking import Attach, attach_of
from binder.assignment.placing import PlacedPod, Placing
from binder.assignment.topologies import Topology
from binder.matching.claim_shape import ClaimShape, family_of
from binder.model.demand import Demand
from kube.objects.model import Claim, Volume


@dataclass(frozen=True, slots=True)
class MovablePod:
    """A pod that competes. `kinds`: for each topology number, the kind of each of its claims there."""

    demand: Demand
    topologies: tuple[int, ...]
    kinds: Mapping[int, tuple[int, ...]]
    attach: Attach

    @property
    def key(self) -> str:
        return self.demand.pod.key

    @property
    def claims(self) -> tuple[Claim, ...]:
        return self.demand.required


class Place(NamedTuple):
    """Where a movable pod is: the topology's number, and the node booked for it."""

    topology: int
    node: str


_WORK_OF_A_NODE: Final = 100
"""The cost of finding and booking a node, in the steps that the matching counts."""

State = tuple[int, int]


@dataclass(slots=True)
class Competition:
    """The state of the search. `topology_of`: by kind. `bound`: how many must be left over at least, once known."""

    placing: Placing
    movables: tuple[MovablePod, ...]
    by_key: Mapping[str, MovablePod]
    topologies: Mapping[int, Topology]
    volumes: Sequence[Volume]
    matching: BipartiteMatching
    topology_of: Sequence[int]
    at: dict[str, Place] = field(default_factory=dict)
    bound: int | None = None
    _members: dict[int, dict[str, None]] = field(default_factory=dict)
    _moves: list[tuple[MovablePod, Place, bool]] = field(default_factory=list)

    @property
    def work(self) -> int:
        return self.matching.work

    def within(self, topology: int) -> list[str]:
        """Return the keys of the movable pods in a topology."""
        return list(self._members.get(topology, ()))

    def insert(self, movable: MovablePod, topology: int) -> bool:
        """Place the movable pod in a topology if the volumes, after moving those of others there, and a node allow
        it.
        """
        mark = self.matching.mark()
        self.matching.work += _WORK_OF_A_NODE
        if all(map(self.matching.add, movable.kinds[topology])):
            node = self.placing.booking.find(movable.demand, self.topologies[topology], movable.attach)
            if node is not None:
                self.sit(movable, Place(topology, node))
                return True
        self.matching.rollback(mark)
        return False

    def remove(self, movable: MovablePod) -> None:
        """Remove a movable pod from its place."""
        place = self.stand(movable)
        for kind in movable.kinds[place.topology]:
            self.matching.remove(kind)

    def saved(self) -> State:
        """Return the state for `restore`."""
        return self.matching.mark(), len(self._moves)

    def restore(self, state: State) -> None:
        """Return to a saved state, which must not be used again."""
        mark, moves = state
        self.matching.rollback(mark)
        while len(self._moves) > moves:
            movable, place, sat = self._moves.pop()
            if sat:
                self._leave(movable)
            else:
                self._take(movable, place)

    def unmatchable(self) -> int:
        """Return how many claims have no volume even if each may take one of any topology open to its pod."""
        suits: list[Bits] = []
        for movable in self.movables:
            for claim in range(len(movable.claims)):
                wide = 0
                for topology in movable.topologies:
                    wide |= self.matching.suits[movable.kinds[topology][claim]]
                suits.append(wide)
        kinds = {wide: kind for kind, wide in enumerate(dict.fromkeys(suits))}
        relaxed = BipartiteMatching(list(kinds), [0] * len(kinds), (1 << len(self.volumes)) - 1)
        hopeless: set[int] = set()
        missing = 0
        for wide in suits:
            if kinds[wide] in hopeless or not relaxed.add(kinds[wide]):
                hopeless.add(kinds[wide])
                missing += 1
        return missing

    def settle(self, placing: Placing) -> None:
        """Write the result back: least capacity for the same places, volumes assigned claim by claim."""
        self.matching.tighten()
        dealt: dict[int, Bits] = {}
        for movable in self.movables:
            place = self.at.get(movable.key)
            if place is None:
                continue
            volumes: dict[str, Volume] = {}
            for claim, kind in zip(movable.claims, movable.kinds[place.topology], strict=True):
                left = dealt.get(kind, self.matching.held(kind))
                lowest = left & -left
                dealt[kind] = left ^ lowest
                volumes[claim.key] = self.volumes[lowest.bit_length() - 1]
            placing.booking.give_back(movable.demand, place.node, movable.attach)
            placing.settle(movable.demand, self.topologies[place.topology], volumes)

    def sit(self, movable: MovablePod, place: Place) -> None:
        """Book the node; volumes are left to the matching."""
        self._take(movable, place)
        self._moves.append((movable, place, True))

    def stand(self, movable: MovablePod) -> Place:
        """Undo `sit`."""
        place = self._leave(movable)
        self._moves.append((movable, place, False))
        return place

    def _take(self, movable: MovablePod, place: Place) -> None:
        self.placing.booking.take(movable.demand, place.node, movable.attach)
        self.at[movable.key] = place
        self._members.setdefault(place.topology, {})[movable.key] = None

    def _leave(self, movable: MovablePod) -> Place:
        place = self.at.pop(movable.key)
        del self._members[place.topology][movable.key]
        self.placing.booking.give_back(movable.demand, place.node, movable.attach)
        return place


_MOST_TOPOLOGIES: Final = 256
"""Topologies tried for one kind of pod; with a volume per node there are thousands, and few of them matter."""


def competition_of(placing: Placing, rivals: Sequence[Demand]) -> Competition:
    """Remove the placed pods that compete with the rivals, and insert them into a competition where they were."""
    lifted = _competing(placing, rivals)
    placing.lift(lifted)
    return _Setup(placing, lifted, rivals).competition()


def _competing(placing: Placing, rivals: Sequence[Demand]) -> list[PlacedPod]:
    """Return the placed pods that use, directly or through others, a class that a rival needs."""
    classes = _classes(rivals)
    while True:
        movable = (placed for placed in placing.placed.values() if not placing.booking.is_tied(placed.demand))
        competing = [placed for placed in movable if not classes.isdisjoint(_classes([placed.demand]))]
        wider = classes | _classes(placed.demand for placed in competing)
        if wider == classes:
            return competing
        classes = wider


def _classes(demands: Iterable[Demand]) -> set[str]:
    return {claim.storage_class or "" for demand in demands for claim in demand.required}


class _Setup:
    """Collects the relevant volumes, numbers them by size, and the kinds of claims by shape and topology."""

    def __init__(self, placing: Placing, lifted: Sequence[PlacedPod], rivals: Sequence[Demand]) -> None:
        self._placing = placing
        self._lifted = lifted
        self._demands = [*(placed.demand for placed in lifted), *rivals]
        self._claims = sum(len(demand.required) for demand in self._demands)
        self._least: dict[ClaimShape, tuple[Demand, Claim]] = {}
        self._most: dict[ClaimShape, int] = {}
        for demand in self._demands:
            for claim in demand.required:
                self._size_up(demand, claim)
        self._listed: dict[tuple[ClaimShape, int], list[Volume]] = {}
        self._open: dict[tuple[object, ...], tuple[Topology, ...]] = {}
        self._kinds: dict[tuple[ClaimShape, int], int] = {}

    def competition(self) -> Competition:
        drafts = [self._movable(demand, placed) for demand, placed in self._with_places()]
        volumes, bit_of = self._numbered()
        matching = BipartiteMatching(self._suits(volumes, bit_of), self._parts(), (1 << len(volumes)) - 1)
        for movable, placed in zip(drafts, self._lifted, strict=False):
            kinds = movable.kinds[placed.topology.number]
            for claim, kind in zip(movable.claims, kinds, strict=True):
                matching.give(kind, 1 << bit_of[placed.volumes[claim.key].name])
        by_key = {movable.key: movable for movable in drafts}
        topologies = {topology.number: topology for open_to in self._open.values() for topology in open_to}
        topologies |= {placed.topology.number: placed.topology for placed in self._lifted}
        competition = Competition(
            self._placing, tuple(drafts), by_key, topologies, volumes, matching, [number for _, number in self._kinds]
        )
        for placed in self._lifted:
            competition.sit(by_key[placed.demand.pod.key], Place(placed.topology.number, placed.node))
        return competition

    def _with_places(self) -> list[tuple[Demand, PlacedPod | None]]:
        booking: list[PlacedPod | None] = [*self._lifted]
        booking += [None] * (len(self._demands) - len(booking))
        return list(zip(self._demands, booking, strict=True))

    def _size_up(self, demand: Demand, claim: Claim) -> None:
        family = _family(demand, claim)
        known = self._least.get(family)
        if known is None or claim.request < known[1].request:
            self._least[family] = (demand, claim)
        self._most[family] = max(self._most.get(family, 0), claim.request)

    def _movable(self, demand: Demand, placed: PlacedPod | None) -> MovablePod:
        open_to = self._open_to(demand)
        if placed is not None:
            self._include(placed)
            if placed.topology not in open_to:
                open_to = (placed.topology, *open_to)
        kinds = {
            topology.number: tuple(self._kind(demand, claim, topology) for claim in demand.required)
            for topology in open_to
        }
        first = [self._volumes(demand, claim, open_to[0])[-1] for claim in demand.required] if open_to else []
        return MovablePod(demand, tuple(topology.number for topology in open_to), kinds, attach_of(first))

    def _open_to(self, demand: Demand) -> tuple[Topology, ...]:
        """Return the topologies where each claim has volumes, and a node with room without the others of the batch."""
        kind = demand.kind
        topologies = self._open.get(kind)
        if topologies is None:
            hardest = max(demand.required, key=lambda claim: (claim.request, claim.key))
            likely = self._placing.topologies_for(demand, hardest, _MOST_TOPOLOGIES)
            topologies = tuple(topology for topology in likely if self._could_serve(demand, topology))
            self._open[kind] = topologies
        return topologies

    def _could_serve(self, demand: Demand, topology: Topology) -> bool:
        largest: list[Volume] = []
        for claim in demand.required:
            volumes = self._volumes(demand, claim, topology)
            if not volumes or volumes[-1].capacity < claim.request:
                return False
            largest.append(volumes[-1])
        return self._placing.booking.find(demand, topology, attach_of(largest)) is not None

    def _volumes(self, demand: Demand, claim: Claim, topology: Topology) -> list[Volume]:
        """Return the volumes that suit claims of the family in the topology, by size, as many as can matter.

        Even all claims together cannot push any of them beyond as many volumes that are large enough for it.
        """
        family = _family(demand, claim)
        key = (family, topology.number)
        volumes = self._listed.get(key)
        if volumes is None:
            asker, least = self._least[family]
            volumes, large = [], 0
            for volume in self._placing.offers.volumes(asker, least, topology):
                if volume.name not in self._placing.taken:
                    volumes.append(volume)
                    large += volume.capacity >= self._most[family]
                    if large == self._claims:
                        break
            self._listed[key] = volumes
        return volumes

    def _include(self, placed: PlacedPod) -> None:
        """Ensure that what a placed pod holds is among the volumes listed."""
        for claim in placed.demand.required:
            listed = self._volumes(placed.demand, claim, placed.topology)
            held = placed.volumes[claim.key]
            at = bisect_left(listed, _by_size(held), key=_by_size)
            if at == len(listed) or listed[at].name != held.name:
                listed.insert(at, held)

    def _kind(self, demand: Demand, claim: Claim, topology: Topology) -> int:
        return self._kinds.setdefault((demand.shape_of(claim), topology.number), len(self._kinds))

    def _numbered(self) -> tuple[list[Volume], Mapping[str, int]]:
        volumes = {volume.name: volume for volume in chain.from_iterable(self._listed.values())}
        ordered = sorted(volumes.values(), key=_by_size)
        return ordered, {volume.name: bit for bit, volume in enumerate(ordered)}

    def _parts(self) -> list[int]:
        """Return for each kind its part: topologies connected by a volume that both list."""
        part_of = {number: number for _, number in self._listed}

        def root(number: int) -> int:
            while part_of[number] != number:
                part_of[number] = part_of[part_of[number]]
                number = part_of[number]
            return number

        first_in: dict[str, int] = {}
        for (_, number), listed in self._listed.items():
            for volume in listed:
                part_of[root(number)] = root(first_in.setdefault(volume.name, number))
        return [root(number) for _, number in self._kinds]

    def _suits(self, volumes: Sequence[Volume], bit_of: Mapping[str, int]) -> list[Bits]:
        """Return for each kind the volumes that suit it: those listed for its family that are large enough."""
        wide = {key: _bits(bit_of[volume.name] for volume in listed) for key, listed in self._listed.items()}
        first_of: dict[int, int] = {}
        suits: list[Bits] = []
        for shape, number in self._kinds:
            request = shape.request
            if request not in first_of:
                first_of[request] = bisect_left(volumes, request, key=lambda volume: volume.capacity)
            low = first_of[request]
            suits.append(wide[replace(shape, request=0), number] >> low << low)
        return suits


def _family(demand: Demand, claim: Claim) -> ClaimShape:
    return family_of(claim, demand.pin_of(claim))


def _bits(places: Iterable[int]) -> Bits:
    bits = 0
    for place in places:
        bits |= 1 << place
    return bits


def _by_size(volume: Volume) -> tuple[int, str]:
    return (volume.capacity, volume.name)
