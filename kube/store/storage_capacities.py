"""The capacities that drivers report, indexed by class and by the node labels they apply to.

A driver with local storage publishes a CSIStorageCapacity for each node and class, so that checking all of them for
each node costs nodes times nodes. Nearly all name a label and its values; the others are checked one by one.
Persistent: a change copies a few entries.

Source: external-provisioner's pkg/capacity, which writes `nodeTopology.matchLabels` with the segments of a topology.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kube.objects.labels import LabelSelector
from kube.objects.model import CSIStorageCapacity
from kube.persistent_map import Map
from kube.rules.selectors import matches_labels
from kube.store.index import Change

Named = Map[str, CSIStorageCapacity]
_Pin = tuple[str, tuple[str, ...]]
"""A label key, and its possible values."""


@dataclass(frozen=True, slots=True)
class ClassCapacities:
    """The capacities of one class: by label key and value, those without a particular label, and how many use which
    key.
    """

    pinned: Map[str, Map[str, Named]] = Map()
    unpinned: Named = Map()
    label_counts: Map[str, int] = Map()

    def changed(self, key: str, old: LabelSelector | None, new: CSIStorageCapacity | None) -> "ClassCapacities":
        """Return the same with one object of this key removed (`old` is its topology) and another one added."""
        pinned, unpinned, label_counts = self.pinned, self.unpinned, self.label_counts
        if old is not None:
            for label, value in _filed(old):
                pinned = _without(pinned, label, value, key)
            unpinned = unpinned.delete(key) if key in unpinned else unpinned
            label_counts = _counted(label_counts, old, -1)
        topology = new.node_topology if new is not None else None
        if new is not None and topology is not None:
            filed = list(_filed(topology))
            for label, value in filed:
                values = pinned.get(label, _NO_VALUES)
                pinned = pinned.set(label, values.set(value, values.get(value, _NOTHING).set(key, new)))
            unpinned = unpinned if _pin(topology) is not None else unpinned.set(key, new)
            label_counts = _counted(label_counts, topology, 1)
        return ClassCapacities(pinned, unpinned, label_counts)


@dataclass(frozen=True, slots=True)
class StorageCapacities:
    """The CSIStorageCapacities of a moment by class. Those without a topology apply to no node and are not included."""

    by_class: Map[str, ClassCapacities] = Map()

    def of_node(self, class_name: str, labels: Mapping[str, str]) -> Iterator[CSIStorageCapacity]:
        """Yield the capacities of a class for nodes with these labels."""
        known = self.by_class.get(class_name)
        if known is None:
            return
        for label, values in known.pinned.items():
            if label in labels:
                yield from _matching(values.get(labels[label], _NOTHING), labels)
        yield from _matching(known.unpinned, labels)

    def of_class(self, class_name: str) -> Iterator[CSIStorageCapacity]:
        """Yield the capacities of a class."""
        known = self.by_class.get(class_name, _NO_CAPACITIES)
        for values in known.pinned.values():
            for named in values.values():
                yield from named.values()
        yield from known.unpinned.values()

    def deciding_labels(self, class_name: str) -> Iterable[str]:
        """Return the keys of the labels that determine which capacities of a class apply."""
        known = self.by_class.get(class_name)
        return known.label_counts.keys() if known is not None else ()


class StorageCapacityIndex:
    """Keeps StorageCapacities in sync with a collection, as kube.store.index.Index does for words."""

    def __init__(self) -> None:
        self.entries = StorageCapacities()

    def update(self, changes: Iterable[Change[CSIStorageCapacity]]) -> None:
        """Apply changes of objects."""
        by_class = self.entries.by_class
        for key, old, new in changes:
            if old is not None and old.node_topology is not None:
                left = by_class[old.storage_class].changed(key, old.node_topology, None)
                empty = left == _NO_CAPACITIES
                by_class = by_class.delete(old.storage_class) if empty else by_class.set(old.storage_class, left)
            if new is not None and new.node_topology is not None:
                known = by_class.get(new.storage_class, _NO_CAPACITIES)
                by_class = by_class.set(new.storage_class, known.changed(key, None, new))
        self.entries = StorageCapacities(by_class)


_NOTHING: Final[Named] = Map()
_NO_VALUES: Final[Map[str, Named]] = Map()
_NO_CAPACITIES: Final = ClassCapacities()


def _matching(named: Named, labels: Mapping[str, str]) -> Iterator[CSIStorageCapacity]:
    """Yield those of a label's value, or without a particular label, that match."""
    for capacity in named.values():
        topology = capacity.node_topology
        if topology is not None and (_is_one_label(topology) or matches_labels(topology, labels)):
            yield capacity


def _is_one_label(topology: LabelSelector) -> bool:
    """Whether nothing is left to be compared once its label and value were found, as with local storage."""
    return len(topology.match_labels) == 1 and not topology.match_expressions


def _pin(topology: LabelSelector) -> _Pin | None:
    """Return a label that nodes of the topology must have, the narrowest by its name; None if there is none."""
    pins: list[_Pin] = [(key, (value,)) for key, value in topology.match_labels]
    pins += [
        (requirement.key, requirement.values)
        for requirement in topology.match_expressions
        if requirement.operator == "In"
    ]
    return min(pins, key=_width, default=None)


def _width(pin: _Pin) -> tuple[bool, int]:
    name = pin[0].rpartition("/")[2]
    return "zone" in name or "region" in name, len(pin[1])


def _filed(topology: LabelSelector) -> Iterator[tuple[str, str]]:
    pin = _pin(topology)
    if pin is not None:
        yield from ((pin[0], value) for value in dict.fromkeys(pin[1]))


def _without(pinned: Map[str, Map[str, Named]], label: str, value: str, key: str) -> Map[str, Map[str, Named]]:
    left = pinned[label][value].delete(key)
    values = pinned[label].set(value, left) if left else pinned[label].delete(value)
    return pinned.set(label, values) if values else pinned.delete(label)


def _counted(label_counts: Map[str, int], topology: LabelSelector, more: int) -> Map[str, int]:
    keys = {key for key, _ in topology.match_labels} | {requirement.key for requirement in topology.match_expressions}
    for key in keys:
        count = label_counts.get(key, 0) + more
        label_counts = label_counts.set(key, count) if count else label_counts.delete(key)
    return label_counts
