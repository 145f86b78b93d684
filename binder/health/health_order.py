"""Which volumes to probe first: those that may be needed for a decision soon. And which more often: those in use."""

from collections import defaultdict
from collections.abc import Sequence

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


def in_use(
    snapshot: Snapshot, driver: str, annotations: Annotations, *, sees_pods: bool
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the handles of the driver's volumes that pods wait for, and of those that running pods use.

    A volume is that of the claim it is bound to or reserved for. Without `sees_pods` those that are not bound yet count
    as waited for, and all that are bound as used.
    """
    waited_for: list[str] = []
    used: list[str] = []
    for volume in snapshot.volumes.values():
        if volume.driver != driver or not volume.handle:
            continue
        claim = volume.claim.key if volume.claim is not None else value_of(volume.annotations, annotations.reserved_for)
        if claim is None:
            continue
        if not sees_pods:
            (used if volume.phase == "Bound" else waited_for).append(volume.handle)
            continue
        phases = {snapshot.pods[key].phase for key in snapshot.pods_by_claim.get(claim, ()) if key in snapshot.pods}
        if phases:
            (used if phases == {"Running"} else waited_for).append(volume.handle)
    return waited_for, used


def _group(volume: Volume, wanted: set[str], annotations: Annotations) -> int:
    if volume.phase != "Available":
        return _TAKEN
    if volume.claim is not None or value_of(volume.annotations, annotations.reserved_for) is not None:
        return _RESERVED
    return _WANTED if class_of(volume) in wanted else _FREE
