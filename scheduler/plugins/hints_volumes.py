"""Which changes may help a pod that was refused for its volumes.

Changes of the pod's own claims are not asked about here: each of them may help whoever was refused for a volume.
Sources: the isSchedulableAfter... functions (KEP-4247) of plugins/volumebinding, volumezone, volumerestrictions and
nodevolumelimits/csi.go. Wider than there: a volume's reservation, its health and its deletion count too.
"""

import msgspec

from binder.matching.index import is_free
from binder.matching.matching import class_of
from binder.reservation.contract import Annotations
from kube.objects.model import CSIDriver, CSINode, CSIStorageCapacity, Node, Pod, StorageClass, Volume
from kube.rules.topology import ZONE_LABELS, is_on_one_node
from scheduler.framework.cluster_event import Change, Wanted


def volume_found(pod: Pod, change: Change, wanted: Wanted | None) -> bool:
    """There may be a volume for a claim, or a way to make one, that was not there before."""
    old, new = change.old, change.new
    if isinstance(old, Node) or isinstance(new, Node):
        return (wanted is None or not wanted.whole) and _node_labels_changed(change)
    if wanted is None:
        return True
    if isinstance(old, Volume) or isinstance(new, Volume):
        return _volume_eased(pod, change, wanted)
    if isinstance(old, CSINode):
        return _reports_changed(old, new)
    return _can_be_made(change, wanted)


def local_volume_found(pod: Pod, change: Change, wanted: Wanted | None) -> bool:
    """As `volume_found`, and a local volume that goes to somebody else leaves the choice to one that is not local."""
    old = change.old
    if isinstance(old, Volume) and is_on_one_node(old) and wanted is not None and class_of(old) in wanted.classes:
        return True
    return volume_found(pod, change, wanted)


def zone_reached(_: Pod, change: Change, wanted: Wanted | None) -> bool:
    """A node is in another zone, or a volume of the pod is."""
    old, new = change.old, change.new
    if isinstance(old, Node) or isinstance(new, Node):
        return isinstance(new, Node) and _zones_of(old) != _zones_of(new)
    name = _volume_name(change)
    return (wanted is None or name in wanted.volumes) and _zones_of(old) != _zones_of(new)


def claim_released(pod: Pod, change: Change, _: Wanted | None) -> bool:
    """A pod left that used a claim of this one, or its node did."""
    if isinstance(change.old, Node):
        return change.new is None
    if not isinstance(change.old, Pod) or change.new is not None:
        return False
    return not frozenset(change.old.claim_keys).isdisjoint(pod.claim_keys)


def attachable(pod: Pod, change: Change, wanted: Wanted | None) -> bool:
    """A driver has to attach one volume less, may attach more, or attaches the pod's volume for another pod already."""
    old, new = change.old, change.new
    if isinstance(old, Node) or isinstance(new, Node):
        return old is None
    if isinstance(old, CSINode) or isinstance(new, CSINode):
        return _limits(old) != _limits(new)
    if isinstance(new, Pod) and old is None and not frozenset(new.claim_keys).isdisjoint(pod.claim_keys):
        return True
    if wanted is None:
        return bool(change.drivers)
    return not change.drivers.isdisjoint(wanted.drivers) or _volume_name(change) in wanted.volumes


def only_promised(old: Volume | None, new: Volume | None, annotations: Annotations) -> bool:
    """Whether a volume was promised to somebody, or to the same for longer, and nothing else: that helps nobody."""
    if old is None or new is None:
        return False
    if msgspec.structs.replace(new, resource_version=old.resource_version, annotations=old.annotations) != old:
        return False
    if _other_annotations(old, annotations) != _other_annotations(new, annotations):
        return False
    before, after = annotations.reservation_of(old), annotations.reservation_of(new)
    if before is None or after is None:
        return before is None
    return (before.claim, before.claim_uid) == (after.claim, after.claim_uid) and before.expires_at <= after.expires_at


def _other_annotations(volume: Volume, annotations: Annotations) -> list[tuple[str, str]]:
    keys = annotations.keys_on_volume(volume)
    return [pair for pair in volume.annotations if pair[0] not in keys]


def _volume_eased(pod: Pod, change: Change, wanted: Wanted) -> bool:
    if _volume_name(change) in wanted.volumes or _claimed_by(pod, change):
        return True
    new = change.new
    return isinstance(new, Volume) and is_free(new) and class_of(new) in wanted.classes


def _claimed_by(pod: Pod, change: Change) -> bool:
    """Whether the volume's claimRef names, or named, a claim of the pod: it decides alone then."""
    references = (one.claim for one in (change.old, change.new) if isinstance(one, Volume))
    keys = {f"{found.namespace}/{found.name}" for found in references if found is not None}
    return not keys.isdisjoint(pod.claim_keys)


def _can_be_made(change: Change, wanted: Wanted) -> bool:
    old, new = change.old, change.new
    if isinstance(old, StorageClass) or isinstance(new, StorageClass):
        names = {one.name for one in (old, new) if isinstance(one, StorageClass)}
        return not names.isdisjoint(wanted.classes)
    if isinstance(new, CSIStorageCapacity):
        before = old if isinstance(old, CSIStorageCapacity) else None
        return new.storage_class in wanted.classes and _more_capacity(before, new)
    # A driver that stops telling its capacity has room everywhere.
    return isinstance(old, CSIDriver) and old.storage_capacity and not _tells_capacity(new)


def _more_capacity(old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> bool:
    if old is None or (old.storage_class, old.node_topology) != (new.storage_class, new.node_topology):
        return True
    before, after = _limit(old), _limit(new)
    return after is not None and (before is None or after > before)


def _limit(capacity: CSIStorageCapacity) -> int | None:
    return capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size


def _tells_capacity(driver: object) -> bool:
    return isinstance(driver, CSIDriver) and driver.storage_capacity


def _reports_changed(old: CSINode, new: object) -> bool:
    return old.storage != (new.storage if isinstance(new, CSINode) else None)


def _node_labels_changed(change: Change) -> bool:
    """Whether a node came, moved, or went: from fewer nodes a volume may look healthier."""
    old, new = change.old, change.new
    return not (isinstance(old, Node) and isinstance(new, Node) and old.labels == new.labels)


def _volume_name(change: Change) -> str | None:
    found = change.old if change.new is None else change.new
    return found.name if isinstance(found, Volume) else None


def _zones_of(found: object) -> object:
    """Return the labels of zones; None for what is not there."""
    return [pair for pair in found.labels if pair[0] in ZONE_LABELS] if isinstance(found, Node | Volume) else None


def _limits(found: object) -> dict[str, int]:
    """Return the attach limits that are stated; none of what is not there."""
    drivers = found.drivers if isinstance(found, CSINode) else ()
    return {one.name: one.attach_limit for one in drivers if one.attach_limit is not None}
