"""Which zones claims could go to, and which a pod could go to with all its claims at once."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from binder.assignment.assignment import assign
from binder.matching.claim_shape import ClaimShape, shape_of
from binder.matching.matching import class_of, provisions
from kube.objects.labels import NodeSelector
from kube.objects.model import Claim, Pod, Volume
from kube.rules.topology import ZONE_LABEL, ZONE_LABELS, volume_zone, zone_of
from why.causes.objects import with_default_class
from why.facts.facts import Facts, Source, Unread

Zones = frozenset[str]

ANYWHERE: Final = None
"""No zone is ruled out."""

_MAX_CLAIMS: Final = 64
"""Of a pod, as planning has it (TooManyClaims). Of k claims only the k smallest volumes of a zone matter to each."""


class _Options(Struct, frozen=True):
    """The smallest volumes that a claim could get, by zone and then by size; and where one could be made for it.

    Volumes of zone "" are in none, or in several: they count everywhere.
    """

    volumes: dict[str, tuple[Volume, ...]]
    made: Zones | None

    @property
    def zones(self) -> Zones | None:
        return ANYWHERE if "" in self.volumes else _either(self.made, frozenset(self.volumes))

    def can_be_made(self, zone: str) -> bool:
        return self.made is ANYWHERE or zone in self.made

    def within(self, zone: str) -> Sequence[Volume]:
        both = (*self.volumes.get(zone, ()), *self.volumes.get("", ()))
        return sorted(both, key=lambda volume: (volume.capacity, volume.name))


class Places:
    """Which zones claims and pods could go to. Claims of one shape are looked up once, equal sets of them too."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._known: dict[ClaimShape, _Options] = {}
        self._joint: dict[tuple[ClaimShape, ...], Zones | None] = {}
        self._zones = frozenset(zone_of(node.labels) for node in facts.snapshot.nodes.values()) - {""}

    def of_pod(self, pod: Pod) -> Zones | None:
        """Return the zones that have a volume for each of the pod's claims at once, as far as its selector allows."""
        claims = [claim for key in pod.claim_keys if (claim := self._facts.snapshot.claims.get(key)) is not None]
        zones = _chosen_zone(pod)
        for claim in claims:
            zones = _both(zones, self._of(claim))
        shapes = [shape for claim in claims[:_MAX_CLAIMS] if (shape := self._shape_of(claim)) is not None]
        return zones if len(shapes) < 2 else _both(zones, self._together(shapes))

    def of(self, claim: Claim, pod: Pod | None) -> Zones | None:
        """Return the zones that have a volume for the claim, or where one can be made, as far as its pod allows."""
        return self._of(claim) if pod is None else _both(self._of(claim), self.of_pod(pod))

    def _together(self, shapes: Iterable[ClaimShape]) -> Zones | None:
        """Return the zones with distinct volumes for claims of these shapes, or where they can be made."""
        key = tuple(sorted(shapes, key=repr))
        if key not in self._joint:
            every = [self._known[shape] for shape in key]
            fitting = frozenset(zone for zone in self._zones if _is_enough(every, zone))
            made = all(options.made is ANYWHERE for options in every)
            self._joint[key] = ANYWHERE if made else fitting
        return self._joint[key]

    def _of(self, claim: Claim) -> Zones | None:
        requested = self._facts.snapshot.volumes.get(claim.volume_name)
        if requested is not None:
            zone = volume_zone(requested)
            return frozenset({zone}) if zone else ANYWHERE
        shape = self._shape_of(claim)
        return ANYWHERE if shape is None else self._known[shape].zones

    def _shape_of(self, claim: Claim) -> ClaimShape | None:
        """Return the shape of a claim that still has to get a volume, looked up; None if what matters was not read."""
        if claim.volume_name:
            return None
        try:
            self._facts.need(Source.CLASSES, Source.VOLUMES)
            wanted = with_default_class(self._facts, claim)
        except Unread:
            return None
        shape = shape_of(wanted)
        if shape not in self._known:
            self._known[shape] = self._looked_up(wanted)
        return shape

    def _looked_up(self, claim: Claim) -> _Options:
        volumes: dict[str, list[Volume]] = {}
        for volume in self._facts.derived.view.index.candidates(claim):
            held = volumes.setdefault(volume_zone(volume), [])
            if len(held) < _MAX_CLAIMS:
                held.append(volume)
        classes = self._facts.snapshot.classes
        provisioned = provisions(claim, classes)
        made = _named_zones(classes[class_of(claim)].allowed_topologies) if provisioned else frozenset[str]()
        return _Options({zone: tuple(held) for zone, held in volumes.items()}, made)


def _is_enough(every: Sequence[_Options], zone: str) -> bool:
    """Whether each claim gets a volume of its own in the zone: one of these, or one that can be made there."""
    needed = {str(place): options.within(zone) for place, options in enumerate(every) if not options.can_be_made(zone)}
    return not needed or assign(needed) is not None


def _chosen_zone(pod: Pod) -> Zones | None:
    zone = dict(pod.node_selector).get(ZONE_LABEL)
    return frozenset({zone}) if zone else ANYWHERE


def _named_zones(topologies: NodeSelector | None) -> Zones | None:
    """Return the zones that a class allows; a topology that names none allows them all."""
    if topologies is None or not topologies.terms:
        return ANYWHERE
    zones: Zones | None = frozenset()
    for term in topologies.terms:
        named = [each for each in term.match_expressions if each.key in ZONE_LABELS]
        zones = _either(zones, frozenset(named[0].values) if named else ANYWHERE)
    return zones


def _either(zones: Zones | None, other: Zones | None) -> Zones | None:
    return ANYWHERE if zones is ANYWHERE or other is ANYWHERE else zones | other


def _both(zones: Zones | None, other: Zones | None) -> Zones | None:
    if zones is ANYWHERE:
        return other
    return zones if other is ANYWHERE else zones & other
