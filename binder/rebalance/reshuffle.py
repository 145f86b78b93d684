"""Searches on when chains of moves do not help: seats everybody somewhere and mends what is then missing.

The search allows claims without a volume. A move sends a pod to another topology, or lets two pods trade places, and is
kept when it leaves no more claims without a volume than before. Moves are drawn from a fixed sequence, so that the same
batch ends the same way everywhere.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from binder.assignment.exchange import Bits
from binder.rebalance.arena import Arena, Contender, Place

T = TypeVar("T")

_MOST_MOVES: Final = 6000


def reshuffle(arena: Arena) -> None:
    """Seat all contenders if a way is found; otherwise leave the arena as it was."""
    before = arena.saved()
    search = _Search(arena)
    if not (search.seat_everybody() and search.mend()):
        arena.restore(before)


@dataclass(slots=True)
class _Search:
    """`missing`: by kind, how many claims have no volume. `wanted`: such a kind, and the volumes that would help it.

    `draw` is the state of the fixed sequence.
    """

    arena: Arena
    missing: Counter[int] = field(default_factory=Counter)
    wanted: tuple[int, Bits] | None = None
    draw: int = 1

    def seat_everybody(self) -> bool:
        """Seat those left over where least is missing then; False when one fits on no node."""
        arena = self.arena
        for contender in arena.contenders:
            if contender.key not in arena.at:
                ranked = sorted(contender.topologies, key=lambda topology: self._would_miss(contender, topology))
                found = next((topology for topology in ranked if self._seat([(contender, topology)])), None)
                if found is None:
                    return False
                self._enter(contender, found)
        return True

    def mend(self) -> bool:
        """Move pods until no claim is without a volume, or the search has gone on for long enough."""
        for _ in range(_MOST_MOVES):
            if not self.missing:
                return True
            self._try_move()
        return not self.missing

    def _try_move(self) -> None:
        arena = self.arena
        kind = self._pick(sorted(self.missing))
        topology = arena.topology_of[kind]
        if self.wanted is None or self.wanted[0] != kind:
            self.wanted = (kind, arena.exchange.closure(kind))
        mover = arena.by_key[self._pick(arena.within(topology))]
        demanded = self._demands(mover, topology)
        elsewhere = [other for other in mover.topologies if other != topology]
        if not elsewhere or not demanded:
            return
        target = self._pick(elsewhere)
        partners = [
            partner
            for partner in map(arena.by_key.__getitem__, arena.within(target))
            if topology in partner.topologies and self._demands(partner, topology) < demanded
        ]
        chosen = self._next(len(partners) + 1)
        back = [(partners[chosen], topology)] if chosen < len(partners) else []
        self._move([(mover, target), *back])

    def _demands(self, contender: Contender, topology: int) -> int:
        """Return how many of the pod's claims could in this topology only take volumes that are wanted there."""
        suits = self.arena.exchange.suits
        others = ~self.wanted[1] if self.wanted else 0
        return sum(not suits[kind] & others for kind in contender.kinds[topology])

    def _move(self, moves: Sequence[tuple[Contender, int]]) -> None:
        """Move the pods at once, unless that leaves more claims without a volume, or a pod without a node."""
        missing, mark = self.missing, self.arena.exchange.mark()
        self.missing = missing.copy()
        for contender, _ in moves:
            self._leave(contender)
        for contender, topology in moves:
            self._enter(contender, topology)
        self._fill()
        if self.missing.total() <= missing.total() and self._seat(moves):
            self.wanted = None
        else:
            self.missing = missing
            self.arena.exchange.undo(mark)

    def _leave(self, contender: Contender) -> None:
        for kind in contender.kinds[self.arena.at[contender.key].topology]:
            if self.missing[kind] > 0:
                self.missing[kind] -= 1
            else:
                self.arena.exchange.remove(kind)

    def _enter(self, contender: Contender, topology: int) -> None:
        for kind in contender.kinds[topology]:
            if not self.arena.exchange.add(kind):
                self.missing[kind] += 1

    def _seat(self, moves: Sequence[tuple[Contender, int]]) -> bool:
        """Give the pods nodes in their new topologies; no change if there is not one for each."""
        arena = self.arena
        places = [arena.stand(contender) for contender, _ in moves if contender.key in arena.at]
        for done, (contender, topology) in enumerate(moves):
            node = arena.placing.seats.find(contender.demand, arena.topologies[topology], contender.attach)
            if node is None:
                for seated, _ in moves[:done]:
                    arena.stand(seated)
                for (unseated, _), place in zip(moves, places, strict=False):
                    arena.sit(unseated, place)
                return False
            arena.sit(contender, Place(topology, node))
        return True

    def _fill(self) -> None:
        """Give volumes that a move set free to claims that had none."""
        for kind in sorted(self.missing):
            while self.missing[kind] and self.arena.exchange.add(kind):
                self.missing[kind] -= 1
        self.missing = +self.missing

    def _would_miss(self, contender: Contender, topology: int) -> int:
        mark = self.arena.exchange.mark()
        found = sum(map(self.arena.exchange.add, contender.kinds[topology]))
        self.arena.exchange.undo(mark)
        return len(contender.claims) - found

    def _pick(self, among: Sequence[T]) -> T:
        return among[self._next(len(among))]

    def _next(self, below: int) -> int:
        """Return the next number of a linear congruential sequence (Knuth's MMIX constants)."""
        self.draw = (self.draw * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.draw >> 33) % below
