"""A maximum matching of claims to volumes that can be extended, undone and made cheap: the arithmetic of `repack`.

Claims are known by kind: claims that the same volumes suit are interchangeable. Volumes are bits of an integer, the
smallest volume the lowest bit, so what suits a kind, what it holds and what is free are one integer each, and an
augmenting path is found level by level with a few machine operations for each kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass

Bits = int


@dataclass(slots=True)
class Exchange:
    """`suits[kind]`: volumes that suit a kind. `held[kind]`: those its claims hold, absent when none. `free`: the rest.

    `work` counts steps, so that a search can be bounded without a clock.
    """

    suits: Sequence[Bits]
    held: dict[int, Bits]
    free: Bits
    work: int = 0

    def saved(self) -> tuple[dict[int, Bits], Bits]:
        """Return the state for `restore`."""
        return dict(self.held), self.free

    def restore(self, saved: tuple[dict[int, Bits], Bits]) -> None:
        """Go back to a saved state, which is not to be used again."""
        self.held, self.free = saved

    def give(self, kind: int, volume: Bits) -> None:
        """Let a claim of the kind hold this free volume, which suits it."""
        self.held[kind] = self.held.get(kind, 0) | volume
        self.free &= ~volume

    def add(self, kind: int) -> bool:
        """Give one more claim of the kind a volume, others moving if need be; False, and no change, if impossible."""
        self.work += 1
        direct = self.suits[kind] & self.free
        if direct:
            self.give(kind, direct & -direct)
            return True
        return self._augment(kind)

    def remove(self, kind: int) -> None:
        """Take the largest volume back that a claim of the kind holds. There must be one."""
        held = self.held.pop(kind)
        largest = 1 << (held.bit_length() - 1)
        self.free |= largest
        if held != largest:
            self.held[kind] = held ^ largest

    def tighten(self) -> None:
        """Let the same claims hold the volumes of least total capacity.

        The sets of volumes that can be held at once form a matroid, so taking volumes from the smallest up, whenever
        the claims can hold it besides those taken so far, is optimal.
        """
        needs = {kind: held.bit_count() for kind, held in self.held.items()}
        left = self.free
        for held in self.held.values():
            left |= held
        everything, missing = left, sum(needs.values())
        self.held = {}
        closed: set[int] = set()
        while missing and left:
            volume = left & -left
            left ^= volume
            missing -= self._hold(volume, needs, closed)
        self.free = everything
        for held in self.held.values():
            self.free &= ~held

    def _augment(self, kind: int) -> bool:
        """Search the kinds whose volumes would help, level by level, for one that can take a free volume instead."""
        suits, free = self.suits, self.free
        reached = suits[kind]
        levels = [[kind]]
        rest = [pair for pair in self.held.items() if pair[0] != kind]
        while True:
            self.work += len(rest)
            level = [other for other, held in rest if held & reached]
            if not level:
                return False
            for other in level:
                if suits[other] & free:
                    self._shift(levels, other)
                    return True
            rest = [pair for pair in rest if not pair[1] & reached]
            for other in level:
                reached |= suits[other]
            levels.append(level)

    def _shift(self, levels: Sequence[Sequence[int]], last: int) -> None:
        """Let `last` take a free volume and hand one of its own up, level by level, to the kind that started."""
        gained = self.suits[last] & self.free
        gained &= -gained
        self.free ^= gained
        for level in reversed(levels):
            held = self.held[last]
            receiver = next(kind for kind in level if held & self.suits[kind])
            given = held & self.suits[receiver]
            given &= -given
            self.held[last] = (held ^ given) | gained
            last, gained = receiver, given
        self.held[last] = self.held.get(last, 0) | gained

    def _hold(self, volume: Bits, needs: dict[int, int], closed: set[int]) -> bool:
        """Let a claim hold the volume, others moving on, if that leaves one more claim served than before."""
        level = [kind for kind in needs if self.suits[kind] & volume and kind not in closed]
        self.work += len(needs)
        visited = set(level)
        levels: list[list[int]] = []
        while level:
            for kind in level:
                if self.held.get(kind, 0).bit_count() < needs[kind]:
                    self._pass_down(volume, levels, kind)
                    return True
            levels.append(level)
            offered = 0
            for kind in level:
                offered |= self.held[kind]
            self.work += len(needs)
            level = [
                kind for kind in needs if kind not in visited and kind not in closed and self.suits[kind] & offered
            ]
            visited.update(level)
        # Nothing these kinds hold is of use to a kind that lacks something, and that stays so.
        closed.update(visited)
        return False

    def _pass_down(self, volume: Bits, levels: Sequence[Sequence[int]], last: int) -> None:
        """Let `last` gain a volume held one level up, that level one from the next, the first the new volume."""
        for level in reversed(levels):
            giver = next(kind for kind in level if self.held[kind] & self.suits[last])
            given = self.held[giver] & self.suits[last]
            given &= -given
            self.held[giver] ^= given
            self.held[last] = self.held.get(last, 0) | given
            last = giver
        self.held[last] = self.held.get(last, 0) | volume
