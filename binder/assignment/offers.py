"""The volumes that may be planned for a claim in a topology, smallest first, read no further than needed."""

from collections.abc import Callable, Container, Iterator
from datetime import datetime

from binder.assignment.topologies import Topology
from binder.health.volume_policy import refuse_use
from binder.matching.claim_shape import ClaimShape
from binder.matching.matching import scheduler_refusal
from binder.model.demand import Demand
from binder.model.view import View
from kube.objects.model import Claim, Volume
from kube.rules.topology import volume_zone_matches


class Offer:
    """A sequence of volumes read on demand. What is taken during a pass stays taken, so its front only moves on."""

    def __init__(self, volumes: Iterator[Volume]) -> None:
        self._rest = volumes
        self._read: list[Volume] = []
        self._front = 0

    def first(self, count: int, taken: Container[str]) -> list[Volume]:
        """Return the first so many volumes that are not taken, fewer when there are no more."""
        found: list[Volume] = []
        for volume in self.left(lambda volume: volume.name in taken):
            found.append(volume)
            if len(found) == count:
                break
        return found

    def left(self, gone: Callable[[Volume], bool]) -> Iterator[Volume]:
        """Yield the volumes that are not gone."""
        at = self._front
        while True:
            if at == len(self._read):
                volume = next(self._rest, None)
                if volume is None:
                    return
                self._read.append(volume)
            volume = self._read[at]
            if not gone(volume):
                yield volume
            elif at == self._front:
                self._front += 1
            at += 1


class Offers:
    """What a view offers to claims. A volume's usability is worked out once a pass."""

    def __init__(self, view: View, now: datetime) -> None:
        self._view = view
        self._now = now
        self._usable: dict[str, bool] = {}
        self._offers: dict[tuple[ClaimShape, int], Offer] = {}

    def offer(self, demand: Demand, claim: Claim, topology: Topology) -> Offer:
        """Return the shared offer for claims of this shape in the topology."""
        key = (demand.shape_of(claim), topology.number)
        found = self._offers.get(key)
        if found is None:
            found = self._offers.setdefault(key, Offer(self.volumes(demand, claim, topology)))
        return found

    def restart(self) -> None:
        """Forget how far the offers were used up: taken volumes came back."""
        self._offers.clear()

    def volumes(self, demand: Demand, claim: Claim, topology: Topology | None) -> Iterator[Volume]:
        """Yield the usable volumes that fit the claim, by capacity and name; None asks for those of all topologies."""
        labels = None if topology is None else topology.labels
        pin = demand.pin_of(claim)
        if pin:
            found = self._view.snapshot.volumes.get(pin)
            if found is not None and self._may_take_pinned(claim, found, topology):
                yield found
            return
        for volume in self._view.index.candidates(claim, labels):
            if self.usable(volume) and (labels is None or volume_zone_matches(volume.labels, labels)):
                yield volume

    def usable(self, volume: Volume) -> bool:
        """Whether our own rules allow the volume for a claim it is not reserved for."""
        known = self._usable.get(volume.name)
        if known is None:
            known = self._usable.setdefault(volume.name, refuse_use(self._view, volume, self._now) is None)
        return known

    def _may_take_pinned(self, claim: Claim, volume: Volume, topology: Topology | None) -> bool:
        labels = None if topology is None else topology.labels
        return (
            scheduler_refusal(claim, volume, labels) is None
            and refuse_use(self._view, volume, self._now, claim) is None
            and (labels is None or volume_zone_matches(volume.labels, labels))
        )
