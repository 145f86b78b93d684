"""Which pods compete with the rivals, for which volumes and pools, and what suits which claims in which topology."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from msgspec.structs import replace

from binder.assignment.bipartite_matching import BipartiteMatching, Bits
from binder.assignment.placing import PlacedPod, Placing
from binder.assignment.topologies import Topology
from binder.booking.room import Attach, attach_of
from binder.matching.claim_shape import ClaimShape
from binder.model.demand import Demand
from binder.provisioning.pool import PoolKey
from kube.objects.model import Claim, Volume


class ClaimFamily(NamedTuple):
    """Claims in one topology that differ in nothing but size: a volume that is large enough for one suits it."""

    shape: ClaimShape
    topology: int


class ClaimKind(NamedTuple):
    """Claims that the same volumes suit."""

    family: ClaimFamily
    request: int


@dataclass(frozen=True, slots=True)
class PodShape:
    """Interchangeable pods that compete, of equal priority; the first `placed` of them have a place.

    `kinds`: for each topology open to them, the kinds of their claims there. `needs`: how many bytes each of them needs
    of which pool there. `at`: how many are placed in which.
    """

    demands: Sequence[Demand]
    placed: int
    kinds: Mapping[int, Sequence[ClaimKind]]
    needs: Mapping[int, Mapping[PoolKey, int]]
    at: Mapping[int, int]
    attach: Attach

    @property
    def priority(self) -> int:
        return self.demands[0].pod.priority

    @property
    def lack(self) -> int:
        """How many have no place."""
        return len(self.demands) - self.placed


@dataclass(frozen=True, slots=True)
class Competition:
    """`volumes` are all in question, by size; `listed` are those that suit the smallest claim of a family."""

    shapes: Sequence[PodShape]
    topologies: Mapping[int, Topology]
    volumes: Sequence[Volume]
    listed: Mapping[ClaimFamily, Sequence[Volume]]

    def kinds_of(self, demand: Demand, topology: int) -> list[ClaimKind]:
        """Return the kinds of the pod's required claims in the topology, in their order."""
        return [_kind(demand, claim, topology) for claim in demand.required]

    def matching(self, kinds: Sequence[ClaimKind]) -> BipartiteMatching:
        """Return an empty matching of claims of these kinds, which it knows by their numbers."""
        bit_of = {volume.name: bit for bit, volume in enumerate(self.volumes)}
        wide = {family: _bits(bit_of[volume.name] for volume in listed) for family, listed in self.listed.items()}
        suits: list[Bits] = []
        for family, request in kinds:
            low = bisect_left(self.volumes, request, key=lambda volume: volume.capacity)
            suits.append(wide[family] >> low << low)
        part_of = self._parts()
        return BipartiteMatching(suits, [part_of[kind.family.topology] for kind in kinds], (1 << len(self.volumes)) - 1)

    def _parts(self) -> Mapping[int, int]:
        """Return for each topology the part it belongs to: topologies joined by a volume that both list."""
        part_of = {family.topology: family.topology for family in self.listed}

        def root(number: int) -> int:
            while part_of[number] != number:
                part_of[number] = part_of[part_of[number]]
                number = part_of[number]
            return number

        first_in: dict[str, int] = {}
        for family, listed in self.listed.items():
            for volume in listed:
                part_of[root(family.topology)] = root(first_in.setdefault(volume.name, family.topology))
        return {number: root(number) for number in part_of}


_MAX_TOPOLOGIES: Final = 256
"""Topologies tried for one shape of pods; with a volume per node there are thousands, and few of them matter."""
_MIN_TOPOLOGIES: Final = 4
_MAX_COLUMNS: Final = 20_000
"""Shapes of pods times topologies: with more shapes each is tried in fewer topologies."""


def competition_of(placing: Placing, lifted: Sequence[PlacedPod], rivals: Sequence[Demand]) -> Competition:
    """Return the competition of pods that were placed, and have just been lifted, and rivals that were not."""
    return _Setup(placing, lifted, rivals).competition()


def competing(placing: Placing, rivals: Sequence[Demand]) -> list[PlacedPod]:
    """Return the placed pods that use, directly or through others, a class or storage that a rival needs."""
    classes = _classes(placing, rivals)
    while True:
        movable = (placed for placed in placing.placed.values() if not placing.booking.is_tied(placed.demand))
        using = [placed for placed in movable if not classes.isdisjoint(_classes(placing, [placed.demand]))]
        wider = classes | _classes(placing, [placed.demand for placed in using])
        if wider == classes:
            return using
        classes = wider


def _classes(placing: Placing, demands: Sequence[Demand]) -> set[str]:
    existing = {claim.storage_class or "" for demand in demands for claim in demand.required}
    return existing.union(placing.pools.sharing(claim) for demand in demands for claim in demand.made)


class _Setup:
    """Collects the volumes in question and the kinds of claims."""

    def __init__(self, placing: Placing, lifted: Sequence[PlacedPod], rivals: Sequence[Demand]) -> None:
        self._placing = placing
        self._alike: dict[tuple[object, ...], tuple[list[PlacedPod], list[Demand]]] = {}
        for placed in lifted:
            self._alike.setdefault(_alike(placed.demand), ([], []))[0].append(placed)
        for demand in rivals:
            self._alike.setdefault(_alike(demand), ([], []))[1].append(demand)
        demands = [*(placed.demand for placed in lifted), *rivals]
        self._claims = sum(len(demand.required) for demand in demands)
        self._least: dict[ClaimShape, tuple[Demand, Claim]] = {}
        self._most: dict[ClaimShape, int] = {}
        for demand in demands:
            for claim in demand.required:
                self._size_up(demand, claim)
        self._most_topologies = min(max(_MAX_COLUMNS // len(self._alike), _MIN_TOPOLOGIES), _MAX_TOPOLOGIES)
        self._listed: dict[ClaimFamily, list[Volume]] = {}
        self._topologies: dict[int, Topology] = {}

    def competition(self) -> Competition:
        shapes = [self._shape(placed, rivals) for placed, rivals in self._alike.values()]
        every = {volume.name: volume for volume in chain.from_iterable(self._listed.values())}
        return Competition(shapes, self._topologies, sorted(every.values(), key=_by_size), self._listed)

    def _size_up(self, demand: Demand, claim: Claim) -> None:
        family = _family(demand, claim)
        known = self._least.get(family)
        if known is None or claim.request < known[1].request:
            self._least[family] = (demand, claim)
        self._most[family] = max(self._most.get(family, 0), claim.request)

    def _shape(self, placed: Sequence[PlacedPod], rivals: Sequence[Demand]) -> PodShape:
        demands = [*(each.demand for each in placed), *rivals]
        at: dict[int, int] = {}
        open_to = {topology.number: topology for topology in self._open_to(demands[0])}
        for each in placed:
            self._include(each)
            open_to[each.topology.number] = each.topology
            at[each.topology.number] = at.get(each.topology.number, 0) + 1
        self._topologies |= open_to
        kinds = {number: [_kind(demands[0], claim, number) for claim in demands[0].required] for number in open_to}
        pools, made = self._placing.pools, demands[0].made
        needs = {number: pools.needs(made, topology.nodes[0]) for number, topology in open_to.items() if made}
        largest = [
            self._volumes(demands[0], claim, topology)[-1]
            for topology in list(open_to.values())[:1]
            for claim in demands[0].required
        ]
        attach = attach_of(largest, demands[0].drivers_beside(()))
        return PodShape(demands, len(placed), kinds, needs, at, attach)

    def _open_to(self, demand: Demand) -> list[Topology]:
        """Return the topologies where each claim has volumes, and a node with room without the others of the batch."""
        likely = self._placing.topologies_for(demand, self._most_topologies)
        return [topology for topology in likely if self._could_serve(demand, topology)]

    def _could_serve(self, demand: Demand, topology: Topology) -> bool:
        largest: list[Volume] = []
        for claim in demand.required:
            volumes = self._volumes(demand, claim, topology)
            if not volumes or volumes[-1].capacity < claim.request:
                return False
            largest.append(volumes[-1])
        attach = attach_of(largest, demand.drivers_beside(()))
        return self._placing.booking.find(demand, topology, attach) is not None

    def _volumes(self, demand: Demand, claim: Claim, topology: Topology) -> list[Volume]:
        """Return the volumes that suit claims of the family in the topology, by size, as many as can matter.

        Even all claims together cannot push any of them beyond as many volumes that are large enough for it.
        """
        family = _family(demand, claim)
        key = ClaimFamily(family, topology.number)
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


def _alike(demand: Demand) -> tuple[object, ...]:
    return (demand.kind, demand.pod.priority)


def _kind(demand: Demand, claim: Claim, topology: int) -> ClaimKind:
    shape = demand.shape_of(claim)
    return ClaimKind(ClaimFamily(replace(shape, request=0), topology), shape.request)


def _family(demand: Demand, claim: Claim) -> ClaimShape:
    return replace(demand.shape_of(claim), request=0)


def _bits(places: Iterable[int]) -> Bits:
    bits = 0
    for place in places:
        bits |= 1 << place
    return bits


def _by_size(volume: Volume) -> tuple[int, str]:
    return (volume.capacity, volume.name)
