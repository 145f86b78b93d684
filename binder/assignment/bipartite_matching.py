"""A maximum matching of claims to volumes that can be extended and made cheap: the arithmetic of assignments.

Claims are grouped by kind: claims that the same volumes suit are interchangeable. Volumes are bits of an integer, the
smallest volume the lowest bit, so what suits a kind, what it holds and what is free are one integer each, and an
augmenting path is found level by level with a few machine operations for each kind.
"""

from collections.abc import Iterable, Sequence

Bits = int


class BipartiteMatching:
    """`suits[kind]`: volumes that suit a kind. `part_of[kind]`: kinds of different parts have no volume in common."""

    def __init__(self, suits: Sequence[Bits], part_of: Sequence[int], free: Bits) -> None:
        self.suits = suits
        self.part_of = part_of
        self.free = free
        self._held: dict[int, dict[int, Bits]] = {part: {} for part in set(part_of)}

    def held(self, kind: int) -> Bits:
        """Return the volumes that claims of the kind hold."""
        return self._held[self.part_of[kind]].get(kind, 0)

    def add(self, kind: int) -> bool:
        """Assign a volume to one more claim of the kind, moving others if necessary; False, and no change, if
        impossible.
        """
        direct = self.suits[kind] & self.free
        if direct:
            first = direct & -direct
            self._set(kind, self.held(kind) | first, self.free ^ first)
            return True
        return self._augment(kind)

    def tighten(self) -> None:
        """Let the same claims hold the volumes of least total capacity.

        The sets of volumes that can be held at once form a matroid, so taking volumes from the smallest up, whenever
        the claims can hold it besides those taken so far, is optimal.
        """
        for part in self._held.values():
            _Tightening(self.suits, part).run(self.free)
        self.free |= _union(self.suits)
        for part in self._held.values():
            self.free &= ~_union(part.values())

    def _set(self, kind: int, held: Bits, free: Bits) -> None:
        self.free = free
        part = self._held[self.part_of[kind]]
        if held:
            part[kind] = held
        else:
            part.pop(kind, None)

    def _augment(self, kind: int) -> bool:
        """Search the kinds whose volumes would help, level by level, for one that can take an unused volume instead."""
        suits, free = self.suits, self.free
        reached = suits[kind]
        levels = [[kind]]
        rest = [pair for pair in self._held[self.part_of[kind]].items() if pair[0] != kind]
        while True:
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
        """Let `last` take an unused volume and pass one of its own up, level by level, to the kind that started."""
        gained = self.suits[last] & self.free
        gained &= -gained
        free = self.free ^ gained
        for level in reversed(levels):
            held = self.held(last)
            receiver = next(kind for kind in level if held & self.suits[kind])
            given = held & self.suits[receiver]
            given &= -given
            self._set(last, (held ^ given) | gained, free)
            last, gained = receiver, given
        self._set(last, self.held(last) | gained, free)


class _Tightening:
    """Redistributes the volumes of one part, from the smallest up, to kinds that need as many as they held."""

    def __init__(self, suits: Sequence[Bits], held: dict[int, Bits]) -> None:
        self._suits = suits
        self._held = held
        self._needs = {kind: bits.bit_count() for kind, bits in held.items()}
        self._closed: set[int] = set()

    def run(self, free: Bits) -> None:
        left = (free | _union(self._held.values())) & _union(self._suits[kind] for kind in self._needs)
        missing = sum(self._needs.values())
        self._held.clear()
        while missing and left:
            volume = left & -left
            left ^= volume
            missing -= self._hold(volume)

    def _hold(self, volume: Bits) -> bool:
        """Assign the volume to a claim, moving others, if that leaves one more claim served than before."""
        level = [kind for kind in self._needs if self._suits[kind] & volume and kind not in self._closed]
        visited = set(level)
        levels: list[list[int]] = []
        while level:
            for kind in level:
                if self._held.get(kind, 0).bit_count() < self._needs[kind]:
                    self._pass_down(volume, levels, kind)
                    return True
            levels.append(level)
            offered = _union(self._held[kind] for kind in level)
            unseen = self._needs.keys() - visited - self._closed
            level = sorted(kind for kind in unseen if self._suits[kind] & offered)
            visited.update(level)
        # Nothing that these kinds hold helps a kind that lacks something, and that does not change.
        self._closed.update(visited)
        return False

    def _pass_down(self, volume: Bits, levels: Sequence[Sequence[int]], last: int) -> None:
        """Let `last` gain a volume held one level up, that level one from the next, the first the new volume."""
        for level in reversed(levels):
            giver = next(kind for kind in level if self._held[kind] & self._suits[last])
            given = self._held[giver] & self._suits[last]
            given &= -given
            self._held[giver] ^= given
            self._held[last] = self._held.get(last, 0) | given
            last = giver
        self._held[last] = self._held.get(last, 0) | volume


def _union(many: Iterable[Bits]) -> Bits:
    union = 0
    for bits in many:
        union |= bits
    return union
