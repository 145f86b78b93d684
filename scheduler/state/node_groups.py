"""Nodes grouped by the labels a question depends on, so that it is asked once for nodes that are alike.

Whether a volume is reached is a matter of a few labels: of five thousand nodes in three zones there are three kinds.
The groups follow the nodes: a heartbeat costs one comparison.
"""

from collections.abc import Mapping
from typing import Final

from kube.objects.model import Node

LabelKeys = tuple[str, ...]
"""Sorted, each once."""

Kind = tuple[str | None, ...]
"""A node's values of the keys, in their order; None where it lacks the label."""

_MOST_GROUPINGS: Final = 64
"""Storage classes name few different label keys; what was grouped longest ago is forgotten first."""

_MOST_SCORINGS: Final = 16
"""Zones that volumes may be promised in, and how much of a pod's volumes is there: beyond it all are forgotten."""


class Grouping:
    """The nodes by some label keys. `numbers` are by node name and count into `kinds`; read them, do not keep them."""

    def __init__(self, keys: LabelKeys) -> None:
        self.keys = keys
        self.numbers: dict[str, int] = {}
        self.kinds: list[Kind] = []
        self._number_of: dict[Kind, int] = {}
        self._scorings: dict[tuple[int, ...], dict[str, int]] = {}

    def labels(self, number: int) -> dict[str, str]:
        """Return the labels that nodes of a kind have in common, of the keys."""
        return {key: value for key, value in zip(self.keys, self.kinds[number], strict=True) if value is not None}

    def put(self, name: str, labels: Mapping[str, str]) -> None:
        kind = tuple(labels.get(key) for key in self.keys)
        number = self._number_of.setdefault(kind, len(self.kinds))
        if number == len(self.kinds):
            self.kinds.append(kind)
        self.numbers[name] = number
        self._scorings.clear()

    def forget(self, name: str) -> None:
        self.numbers.pop(name, None)
        self._scorings.clear()

    def scores(self, of_kinds: tuple[int, ...]) -> Mapping[str, int]:
        """Return the nodes' scores by those of their kinds: pod after pod they are the same few."""
        found = self._scorings.get(of_kinds)
        if found is None:
            if len(self._scorings) >= _MOST_SCORINGS:
                self._scorings.clear()
            found = self._scorings[of_kinds] = {name: of_kinds[number] for name, number in self.numbers.items()}
        return found

    @property
    def overgrown(self) -> bool:
        """Whether most kinds are those of nodes that have gone."""
        return len(self.kinds) > 2 * len(self.numbers) + 64


class NodeGroups:
    """Follows the nodes of a store: give `node_changed` to their collection as a listener."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}
        self._groupings: dict[LabelKeys, Grouping] = {}

    def by(self, keys: LabelKeys) -> Grouping:
        """Return the grouping of all known nodes by these keys."""
        grouping = self._groupings.get(keys)
        if grouping is None or grouping.overgrown:
            self._groupings.pop(keys, None)
            while len(self._groupings) >= _MOST_GROUPINGS:
                del self._groupings[next(iter(self._groupings))]
            grouping = self._groupings[keys] = Grouping(keys)
            for name, labels in self._labels.items():
                grouping.put(name, labels)
        return grouping

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Take over a change; None is absence."""
        if new is None:
            self._forget(old)
        elif old is None or old.labels != new.labels:
            labels = self._labels[new.name] = dict(new.labels)
            for grouping in self._groupings.values():
                grouping.put(new.name, labels)

    def _forget(self, node: Node | None) -> None:
        if node is not None:
            self._labels.pop(node.name, None)
            for grouping in self._groupings.values():
                grouping.forget(node.name)
