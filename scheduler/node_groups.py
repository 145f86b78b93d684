"""Nodes grouped by the labels a question depends on, so that it is asked once for nodes that are alike.

Whether a volume is reached is a matter of a few labels: of five thousand nodes in three zones there are three kinds.
The groups follow the nodes: a heartbeat costs one comparison.
"""

from collections.abc import Mapping
from typing import Final

from kube.model import Node

LabelKeys = tuple[str, ...]
"""Sorted, each once."""

Kind = tuple[str | None, ...]
"""A node's values of the keys, in their order; None where it lacks the label."""

_MOST_GROUPINGS: Final = 64
"""Storage classes name few different label keys; what was grouped longest ago is forgotten first."""


class NodeGroups:
    """Follows the nodes of a store: give `node_changed` to their collection as a listener."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}
        self._groupings: dict[LabelKeys, dict[str, Kind]] = {}

    def kinds(self, keys: LabelKeys) -> Mapping[str, Kind]:
        """Return the kind of every known node by these keys. It is the present state, to be read and not kept."""
        grouping = self._groupings.get(keys)
        if grouping is None:
            while len(self._groupings) >= _MOST_GROUPINGS:
                del self._groupings[next(iter(self._groupings))]
            grouping = {name: _kind(labels, keys) for name, labels in self._labels.items()}
            self._groupings[keys] = grouping
        return grouping

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Take over a change; None is absence."""
        if new is None:
            self._forget(old)
        elif old is None or old.labels != new.labels:
            labels = self._labels[new.name] = dict(new.labels)
            for keys, grouping in self._groupings.items():
                grouping[new.name] = _kind(labels, keys)

    def _forget(self, node: Node | None) -> None:
        if node is not None:
            self._labels.pop(node.name, None)
            for grouping in self._groupings.values():
                grouping.pop(node.name, None)


def labels_of(keys: LabelKeys, kind: Kind) -> dict[str, str]:
    """Return the labels that nodes of a kind have in common, of these keys."""
    return {key: value for key, value in zip(keys, kind, strict=True) if value is not None}


def _kind(labels: Mapping[str, str], keys: LabelKeys) -> Kind:
    return tuple(labels.get(key) for key in keys)
