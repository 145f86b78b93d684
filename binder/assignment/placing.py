"""Places one pod after the other: all its claims together, in the topology that wastes least, while volumes last.

Fast, because volumes and room only become fewer while it runs: what a kind of pod could not have once it cannot have
later. If pods compete it may place too few; `binder.rebalance.rebalance` then moves what was placed here, except pods
that are tied to others by affinity, spread or ports. What a view offers to a claim in a topology is read smallest first
and no further than needed.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest
from itertools import chain, islice
from typing import Final

from binder.assignment.assignment import assign
from binder.assignment.node_booking import NodeBooking, attach_of_pod
from binder.assignment.topologies import Topologies, Topology
from binder.assignment.volume_policy import reject_use
from binder.booking.node_sets import NodeSets
from binder.booking.room import Attach
from binder.matching.claim_shape import ClaimShape, UserNeeds
from binder.matching.matching import scheduler_rejection
from binder.model.demand import Demand
from binder.model.view import View
from binder.provisioning.pass_pools import PassPools
from binder.reservation.set_aside import as_offered
from kube.objects.model import Claim, Volume
from kube.rules.topology import volume_zone_matches


class Offer:
    """A sequence of volumes read on demand. What is taken during a pass stays taken, so its front only advances."""

    def __init__(self, volumes: Iterator[Volume]) -> None:
        self._rest = volumes
        self._read: list[Volume] = []
        self._front = 0

    def first(self, count: int, taken: Container[str]) -> list[Volume]:
        """Return the first so many volumes that are not taken, fewer if there are no more."""
        volumes: list[Volume] = []
        for volume in self.left(lambda volume: volume.name in taken):
            volumes.append(volume)
            if len(volumes) == count:
                break
        return volumes

    def left(self, gone: Callable[[Volume], bool]) -> Iterator[Volume]:
        at = self._front
        while True:
            if at == len(self._read):
                volume = next(self._rest, None)
                if volume is None:
                    return
                self._read.append(volume)
            volume = self._read[at]
            if not gone(volume):
                yield volume
            elif at == self._front:
                self._front += 1
            at += 1


class Offers:
    """What a view offers to claims. Whether a volume is usable is computed once a pass."""

    def __init__(self, view: View, now: datetime, sets: NodeSets) -> None:
        self._view = view
        self._now = now
        self._sets = sets
        self._usable: dict[str, bool] = {}
        self._offers: dict[tuple[ClaimShape, int], Offer] = {}

    def offer(self, demand: Demand, claim: Claim, topology: Topology) -> Offer:
        """Return the shared offer for claims of this shape in the topology."""
        key = (demand.shape_of(claim), topology.number)
        offer = self._offers.get(key)
        if offer is None:
            offer = self._offers.setdefault(key, Offer(self.volumes(demand, claim, topology)))
        return offer

    def restart(self) -> None:
        """Start the offers over, because taken volumes were released."""
        self._offers.clear()

    def volumes(self, demand: Demand, claim: Claim, topology: Topology | None) -> Iterator[Volume]:
        """Yield the usable volumes that fit the claim, by capacity and name; None requests those of all topologies."""
        labels = None if topology is None else topology.labels
        pin, users = demand.pin_of(claim), demand.shape_of(claim).users
        if pin:
            pinned = self._view.snapshot.volumes.get(pin)
            if pinned is not None:
                pinned = as_offered(pinned, claim, self._view.settings.annotations)
            if pinned is not None and self._may_take_pinned(claim, pinned, topology) and self._suits(users, pinned):
                yield pinned
            return
        for volume in self._view.index.candidates(claim, labels):
            if users and not self._suits(users, volume):
                continue
            if self.usable(volume) and (labels is None or volume_zone_matches(volume.labels, labels)):
                yield volume

    def usable(self, volume: Volume) -> bool:
        """Whether our own rules allow the volume for a claim it is not reserved for."""
        known = self._usable.get(volume.name)
        if known is None:
            known = self._usable.setdefault(volume.name, reject_use(self._view, volume, self._now) is None)
        return known

    def _suits(self, users: Iterable[UserNeeds], volume: Volume) -> bool:
        """Whether the volume leaves a node to each of the other pods that use the claim."""
        return all(self._sets.left_to(needs) & self._sets.reaching((volume,)) for needs in users)

    def _may_take_pinned(self, claim: Claim, volume: Volume, topology: Topology | None) -> bool:
        labels = None if topology is None else topology.labels
        return (
            scheduler_rejection(claim, volume, labels) is None
            and reject_use(self._view, volume, self._now, claim) is None
            and (labels is None or volume_zone_matches(volume.labels, labels))
        )


_FEW_TOPOLOGIES: Final = 64
"""Up to this number every topology is compared; beyond, they are tried in the order of their smallest volumes."""
_MAX_COUNTED: Final = 16
"""Volumes counted to see of which sizes a topology has many left."""
_MAX_COMPARED: Final = 16
"""Topologies compared in that."""


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod with a topology, a node in it that fits the pod, and a volume for each claim key. `left_out`: other users
    of its claims that have no room with them.
    """

    demand: Demand
    topology: Topology
    node: str
    volumes: Mapping[str, Volume]
    left_out: int = 0

    @property
    def attach(self) -> Attach:
        return attach_of_pod(self.demand, self.volumes)

    @property
    def waste(self) -> int:
        """Capacity beyond the requests; the requests of a demand do not change, so capacity alone is compared."""
        return sum(volume.capacity for volume in self.volumes.values())


@dataclass(slots=True)
class _Kind:
    """What is known of interchangeable demands: the topologies that may still serve them, the volumes left to try."""

    open: dict[int, Topology]
    everywhere: Offer | None = None


class Placing:
    """The pods placed so far in a pass, and what they took: volumes, room on nodes, and of pools."""

    def __init__(self, topologies: Topologies, offers: Offers, booking: NodeBooking, pools: PassPools) -> None:
        self._topologies = topologies
        self.offers = offers
        self.booking = booking
        self.pools = pools
        self._kinds: dict[tuple[object, ...], _Kind] = {}
        self.taken: set[str] = set()
        self.placed: dict[str, PlacedPod] = {}

    def place(self, demand: Demand) -> PlacedPod | None:
        """Place the pod where its volumes waste least, or return None if nothing is left for it."""
        best = self.best(demand)
        return best if best is not None and self.keep(best) else None

    def best(self, demand: Demand) -> PlacedPod | None:
        """Return how `place` would place the pod, without placing it."""
        alike = self.booking.kind(demand)
        kind = self._kinds.get(alike)
        if kind is None:
            open_to = {topology.number: topology for topology in self._topologies.open_to(demand)}
            kind = self._kinds.setdefault(alike, _Kind(open_to))
        best: list[PlacedPod] = []
        for least, topology in self._worth_trying(demand, kind):
            if best and least >= best[0].waste and _serves_all(best[0]):
                break
            placed = self.in_topology(demand, topology)
            if placed is None and not self.booking.may_gain(demand):
                kind.open.pop(topology.number, None)
            elif placed is None:
                continue
            elif not best or _rank(placed) < _rank(best[0]):
                best = [placed]
            elif _rank(placed) == _rank(best[0]):
                best.append(placed)
        return self._most_left(best[:_MAX_COMPARED])

    def _most_left(self, best: Sequence[PlacedPod]) -> PlacedPod | None:
        """Return the first of those where most volumes of the sizes they take are left.

        Pods that come later have the better chance the more volumes of each size every topology still has.
        """
        return max(best, key=self._plenty) if len(best) > 1 else next(iter(best), None)

    def _plenty(self, placed: PlacedPod) -> float:
        """Return how many pods the volumes of the sizes it takes would serve there, as far as a few of them tell."""
        sizes = Counter(volume.capacity for volume in placed.volumes.values())
        claims = {placed.volumes[claim.key].capacity: claim for claim in placed.demand.required}
        return min([self._left(placed, claims[size], size) / sizes[size] for size in claims], default=0.0)

    def _left(self, placed: PlacedPod, claim: Claim, size: int) -> int:
        offer = self.offers.offer(placed.demand, claim, placed.topology)
        first = islice(offer.left(lambda volume: volume.name in self.taken), _MAX_COUNTED)
        return sum(volume.capacity == size for volume in first)

    def lift(self, lifted: Iterable[PlacedPod]) -> None:
        """Undo the placement of these pods."""
        for placed in lifted:
            del self.placed[placed.demand.pod.key]
            self.taken.difference_update([volume.name for volume in placed.volumes.values()])
            self.booking.give_back(placed.demand, placed.node, placed.attach)
            self.pools.give_back(placed.demand.made)
        # What was not possible may be possible now.
        self._kinds.clear()
        self.offers.restart()

    def restore(self, placed: PlacedPod) -> None:
        """Place a pod that was lifted as it was."""
        self.keep(placed)

    def settle(self, demand: Demand, topology: Topology, required: Mapping[str, Volume]) -> None:
        """Place a pod with the volumes chosen for its required claims, if a node has room for them."""
        volumes = {**required, **self._optional(demand, topology, required)}
        node = self.booking.node_for(demand, topology, volumes)
        if node is not None:
            self.keep(PlacedPod(demand, topology, node, volumes))

    def topologies_for(self, demand: Demand, most: int) -> Sequence[Topology]:
        """Return topologies open to the pod: if there are many, those whose pools have most left, or that have the
        smallest volumes for its largest claim.
        """
        among = self._topologies.of(demand)
        open_to: Sequence[Topology] = among.open_to(demand)
        if demand.made:
            open_to = [topology for topology in open_to if self.pools.any_has_room(demand.made, topology.nodes)]
        if len(open_to) <= most:
            return open_to
        if not demand.required:
            return nlargest(most, open_to, key=lambda topology: self.pools.left(demand.made, topology.nodes[0]))
        hardest = max(demand.required, key=lambda claim: (claim.request, claim.key))
        numbers = {topology.number for topology in open_to}
        topologies: dict[int, Topology] = {}
        for volume in self.offers.volumes(demand, hardest, None):
            for topology in among.reaching(volume.node_affinity):
                if topology.number in numbers:
                    topologies[topology.number] = topology
            if len(topologies) >= most:
                break
        return tuple(topologies.values())[:most]

    def around(self, finer: Topology) -> Topology:
        """Return the topology, of pods that need existing volumes only, that a finer one is a part of, or is."""
        return self._topologies.around(finer)

    def keep(self, placed: PlacedPod) -> bool:
        """Take the volumes, and book the node and its pools; False if they have no room any more."""
        if not self.pools.has_room(placed.demand.made, placed.node):
            return False
        if not self.booking.keep(placed.demand, placed.node, placed.volumes):
            return False
        self.pools.take(placed.demand.made, placed.node)
        self.placed[placed.demand.pod.key] = placed
        self.taken.update([volume.name for volume in placed.volumes.values()])
        return True

    def required(self, demand: Demand, topology: Topology) -> dict[str, Volume] | None:
        """Return distinct volumes that are left in this topology for all claims that need existing ones, or None."""
        return self._assigned(demand, demand.required, topology, frozenset())

    def in_topology(self, demand: Demand, topology: Topology) -> PlacedPod | None:
        """Return how the pod could be placed in this topology with what is left, or None."""
        required = self.required(demand, topology)
        if required is None:
            return None
        volumes = required | self._optional(demand, topology, required)
        if not volumes:
            return None
        node = self.booking.node_for(demand, topology, volumes)
        if node is None:
            return None
        left_out = self.booking.left_out(demand, node, volumes) if demand.users else 0
        return PlacedPod(demand, topology, node, volumes, left_out)

    def _optional(self, demand: Demand, topology: Topology, required: Mapping[str, Volume]) -> dict[str, Volume]:
        """Return volumes for claims that could also be provisioned: smallest claim first, as Kubernetes does."""
        chosen: dict[str, Volume] = {}
        for claim in sorted(demand.optional, key=lambda claim: (claim.request, claim.key)):
            gone = {volume.name for volume in chain(required.values(), chosen.values())}
            assigned = self._assigned(demand, (claim,), topology, gone)
            chosen |= assigned or {}
        return chosen

    def _assigned(
        self, demand: Demand, claims: tuple[Claim, ...], topology: Topology, gone: Set[str]
    ) -> dict[str, Volume] | None:
        options: dict[str, list[Volume]] = {}
        by_shape: dict[ClaimShape, list[Volume]] = {}
        for claim in claims:
            shape = demand.shape_of(claim)
            if shape not in by_shape:
                first = self.offers.offer(demand, claim, topology).first(len(claims) + len(gone), self.taken)
                by_shape[shape] = [volume for volume in first if volume.name not in gone] if gone else first
            if not by_shape[shape]:
                return None
            options[claim.key] = by_shape[shape]
        if len(options) == 1:
            return {key: volumes[0] for key, volumes in options.items()}
        return assign(options) if options else {}

    def _worth_trying(self, demand: Demand, kind: _Kind) -> Iterator[tuple[int, Topology]]:
        """Yield topologies with a lower bound of the capacity the pod's volumes have there; bounds never fall."""
        if len(kind.open) <= _FEW_TOPOLOGIES:
            for topology in list(kind.open.values()):
                yield 0, topology
            return
        hardest = max(demand.required or demand.optional, key=lambda claim: (claim.request, claim.key))
        others = sum(claim.request for claim in demand.required) - (hardest.request if demand.required else 0)
        if kind.everywhere is None:
            kind.everywhere = Offer(self.offers.volumes(demand, hardest, None))
        tried: set[int] = set()
        for volume in kind.everywhere.left(lambda volume: self._gone(kind, volume)):
            for topology in self._topologies.reaching(volume.node_affinity):
                if topology.number in kind.open and topology.number not in tried:
                    tried.add(topology.number)
                    yield volume.capacity + others, topology

    def _gone(self, kind: _Kind, volume: Volume) -> bool:
        """Whether the volume is useless for this kind: taken, or accessible only from where the pod cannot run."""
        return volume.name in self.taken or not any(
            topology.number in kind.open for topology in self._topologies.reaching(volume.node_affinity)
        )


def _serves_all(placed: PlacedPod) -> bool:
    claims = len(placed.demand.required) + len(placed.demand.optional)
    return len(placed.volumes) == claims and not placed.left_out


def _rank(placed: PlacedPod) -> tuple[int, int, int]:
    """More of the optional claims first, then room for most of the other users, then least capacity."""
    return (-len(placed.volumes), placed.left_out, placed.waste)
