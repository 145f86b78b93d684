"""Makes room for pods that came too late in a batch, by moving pods placed in the same batch.

Within a topology an augmenting path rearranges volumes; between topologies a chain of moves ejects a pod, places the
rival, and finds another place for the ejected one. If pods are still left over although volumes might suffice, a search
continues from there: it allows claims without a volume, moves pods to other topologies or swaps two of them, and keeps
a move that leaves no more claims without a volume than before. A pod that was placed stays placed: only its place and
volumes change. Moves are drawn from a fixed sequence and the work is bounded by steps, not by time, so that the result
is the same everywhere.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final, TypeVar

from binder.assignment.bipartite_matching import Bits
from binder.assignment.placing import Placing
from binder.model.demand import Demand
from binder.rebalance.competition import Competition, MovablePod, Place, competition_of

_MOST_CHAIN_WORK: Final = 1_000_000
"""Steps of about 0.1 microseconds each."""
_MOST_SEARCHED: Final = 1000
"""Pods beyond which a search among all of them would take seconds."""


def rebalance(placing: Placing, rivals: Sequence[Demand]) -> None:
    """Place as many of the rivals as possible; each of them could be served alone."""
    competition = competition_of(placing, rivals)
    latecomers = [movable for movable in competition.movables if movable.key not in competition.at]
    left = _insert(competition, latecomers)
    if len(left) > fewest_left_over(competition):
        left = _insert(competition, left, depth=1)
    if len(left) > fewest_left_over(competition) and len(competition.movables) <= _MOST_SEARCHED:
        search_on(competition)
    competition.settle(placing)


def fewest_left_over(competition: Competition) -> int:
    """Return how many pods no placement can serve, at least: those whose claims exceed the volumes for them.

    A relaxation: claims may take volumes from any topology open to their pod.
    """
    if competition.bound is None:
        missing = competition.unmatchable()
        competition.bound = ceil(missing / max(len(movable.claims) for movable in competition.movables))
    return competition.bound


def _insert(competition: Competition, latecomers: Sequence[MovablePod], depth: int = 0) -> list[MovablePod]:
    """Place the latecomers one by one, ejecting up to `depth` pods in a chain for each; return those left over."""
    left: list[MovablePod] = []
    hopeless: set[tuple[object, ...]] = set()
    limit = competition.work + _MOST_CHAIN_WORK
    for movable in latecomers:
        if movable.demand.kind in hopeless or competition.work > limit:
            left.append(movable)
        elif _Chain(competition, limit).place(movable, depth, frozenset()):
            hopeless.clear()
        else:
            hopeless.add(movable.demand.kind)
            left.append(movable)
    return left


@dataclass(frozen=True, slots=True)
class _Chain:
    competition: Competition
    limit: int

    def place(self, movable: MovablePod, depth: int, fixed: frozenset[str]) -> bool:
        """Place the movable pod, directly or by ejecting others that are not fixed; no change if that fails."""
        for topology in movable.topologies:
            if self.competition.insert(movable, topology):
                return True
        if depth == 0:
            return False
        fixed |= {movable.key}
        return any(self._replace(movable, ejected, depth, fixed) for ejected in self._ejectable(movable, fixed))

    def _ejectable(self, movable: MovablePod, fixed: frozenset[str]) -> Iterator[MovablePod]:
        """Yield pods in the topologies open to the movable pod; each is put back before the next is requested."""
        for topology in movable.topologies:
            for key in self.competition.within(topology):
                if self.competition.work > self.limit:
                    return
                if key not in fixed:
                    yield self.competition.by_key[key]

    def _replace(self, movable: MovablePod, ejected: MovablePod, depth: int, fixed: frozenset[str]) -> bool:
        topology = self.competition.at[ejected.key].topology
        before = self.competition.saved()
        self.competition.remove(ejected)
        if self.competition.insert(movable, topology) and self.place(ejected, depth - 1, fixed):
            return True
        self.competition.restore(before)
        return False


T = TypeVar("T")

_MOST_MOVES: Final = 6000


def search_on(competition: Competition) -> None:
    """Place all movable pods if possible; otherwise leave the competition as it was."""
    before = competition.saved()
    search = _Search(competition)
    if not (search.place_everybody() and search.mend()):
        competition.restore(before)


@dataclass(slots=True)
class _Search:
    """`missing`: by kind, how many claims have no volume. `wanted`: such a kind, and the volumes that would help it.

    `draw` is the state of the fixed sequence.
    """

    competition: Competition
    missing: Counter[int] = field(default_factory=Counter)
    wanted: tuple[int, Bits] | None = None
    draw: int = 1

    def place_everybody(self) -> bool:
        """Place those left over where least is missing then; False if one fits on no node."""
        competition = self.competition
        for movable in competition.movables:
            if movable.key not in competition.at:
                ranked = sorted(movable.topologies, key=lambda topology: self._would_miss(movable, topology))
                chosen = next((topology for topology in ranked if self._book([(movable, topology)])), None)
                if chosen is None:
                    return False
                self._enter(movable, chosen)
        return True

    def mend(self) -> bool:
        """Move pods until no claim is without a volume, or the limit of the search is reached."""
        for _ in range(_MOST_MOVES):
            if not self.missing:
                return True
            self._try_move()
        return not self.missing

    def _try_move(self) -> None:
        competition = self.competition
        kind = self._pick(sorted(self.missing))
        topology = competition.topology_of[kind]
        if self.wanted is None or self.wanted[0] != kind:
            self.wanted = (kind, competition.matching.closure(kind))
        mover = competition.by_key[self._pick(competition.within(topology))]
        demanded = self._demands(mover, topology)
        elsewhere = [other for other in mover.topologies if other != topology]
        if not elsewhere or not demanded:
            return
        target = self._pick(elsewhere)
        partners = [
            partner
            for partner in map(competition.by_key.__getitem__, competition.within(target))
            if topology in partner.topologies and self._demands(partner, topology) < demanded
        ]
        chosen = self._next(len(partners) + 1)
        back = [(partners[chosen], topology)] if chosen < len(partners) else []
        self._move([(mover, target), *back])

    def _demands(self, movable: MovablePod, topology: int) -> int:
        """Return how many of the pod's claims could in this topology only take volumes that are wanted there."""
        suits = self.competition.matching.suits
        others = ~self.wanted[1] if self.wanted else 0
        return sum(not suits[kind] & others for kind in movable.kinds[topology])

    def _move(self, moves: Sequence[tuple[MovablePod, int]]) -> None:
        """Move the pods at once, unless that leaves more claims without a volume, or a pod without a node."""
        missing, mark = self.missing, self.competition.matching.mark()
        self.missing = missing.copy()
        for movable, _ in moves:
            self._leave(movable)
        for movable, topology in moves:
            self._enter(movable, topology)
        self._fill()
        if self.missing.total() <= missing.total() and self._book(moves):
            self.wanted = None
        else:
            self.missing = missing
            self.competition.matching.rollback(mark)

    def _leave(self, movable: MovablePod) -> None:
        for kind in movable.kinds[self.competition.at[movable.key].topology]:
            if self.missing[kind] > 0:
                self.missing[kind] -= 1
            else:
                self.competition.matching.remove(kind)

    def _enter(self, movable: MovablePod, topology: int) -> None:
        for kind in movable.kinds[topology]:
            if not self.competition.matching.add(kind):
                self.missing[kind] += 1

    def _book(self, moves: Sequence[tuple[MovablePod, int]]) -> bool:
        """Book nodes for the pods in their new topologies; no change if there is not one for each."""
        competition = self.competition
        places = [competition.stand(movable) for movable, _ in moves if movable.key in competition.at]
        for done, (movable, topology) in enumerate(moves):
            node = competition.placing.booking.find(movable.demand, competition.topologies[topology], movable.attach)
            if node is None:
                for placed, _ in moves[:done]:
                    competition.stand(placed)
                for (unplaced, _), place in zip(moves, places, strict=False):
                    competition.sit(unplaced, place)
                return False
            competition.sit(movable, Place(topology, node))
        return True

    def _fill(self) -> None:
        """Give volumes that a move released to claims that had none."""
        for kind in sorted(self.missing):
            while self.missing[kind] and self.competition.matching.add(kind):
                self.missing[kind] -= 1
        self.missing = +self.missing

    def _would_miss(self, movable: MovablePod, topology: int) -> int:
        mark = self.competition.matching.mark()
        matched = sum(map(self.competition.matching.add, movable.kinds[topology]))
        self.competition.matching.rollback(mark)
        return len(movable.claims) - matched

    def _pick(self, among: Sequence[T]) -> T:
        return among[self._next(len(among))]

    def _next(self, below: int) -> int:
        """Return the next number of a linear congruential sequence (Knuth's MMIX constants)."""
        self.draw = (self.draw * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.draw >> 33) % below
