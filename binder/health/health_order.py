"""Which volumes to probe first: those that may be needed for a decision soon."""

from collections import defaultdict

from binder.matching.matching import class_of
from binder.reservation.contract import Annotations
from kube.objects.model import Volume, value_of
from kube.store.snapshot import Snapshot

_WANTED, _FREE, _RESERVED, _TAKEN = range(4)


def health_order(snapshot: Snapshot, driver: str, annotations: Annotations) -> list[str]:
    """Return the handles of the driver's volumes: Available ones that an unbound claim could get, by its class; other
    Available ones; those that are reserved or claimed and not bound yet; the rest. Within each, by name.
    """
    wanted = {class_of(claim) for claim in snapshot.claims.values() if claim.phase == "Pending"}
    groups: defaultdict[int, list[Volume]] = defaultdict(list)
    for volume in snapshot.volumes.values():
        if volume.driver == driver and volume.handle:
            groups[_group(volume, wanted, annotations)].append(volume)
    return [
        volume.handle for group in sorted(groups) for volume in sorted(groups[group], key=lambda volume: volume.name)
    ]


def _group(volume: Volume, wanted: set[str], annotations: Annotations) -> int:
    if volume.phase != "Available":
        return _TAKEN
    if volume.claim is not None or value_of(volume.annotations, annotations.reserved_for) is not None:
        return _RESERVED
    return _WANTED if class_of(volume) in wanted else _FREE
