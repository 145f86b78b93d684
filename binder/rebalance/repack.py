"""Makes room for pods that came too late in a batch, by moving pods placed in the same batch.

Within a topology an augmenting path rearranges volumes; between topologies a chain of moves ejects a pod, places the
rival, and finds the ejected one another place. If pods are still left over although volumes might
suffice, `binder.rebalance.reshuffle` searches on. A pod that was placed stays placed: only where, and with what,
changes. The work is bounded by steps, not by time, so that the outcome is the same everywhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from binder.assignment.placing import Placing
from binder.model.demand import Demand
from binder.rebalance.arena import Arena, Contender
from binder.rebalance.contest import contest
from binder.rebalance.reshuffle import reshuffle

_MOST_CHAIN_WORK: Final = 1_000_000
"""Steps of about 0.1 microseconds each."""
_MOST_RESHUFFLED: Final = 1000
"""Pods beyond which a search among all of them would take seconds."""


def repack(placing: Placing, rivals: Sequence[Demand]) -> None:
    """Place as many of the rivals as can be found room for; rivals could each be served if they were alone."""
    arena = contest(placing, rivals)
    latecomers = [contender for contender in arena.contenders if contender.key not in arena.at]
    left = _insert(arena, latecomers)
    if len(left) > fewest_left_over(arena):
        left = _insert(arena, left, depth=1)
    if len(left) > fewest_left_over(arena) and len(arena.contenders) <= _MOST_RESHUFFLED:
        reshuffle(arena)
    arena.settle(placing)


def fewest_left_over(arena: Arena) -> int:
    """Return how many pods no placement at all can serve, at least: those whose claims exceed the volumes for them.

    A relaxation: claims may take volumes from any topology open to their pod.
    """
    if arena.bound is None:
        missing = arena.unmatchable()
        arena.bound = ceil(missing / max(len(contender.claims) for contender in arena.contenders))
    return arena.bound


def _insert(arena: Arena, latecomers: Sequence[Contender], depth: int = 0) -> list[Contender]:
    """Place the latecomers one by one, ejecting up to `depth` pods in a chain for each; return those left over."""
    left: list[Contender] = []
    hopeless: set[tuple[object, ...]] = set()
    limit = arena.work + _MOST_CHAIN_WORK
    for contender in latecomers:
        if contender.demand.kind in hopeless or arena.work > limit:
            left.append(contender)
        elif _Chain(arena, limit).place(contender, depth, frozenset()):
            hopeless.clear()
        else:
            hopeless.add(contender.demand.kind)
            left.append(contender)
    return left


@dataclass(frozen=True, slots=True)
class _Chain:
    arena: Arena
    limit: int

    def place(self, contender: Contender, depth: int, fixed: frozenset[str]) -> bool:
        """Place the contender, directly or by ejecting others that are not fixed; no change if that fails."""
        for topology in contender.topologies:
            if self.arena.insert(contender, topology):
                return True
        if depth == 0:
            return False
        fixed |= {contender.key}
        return any(self._replace(contender, ejected, depth, fixed) for ejected in self._ejectable(contender, fixed))

    def _ejectable(self, contender: Contender, fixed: frozenset[str]) -> Iterator[Contender]:
        """Yield pods in the topologies open to the contender; each is put back before the next is asked for."""
        for topology in contender.topologies:
            for key in self.arena.within(topology):
                if self.arena.work > self.limit:
                    return
                if key not in fixed:
                    yield self.arena.by_key[key]

    def _replace(self, contender: Contender, ejected: Contender, depth: int, fixed: frozenset[str]) -> bool:
        topology = self.arena.at[ejected.key].topology
        before = self.arena.saved()
        self.arena.remove(ejected)
        if self.arena.insert(contender, topology) and self.place(ejected, depth - 1, fixed):
            return True
        self.arena.restore(before)
        return False
