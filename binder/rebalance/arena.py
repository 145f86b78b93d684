"""The pods that compete in a batch, the volumes they compete for, and who sits where at the moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from binder.assignment.exchange import Bits, Exchange
from binder.assignment.node_booking import Attach
from binder.assignment.placing import Placing
from binder.assignment.topologies import Topology
from binder.model.demand import Demand
from kube.objects.model import Claim, Volume


@dataclass(frozen=True, slots=True)
class Contender:
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
    """Where a contender sits: the topology's number, and the node booked for it."""

    topology: int
    node: str


_WORK_OF_A_SEAT: Final = 100
"""Looking for a node and booking it, in the steps the exchange counts."""

State = tuple[int, int]


@dataclass(slots=True)
class Arena:
    """The state of the search. `topology_of`: by kind. `bound`: how many must be left over at least, once known."""

    placing: Placing
    contenders: tuple[Contender, ...]
    by_key: Mapping[str, Contender]
    topologies: Mapping[int, Topology]
    volumes: Sequence[Volume]
    exchange: Exchange
    topology_of: Sequence[int]
    at: dict[str, Place] = field(default_factory=dict)
    bound: int | None = None
    _members: dict[int, dict[str, None]] = field(default_factory=dict)
    _moves: list[tuple[Contender, Place, bool]] = field(default_factory=list)

    @property
    def work(self) -> int:
        return self.exchange.work

    def within(self, topology: int) -> list[str]:
        """Return the keys of the contenders that sit in a topology."""
        return list(self._members.get(topology, ()))

    def insert(self, contender: Contender, topology: int) -> bool:
        """Seat the contender in a topology if volumes, after moving those of others there, and a node allow it."""
        mark = self.exchange.mark()
        self.exchange.work += _WORK_OF_A_SEAT
        if all(map(self.exchange.add, contender.kinds[topology])):
            node = self.placing.seats.find(contender.demand, self.topologies[topology], contender.attach)
            if node is not None:
                self.sit(contender, Place(topology, node))
                return True
        self.exchange.undo(mark)
        return False

    def remove(self, contender: Contender) -> None:
        """Unseat a contender that sits."""
        place = self.stand(contender)
        for kind in contender.kinds[place.topology]:
            self.exchange.remove(kind)

    def saved(self) -> State:
        """Return the state for `restore`."""
        return self.exchange.mark(), len(self._moves)

    def restore(self, state: State) -> None:
        """Go back to a saved state, which is not to be used again."""
        mark, moves = state
        self.exchange.undo(mark)
        while len(self._moves) > moves:
            contender, place, sat = self._moves.pop()
            if sat:
                self._leave(contender)
            else:
                self._take(contender, place)

    def unmatchable(self) -> int:
        """Return how many claims find no volume even if each may take one of any topology open to its pod."""
        suits: list[Bits] = []
        for contender in self.contenders:
            for claim in range(len(contender.claims)):
                wide = 0
                for topology in contender.topologies:
                    wide |= self.exchange.suits[contender.kinds[topology][claim]]
                suits.append(wide)
        kinds = {wide: kind for kind, wide in enumerate(dict.fromkeys(suits))}
        relaxed = Exchange(list(kinds), [0] * len(kinds), (1 << len(self.volumes)) - 1)
        hopeless: set[int] = set()
        missing = 0
        for wide in suits:
            if kinds[wide] in hopeless or not relaxed.add(kinds[wide]):
                hopeless.add(kinds[wide])
                missing += 1
        return missing

    def settle(self, placing: Placing) -> None:
        """Hand the outcome back: least capacity for the same places, volumes dealt out claim by claim."""
        self.exchange.tighten()
        dealt: dict[int, Bits] = {}
        for contender in self.contenders:
            place = self.at.get(contender.key)
            if place is None:
                continue
            volumes: dict[str, Volume] = {}
            for claim, kind in zip(contender.claims, contender.kinds[place.topology], strict=True):
                left = dealt.get(kind, self.exchange.held(kind))
                lowest = left & -left
                dealt[kind] = left ^ lowest
                volumes[claim.key] = self.volumes[lowest.bit_length() - 1]
            placing.seats.give_back(contender.demand, place.node, contender.attach)
            placing.settle(contender.demand, self.topologies[place.topology], volumes)

    def sit(self, contender: Contender, place: Place) -> None:
        """Book the node; the volumes are the exchange's business."""
        self._take(contender, place)
        self._moves.append((contender, place, True))

    def stand(self, contender: Contender) -> Place:
        """Undo `sit`."""
        place = self._leave(contender)
        self._moves.append((contender, place, False))
        return place

    def _take(self, contender: Contender, place: Place) -> None:
        self.placing.seats.take(contender.demand, place.node, contender.attach)
        self.at[contender.key] = place
        self._members.setdefault(place.topology, {})[contender.key] = None

    def _leave(self, contender: Contender) -> Place:
        place = self.at.pop(contender.key)
        del self._members[place.topology][contender.key]
        self.placing.seats.give_back(contender.demand, place.node, contender.attach)
        return place
