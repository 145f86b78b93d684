"""Distinct volumes for all claims of a pod at once: if an assignment exists it is found, and the best one is chosen.

The best wastes the least capacity in total; the requests are given, so that is the one of least total capacity. Among
equals the claims, in the order of their keys, get the first volumes by name. This makes the best one unique, whatever
the order of the input.

Claims with the same options are one kind, so equal claims cost next to nothing beyond the first. The least capacity
comes from `binder.assignment.bipartite_matching`: the sets of volumes that the claims can hold at once form a matroid.
The names are then decided claim by claim: a claim may take every volume from which a chain of exchanges that keeps the
total leads to a volume its kind holds. No arithmetic on capacities is needed, only comparisons.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from binder.assignment.bipartite_matching import BipartiteMatching, Bits
from kube.objects.model import Volume


def assign(options: Mapping[str, Sequence[Volume]]) -> dict[str, Volume] | None:
    """Return a volume for each claim key, no volume twice, or None if there is no such assignment.

    `options` holds for each claim every volume that fits it, sorted by capacity and name. Of k claims only the first k
    options of each can matter: if a claim took an option beyond its first k, one of these would be unused, because the
    k-1 others hold at most k-1 of them, and that one is no larger and, if as large, earlier by name.
    """
    claims = sorted(options)
    shortlists = [tuple(options[claim][: len(claims)]) for claim in claims]
    if not all(shortlists):
        return None
    if len({shortlist[0].name for shortlist in shortlists}) == len(claims):
        return {claim: shortlist[0] for claim, shortlist in zip(claims, shortlists, strict=True)}
    return _Assignment(claims, shortlists).best()


class _Link(NamedTuple):
    """The holder of any of these volumes, possibly none, can have `instead` for it."""

    volumes: Bits
    instead: Bits


class _Assignment:
    """Volumes are bits, the smallest volume the lowest; claims with the same shortlist are one kind.

    `_held` are the volumes of each kind's claims that are still undecided, `_free` those that no claim has.
    """

    def __init__(self, claims: Sequence[str], shortlists: Sequence[tuple[Volume, ...]]) -> None:
        names = [tuple([volume.name for volume in shortlist]) for shortlist in shortlists]
        kinds = {key: kind for kind, key in enumerate(dict.fromkeys(names))}
        every = {volume.name: volume for shortlist in shortlists for volume in shortlist}
        volumes = sorted(every.values(), key=lambda volume: (volume.capacity, volume.name))
        bit_of = {volume.name: 1 << place for place, volume in enumerate(volumes)}
        self._claims = [(claim, kinds[key]) for claim, key in zip(claims, names, strict=True)]
        self._by_name = [[(bit_of[name], every[name]) for name in sorted(key)] for key in kinds]
        self._suits = [sum([bit for bit, _ in listed]) for listed in self._by_name]
        self._as_large: dict[Bits, Bits] = {}
        for _, alike in groupby(volumes, key=lambda volume: volume.capacity):
            bits = [bit_of[volume.name] for volume in alike]
            self._as_large |= dict.fromkeys(bits, sum(bits))
        self._held: list[Bits] = []
        self._free: Bits = (1 << len(volumes)) - 1

    def best(self) -> dict[str, Volume] | None:
        matching = BipartiteMatching(self._suits, [0] * len(self._suits), self._free)
        if not all(matching.add(kind) for _, kind in self._claims):
            return None
        matching.tighten()
        self._held, self._free = [matching.held(kind) for kind in range(len(self._suits))], matching.free
        return {claim: self._take_first(kind) for claim, kind in self._claims}

    def _take_first(self, kind: int) -> Volume:
        """Assign to a claim of the kind, permanently, the first volume by name that leaves the total unchanged."""
        chains = self._chains(kind)
        possible = self._held[kind]
        for link in chains:
            possible |= link.volumes
        bit, volume = next(pair for pair in self._by_name[kind] if pair[0] & possible)
        if not bit & self._held[kind]:
            self._exchange(kind, bit, chains)
        self._held[kind] ^= bit
        return volume

    def _chains(self, kind: int) -> list[_Link]:
        """Return, going back from what the kind holds, the volumes it can have in matching without a larger total.

        A volume can be had from another kind if an obtainable one suits that kind instead, and an unused volume if an
        equally large one that is held becomes unused for it.
        """
        links: list[_Link] = []
        reached = fresh = self._held[kind]
        while fresh:
            before = reached
            for bit in _each(fresh & ~self._free):
                if more := self._as_large[bit] & self._free & ~reached:
                    links.append(_Link(more, bit))
                    reached |= more
            for other, held in enumerate(self._held):
                more, instead = held & ~reached, self._suits[other] & reached
                if more and instead:
                    links.append(_Link(more, instead & -instead))
                    reached |= more
            fresh = reached & ~before
        return links

    def _exchange(self, kind: int, wanted: Bits, links: Sequence[_Link]) -> None:
        """Give the holder of the wanted volume the next one of its chain, and so on, until the kind gives up one."""
        chain = [wanted]
        while not chain[-1] & self._held[kind]:
            chain.append(next(link.instead for link in links if link.volumes & chain[-1]))
        self._held[kind] ^= chain[-1]
        for given, instead in zip(chain[-2::-1], chain[:0:-1], strict=True):
            self._replace(given, instead)
        self._held[kind] ^= wanted

    def _replace(self, given: Bits, instead: Bits) -> None:
        """Replace a volume of its holder, possibly none, by one that is not held any more."""
        if given & self._free:
            self._free ^= given | instead
            return
        holder = next(kind for kind, held in enumerate(self._held) if held & given)
        self._held[holder] ^= given | instead


def _each(bits: Bits) -> Iterator[Bits]:
    while bits:
        lowest = bits & -bits
        yield lowest
        bits ^= lowest
