"""Which node labels decide whether a node reaches the volumes of a storage class."""

from collections import Counter
from typing import Final

from binder.matching.matching import class_of
from kube.objects.memory import remembered
from kube.objects.model import NodeSelector, Volume
from kube.rules.selectors import label_keys
from scheduler.state.node_groups import LabelKeys

_AFFINITY_BYTES: Final = 8 * 2**20
"""Of node affinities that are remembered: 10,000 local volumes have one each of some 500 bytes."""


class VolumeLabels:
    """Counts the label keys in volumes' node affinities: give `volume_changed` to their collection as a listener."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}

    def keys(self, storage_class: str) -> LabelKeys:
        """Return the keys, sorted."""
        return tuple(sorted(self._counts.get(storage_class, ())))

    def volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        """Take over a change; None is absence."""
        if old is not None and new is not None and _place(old) == _place(new):
            return
        if old is not None:
            self._count(old, -1)
        if new is not None:
            self._count(new, 1)

    def _count(self, volume: Volume, by: int) -> None:
        name = class_of(volume)
        counts = self._counts.setdefault(name, Counter())
        for key in label_keys(volume.node_affinity):
            counts[key] += by
            if not counts[key]:
                del counts[key]
        if not counts:
            del self._counts[name]


@remembered(_AFFINITY_BYTES)
def pin_of(affinity: NodeSelector | None) -> tuple[str, tuple[str, ...]] | None:
    """Return the one label an affinity asks for and the values that will do; None for an affinity of another form."""
    terms = affinity.terms if affinity is not None else ()
    wanted = [requirement for term in terms for requirement in term.match_expressions]
    if len(terms) != 1 or len(wanted) != 1 or wanted[0].operator != "In":
        return None
    return wanted[0].key, wanted[0].values


def _place(volume: Volume) -> tuple[str, NodeSelector | None]:
    return class_of(volume), volume.node_affinity
