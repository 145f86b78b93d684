"""Volumes grouped by node affinity, so that those accessible from a node are found without evaluating each affinity.

An affinity of the form `key In [values]` is indexed under the labels that a node would need. A node looks up its own
labels: with 100,000 volumes local to 100,000 nodes it finds the one affinity that is its own. Affinities of another
form (NotIn, Exists, Gt, matchFields alone) are few in practice and are evaluated one by one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final

from binder.matching.capacity_order import CapacityOrder, Entry
from kube.objects.labels import NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import Volume
from kube.persistent_map import Map
from kube.rules.selectors import label_keys, node_matches

Keys = tuple[str, ...]
Values = tuple[str, ...]
Affinities = Map[NodeSelector | None, None]
"""A persistent set of affinities."""

_NO_AFFINITIES: Final[Affinities] = Map()
_MAX_PINS: Final = 64
"""Combinations of values under which a term may be indexed; beyond that the longest list of values is ignored."""


@dataclass(frozen=True, slots=True)
class AffinityGroups:
    """Volumes by affinity, and for each affinity the node labels by which it can be found.

    `keys` are the keys of all labels that affinities use, with how many do.
    """

    groups: Map[NodeSelector | None, CapacityOrder] = Map()
    pinned: Map[Keys, Map[Values, Affinities]] = Map()
    unpinned: Affinities = Map()
    keys: Map[str, int] = Map()

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "AffinityGroups":
        """Return the groups of many volumes, much faster than adding them one by one."""
        groups: dict[NodeSelector | None, list[Entry]] = {}
        for entry in entries:
            groups.setdefault(entry[2].node_affinity, []).append(entry)
        pinned: dict[Keys, dict[Values, list[NodeSelector | None]]] = {}
        unpinned: list[NodeSelector | None] = []
        for affinity in groups:
            pins = _pins(affinity)
            if pins is None:
                unpinned.append(affinity)
            for keys, values in pins or ():
                pinned.setdefault(keys, {}).setdefault(values, []).append(affinity)
        return cls(
            groups=Map({affinity: CapacityOrder.of(members) for affinity, members in groups.items()}),
            pinned=Map(
                {
                    keys: Map({values: Map(dict.fromkeys(affinities)) for values, affinities in filed.items()})
                    for keys, filed in pinned.items()
                }
            ),
            unpinned=Map(dict.fromkeys(unpinned)),
            keys=Map(Counter(key for affinity in groups for key in label_keys(affinity))),
        )

    def reachable_from(self, labels: Mapping[str, str]) -> Iterator[CapacityOrder]:
        """Yield the volumes of every affinity that matches a node with these labels."""
        candidates = dict(self.unpinned)
        for keys, filed in self.pinned.items():
            if all(key in labels for key in keys):
                candidates.update(filed.get(tuple(labels[key] for key in keys), _NO_AFFINITIES))
        for affinity in candidates:
            if node_matches(affinity, labels):
                yield self.groups[affinity]

    def with_entry(self, entry: Entry) -> "AffinityGroups":
        affinity = entry[2].node_affinity
        group = self.groups.get(affinity)
        if group is not None:
            return replace(self, groups=self.groups.set(affinity, group.with_entry(entry)))
        groups, known = self.groups.set(affinity, CapacityOrder.of((entry,))), self.keys
        for key in label_keys(affinity):
            known = known.set(key, known.get(key, 0) + 1)
        pins = _pins(affinity)
        if pins is None:
            return replace(self, groups=groups, unpinned=self.unpinned.set(affinity, None), keys=known)
        pinned = self.pinned
        for keys, values in pins:
            filed = pinned.get(keys, Map())
            pinned = pinned.set(keys, filed.set(values, filed.get(values, Map()).set(affinity, None)))
        return replace(self, groups=groups, pinned=pinned, keys=known)

    def without_volume(self, volume: Volume) -> "AffinityGroups":
        affinity = volume.node_affinity
        group = self.groups.get(affinity)
        if group is None:
            return self
        left = group.without_volume(volume)
        if left:
            return replace(self, groups=self.groups.set(affinity, left))
        groups, known = self.groups.delete(affinity), self.keys
        for key in label_keys(affinity):
            known = known.set(key, known[key] - 1) if known[key] > 1 else known.delete(key)
        pins = _pins(affinity)
        if pins is None:
            return replace(self, groups=groups, unpinned=self.unpinned.delete(affinity), keys=known)
        pinned = self.pinned
        for keys, values in pins:
            pinned = _unfiled(pinned, keys, values, affinity)
        return replace(self, groups=groups, pinned=pinned, keys=known)


def _unfiled(
    pinned: Map[Keys, Map[Values, Affinities]], keys: Keys, values: Values, affinity: NodeSelector | None
) -> Map[Keys, Map[Values, Affinities]]:
    """Remove an affinity and whatever became empty by it."""
    affinities = pinned[keys][values].delete(affinity)
    filed = pinned[keys].set(values, affinities) if affinities else pinned[keys].delete(values)
    return pinned.set(keys, filed) if filed else pinned.delete(keys)


def _pins(affinity: NodeSelector | None) -> frozenset[tuple[Keys, Values]] | None:
    """Return the label values of which a node must have one set to match the affinity, None if nothing is required."""
    if affinity is None:
        return None
    pins: set[tuple[Keys, Values]] = set()
    for term in affinity.terms:
        required = _required(term)
        if not required:
            if term.match_expressions or term.match_fields:
                return None
            continue  # an empty term matches nothing
        keys = tuple(required)
        pins.update((keys, values) for values in product(*required.values()))
    return frozenset(pins)


def _required(term: NodeSelectorTerm) -> dict[str, tuple[str, ...]]:
    """Return the `In` requirements of a term, by key, as many as keep the number of combinations low."""
    named: dict[str, Requirement] = {}
    for requirement in term.match_expressions:
        if requirement.operator == "In":
            named.setdefault(requirement.key, requirement)
    fewest_first = sorted(named.values(), key=lambda requirement: (len(requirement.values), requirement.key))
    while len(fewest_first) > 1 and prod(len(requirement.values) for requirement in fewest_first) > _MAX_PINS:
        fewest_first.pop()
    return {
        requirement.key: requirement.values
        for requirement in sorted(fewest_first, key=lambda requirement: requirement.key)
    }
