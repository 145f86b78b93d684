"""How tightly the smallest volume that a node reaches fits a claim: remembered, because it rarely changes.

Kept by what claims ask for and by kind of node. A change of a volume forgets it only for the kinds of nodes that reach
the volume, so that in a cluster of local volumes nearly everything stays known.
"""

from typing import Final

from binder.matching.claim_shape import ClaimShape, shape_of
from binder.matching.matching import class_of
from kube.objects.model import Claim, NodeSelector, Volume
from scheduler.state.node_groups import Kind, LabelKeys
from scheduler.volumes.volume_labels import pin_of

Demand = tuple[LabelKeys, ClaimShape]
"""By which labels nodes are told apart, and what of a claim decides which volumes fit."""

_MOST_DEMANDS: Final = 256
"""Of one class; the one that was asked for first is forgotten first."""


class Tightest:
    """Give `volume_changed` to the volumes' collection as a listener."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Demand, dict[Kind, float]]] = {}

    def known(self, claim: Claim, keys: LabelKeys) -> dict[Kind, float]:
        """Return the points known for a claim by kind of node: to be read, and to be filled with what is found out."""
        demands = self._known.setdefault(class_of(claim), {})
        demand = (keys, shape_of(claim))
        while demand not in demands and len(demands) >= _MOST_DEMANDS:
            del demands[next(iter(demands))]
        return demands.setdefault(demand, {})

    def volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        """Take over a change; None is absence."""
        for volume in (old, new):
            if volume is not None:
                for demand, kinds in self._known.get(class_of(volume), {}).items():
                    _forget(demand[0], kinds, volume.node_affinity)


def _forget(keys: LabelKeys, kinds: dict[Kind, float], affinity: NodeSelector | None) -> None:
    pin = pin_of(affinity)
    if pin is None or keys != (pin[0],):
        kinds.clear()
        return
    for value in pin[1]:
        kinds.pop((value,), None)
