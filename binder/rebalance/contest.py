"""Sets the arena up: which placed pods compete with the rivals, and what suits whom in which topology."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec.structs import replace

from binder.assignment.exchange import Bits, Exchange
from binder.assignment.node_booking import attach_of
from binder.assignment.placing import Placing, Seated
from binder.assignment.topologies import Topology
from binder.matching.claim_shape import ClaimShape, family_of
from binder.model.demand import Demand
from binder.rebalance.arena import Arena, Contender, Place
from kube.objects.model import Claim, Volume

_MOST_TOPOLOGIES: Final = 256
"""Topologies tried for one kind of pod; with a volume per node there are thousands, and few of them matter."""


def contest(placing: Placing, rivals: Sequence[Demand]) -> Arena:
    """Lift the placed pods that compete with the rivals, and seat them in an arena where they were."""
    lifted = _competing(placing, rivals)
    placing.lift(lifted)
    return _Contest(placing, lifted, rivals).arena()


def _competing(placing: Placing, rivals: Sequence[Demand]) -> list[Seated]:
    """Return the placed pods that use, directly or through others, a class that a rival needs."""
    classes = _classes(rivals)
    while True:
        movable = (seated for seated in placing.seated.values() if not placing.seats.is_tied(seated.demand))
        found = [seated for seated in movable if not classes.isdisjoint(_classes([seated.demand]))]
        wider = classes | _classes(seated.demand for seated in found)
        if wider == classes:
            return found
        classes = wider


def _classes(demands: Iterable[Demand]) -> set[str]:
    return {claim.storage_class or "" for demand in demands for claim in demand.required}


class _Contest:
    """Collects the volumes in question, numbers them by size, and the kinds of claims by shape and topology."""

    def __init__(self, placing: Placing, lifted: Sequence[Seated], rivals: Sequence[Demand]) -> None:
        self._placing = placing
        self._lifted = lifted
        self._demands = [*(seated.demand for seated in lifted), *rivals]
        self._claims = sum(len(demand.required) for demand in self._demands)
        self._least: dict[ClaimShape, tuple[Demand, Claim]] = {}
        self._most: dict[ClaimShape, int] = {}
        for demand in self._demands:
            for claim in demand.required:
                self._size_up(demand, claim)
        self._listed: dict[tuple[ClaimShape, int], list[Volume]] = {}
        self._open: dict[tuple[object, ...], tuple[Topology, ...]] = {}
        self._kinds: dict[tuple[ClaimShape, int], int] = {}

    def arena(self) -> Arena:
        drafts = [self._contender(demand, seated) for demand, seated in self._with_seats()]
        volumes, bit_of = self._numbered()
        exchange = Exchange(self._suits(volumes, bit_of), self._parts(), (1 << len(volumes)) - 1)
        for contender, seated in zip(drafts, self._lifted, strict=False):
            kinds = contender.kinds[seated.topology.number]
            for claim, kind in zip(contender.claims, kinds, strict=True):
                exchange.give(kind, 1 << bit_of[seated.volumes[claim.key].name])
        by_key = {contender.key: contender for contender in drafts}
        topologies = {topology.number: topology for open_to in self._open.values() for topology in open_to}
        topologies |= {seated.topology.number: seated.topology for seated in self._lifted}
        arena = Arena(
            self._placing, tuple(drafts), by_key, topologies, volumes, exchange, [number for _, number in self._kinds]
        )
        for seated in self._lifted:
            arena.sit(by_key[seated.demand.pod.key], Place(seated.topology.number, seated.node))
        return arena

    def _with_seats(self) -> list[tuple[Demand, Seated | None]]:
        seats: list[Seated | None] = [*self._lifted]
        seats += [None] * (len(self._demands) - len(seats))
        return list(zip(self._demands, seats, strict=True))

    def _size_up(self, demand: Demand, claim: Claim) -> None:
        family = _family(demand, claim)
        known = self._least.get(family)
        if known is None or claim.request < known[1].request:
            self._least[family] = (demand, claim)
        self._most[family] = max(self._most.get(family, 0), claim.request)

    def _contender(self, demand: Demand, seated: Seated | None) -> Contender:
        open_to = self._open_to(demand)
        if seated is not None:
            self._include(seated)
            if seated.topology not in open_to:
                open_to = (seated.topology, *open_to)
        kinds = {
            topology.number: tuple(self._kind(demand, claim, topology) for claim in demand.required)
            for topology in open_to
        }
        first = [self._volumes(demand, claim, open_to[0])[-1] for claim in demand.required] if open_to else []
        return Contender(demand, tuple(topology.number for topology in open_to), kinds, attach_of(first))

    def _open_to(self, demand: Demand) -> tuple[Topology, ...]:
        """Return the topologies where each claim has volumes, and a node with room if nobody else of the batch came."""
        kind = demand.kind
        found = self._open.get(kind)
        if found is None:
            hardest = max(demand.required, key=lambda claim: (claim.request, claim.key))
            likely = self._placing.topologies_for(demand, hardest, _MOST_TOPOLOGIES)
            found = tuple(topology for topology in likely if self._could_serve(demand, topology))
            self._open[kind] = found
        return found

    def _could_serve(self, demand: Demand, topology: Topology) -> bool:
        largest: list[Volume] = []
        for claim in demand.required:
            volumes = self._volumes(demand, claim, topology)
            if not volumes or volumes[-1].capacity < claim.request:
                return False
            largest.append(volumes[-1])
        return self._placing.seats.find(demand, topology, attach_of(largest)) is not None

    def _volumes(self, demand: Demand, claim: Claim, topology: Topology) -> list[Volume]:
        """Return the volumes that suit claims of the family in the topology, by size, as many as can matter.

        Of all claims together no one can be driven beyond as many volumes that are large enough for it.
        """
        family = _family(demand, claim)
        key = (family, topology.number)
        found = self._listed.get(key)
        if found is None:
            asker, least = self._least[family]
            found, large = [], 0
            for volume in self._placing.offers.volumes(asker, least, topology):
                if volume.name not in self._placing.taken:
                    found.append(volume)
                    large += volume.capacity >= self._most[family]
                    if large == self._claims:
                        break
            self._listed[key] = found
        return found

    def _include(self, seated: Seated) -> None:
        """Make sure that what a placed pod holds is among the volumes listed."""
        for claim in seated.demand.required:
            listed = self._volumes(seated.demand, claim, seated.topology)
            held = seated.volumes[claim.key]
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
        """Return for each kind the part it belongs to: topologies joined by a volume that both list."""
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
