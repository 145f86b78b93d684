"""Available volumes, indexed so that the smallest one that fits a claim is found without a scan.

Class, volume mode and attributes class must be equal, so they are the first key. Below it are the sets of access modes
(at most 16 in practice), below each the volumes by capacity, all of them and again by node affinity. Everything is
persistent: a change returns a new index and copies a few hundred pointers, and holding an index is a frozen view.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from heapq import merge

from binder.matching.affinity_groups import AffinityGroups
from binder.matching.capacity_order import CapacityOrder, Entry, Selects, entry_of
from binder.matching.claim_shape import VolumePool, pool_of
from kube.objects.labels import NodeSelector
from kube.objects.model import Claim, Volume
from kube.persistent_map import Map
from kube.rules.selectors import matches_labels

AccessModes = frozenset[str]


@dataclass(frozen=True, slots=True)
class ModeGroup:
    """Volumes that differ only in capacity, labels and affinity: all in order, and by affinity."""

    everywhere: CapacityOrder
    by_affinity: AffinityGroups


Shelf = Map[AccessModes, ModeGroup]


def is_free(volume: Volume) -> bool:
    """Whether Kubernetes would give the volume to any claim: Available, without a claimRef, not being deleted."""
    return volume.phase == "Available" and volume.claim is None and not volume.deleting


@dataclass(frozen=True, slots=True)
class VolumeIndex:
    """The Available volumes of a moment. Volumes that are not Available are not in it: find those by claim."""

    shelves: Map[VolumePool, Shelf] = Map()

    @classmethod
    def of(cls, volumes: Iterable[Volume]) -> "VolumeIndex":
        """Return the index of many volumes, much faster than adding them one by one."""
        shelves: dict[VolumePool, dict[AccessModes, list[Entry]]] = {}
        for volume in volumes:
            if is_free(volume):
                shelf = shelves.setdefault(pool_of(volume), {})
                shelf.setdefault(frozenset(volume.access_modes), []).append(entry_of(volume))
        return cls(
            Map(
                {
                    pool: Map(
                        {modes: ModeGroup(CapacityOrder.of(v), AffinityGroups.of(v)) for modes, v in shelf.items()}
                    )
                    for pool, shelf in shelves.items()
                }
            )
        )

    def with_volume(self, old: Volume | None, new: Volume | None) -> "VolumeIndex":
        """Return the index after a volume was added (old is None), changed, or removed (new is None)."""
        index = self
        if old is not None and is_free(old):
            index = index._without(old)
        if new is not None and is_free(new):
            index = index._with(new)
        return index

    def smallest(
        self, claim: Claim, node_labels: Mapping[str, str] | None = None, exclude: Container[str] = ()
    ) -> Volume | None:
        """Return the Available volume of least capacity, then first name, that fits the claim, None if none does.

        With `node_labels` it is one that is accessible from a node with these labels, as kube-scheduler would choose
        for that node; without, affinity is not evaluated. `exclude` holds names of volumes not to be taken.
        """
        best: Entry | None = None
        selects = _selects(claim)
        for order in self._orders(claim, node_labels):
            for entry in order.at_least(claim.request, selects):
                if best is not None and best < entry:
                    break
                if entry[1] not in exclude:
                    best = entry
                    break
        return None if best is None else best[2]

    def candidates(self, claim: Claim, node_labels: Mapping[str, str] | None = None) -> Iterator[Volume]:
        """Yield every Available volume that fits the claim, smallest first, then by name. Arguments as for
        `smallest`.
        """
        selects = _selects(claim)
        fitting = [order.at_least(claim.request, selects) for order in self._orders(claim, node_labels)]
        for _, _, volume in fitting[0] if len(fitting) == 1 else merge(*fitting):
            yield volume

    def topologies(self, claim: Claim) -> Iterator[NodeSelector | None]:
        """Yield each affinity, once, that some volume large enough for the claim has; labels are not evaluated."""
        seen: set[NodeSelector | None] = set()
        for group in self.by_topology(claim):
            for affinity, order in group.items():
                if order.largest >= claim.request and affinity not in seen:
                    seen.add(affinity)
                    yield affinity

    def affinities(self, claims: Iterable[Claim]) -> set[NodeSelector | None]:
        """Return the affinities of all volumes that `topologies` yields for any of the claims."""
        return set(self._affinities(claims))

    def has_affinities(self, claims: Iterable[Claim]) -> bool:
        """Whether `affinities` would return any; it looks for the first one only."""
        return any(True for _ in self._affinities(claims))

    def _affinities(self, claims: Iterable[Claim]) -> Iterator[NodeSelector | None]:
        smallest: dict[tuple[VolumePool, tuple[str, ...]], Claim] = {}
        for claim in claims:
            known = smallest.setdefault((pool_of(claim), claim.access_modes), claim)
            if claim.request < known.request:
                smallest[pool_of(claim), claim.access_modes] = claim
        return (affinity for claim in smallest.values() for affinity in self.topologies(claim))

    def by_topology(self, claim: Claim) -> tuple[Map[NodeSelector | None, CapacityOrder], ...]:
        """Return the volumes of the claim's class, modes and attributes class, large enough or not, by affinity.

        The result for a claim on a node changes only when one of these orders that is accessible from the node does.
        """
        return tuple(group.by_affinity.groups for group in self._groups(claim))

    def deciding_labels(self, claim: Claim) -> set[str]:
        """Return the keys of node labels that the affinities of those volumes use."""
        return {key for group in self._groups(claim) for key in group.by_affinity.keys}

    def _orders(self, claim: Claim, node_labels: Mapping[str, str] | None) -> Iterator[CapacityOrder]:
        for group in self._groups(claim):
            if node_labels is None:
                yield group.everywhere
            else:
                yield from group.by_affinity.reachable_from(node_labels)

    def _groups(self, claim: Claim) -> Iterator[ModeGroup]:
        wanted = frozenset(claim.access_modes)
        for modes, group in self.shelves.get(pool_of(claim), _EMPTY_SHELF).items():
            if wanted <= modes:
                yield group

    def _with(self, volume: Volume) -> "VolumeIndex":
        pool, modes = pool_of(volume), frozenset(volume.access_modes)
        shelf = self.shelves.get(pool, _EMPTY_SHELF)
        group = shelf.get(modes, _EMPTY_GROUP)
        entry = entry_of(volume)
        grown = ModeGroup(group.everywhere.with_entry(entry), group.by_affinity.with_entry(entry))
        return VolumeIndex(self.shelves.set(pool, shelf.set(modes, grown)))

    def _without(self, volume: Volume) -> "VolumeIndex":
        pool, modes = pool_of(volume), frozenset(volume.access_modes)
        shelf = self.shelves.get(pool, _EMPTY_SHELF)
        group = shelf.get(modes)
        if group is None:
            return self
        left = ModeGroup(group.everywhere.without_volume(volume), group.by_affinity.without_volume(volume))
        shelf = shelf.set(modes, left) if left.everywhere else shelf.delete(modes)
        return VolumeIndex(self.shelves.set(pool, shelf) if shelf else self.shelves.delete(pool))


_EMPTY_SHELF: Shelf = Map()
_EMPTY_GROUP = ModeGroup(CapacityOrder(), AffinityGroups())


def _selects(claim: Claim) -> Selects | None:
    """Return the test of the claim's selector; None if there is no selector."""
    return None if claim.selector is None else partial(matches_labels, claim.selector)
