"""kube-scheduler's filters for a pod's volumes.

Sources: plugins/volumebinding, plugins/volumezone/volume_zone.go, plugins/nodevolumelimits/csi.go and
plugins/volumerestrictions/volume_restrictions.go. The rules are in scheduler.volumes.volume_binding, volume_zone and
attach_limits; here they become plugins.

The hints follow the isSchedulableAfter... functions (KEP-4247) of the same plugins. They are wider than upstream's: a
volume's reservation, its health and its deletion count too. They are not called for changes of the pod's own claims:
each of those may help (`QueueingHint.claims`).
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from binder.matching.index import is_free
from binder.matching.matching import class_of
from binder.matching.rejection import Reason, Rejection
from kube.objects.model import (
    READ_WRITE_ONCE_POD,
    Claim,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Node,
    Pod,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from kube.persistent_map import Map
from kube.rules.topology import ZONE_LABELS
from kube.store.node_view import UsedVolume, inline_volumes
from scheduler.framework.cluster_event import ClusterEvent, Kind, Wanted
from scheduler.framework.plugin import Counts, Eviction, Filter, NodeRule, PreFilter
from scheduler.framework.queueing_hint import QueueingHint
from scheduler.state.attach_limits import attach_rejection, attachments_of, has_plenty, missing_driver
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.claim_texts import claim_text
from scheduler.volumes.volume_zone import zone_rejection, zoned_volumes
from scheduler.volumes.volumes import PodInfo


def volume_found(pod: Pod, change: ClusterEvent, wanted: Wanted | None) -> bool:
    """There may be a volume for a claim, or a way to provision one, that was not there before."""
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


def zone_reached(_: Pod, change: ClusterEvent, wanted: Wanted | None) -> bool:
    """A node is in another zone, or a volume of the pod is."""
    old, new = change.old, change.new
    if isinstance(old, Node) or isinstance(new, Node):
        return isinstance(new, Node) and _zones_of(old) != _zones_of(new)
    name = _volume_name(change)
    return (wanted is None or name in wanted.volumes) and _zones_of(old) != _zones_of(new)


def claim_released(pod: Pod, change: ClusterEvent, _: Wanted | None) -> bool:
    """A pod left that used a claim of this one, or its node was removed."""
    if isinstance(change.old, Node):
        return change.new is None
    if not isinstance(change.old, Pod) or change.new is not None:
        return False
    return not frozenset(change.old.claim_keys).isdisjoint(pod.claim_keys)


def attachable(pod: Pod, change: ClusterEvent, wanted: Wanted | None) -> bool:
    """A driver has to attach one volume less, may attach more, or attaches the pod's volume for another pod already."""
    old, new = change.old, change.new
    if isinstance(old, Node) or isinstance(new, Node):
        return old is None
    if isinstance(old, CSINode) or isinstance(new, CSINode):
        return _limit_eased(_limits(old), _limits(new), wanted)
    if isinstance(old, CSIDriver):
        return old.prevent_pod_scheduling_if_missing and not _demanding(new)
    if isinstance(new, Pod) and old is None and not frozenset(new.claim_keys).isdisjoint(pod.claim_keys):
        return True
    if wanted is None:
        return bool(change.drivers)
    return not change.drivers.isdisjoint(wanted.drivers) or _volume_name(change) in wanted.volumes


def storage_shape(_: Pod, wanted: Wanted | None) -> Hashable:
    """Return what a hint about volumes depends on."""
    return None if wanted is None else (wanted.classes, wanted.sharing, wanted.drivers, wanted.whole)


VOLUME_KINDS: Final[frozenset[Kind]] = frozenset({Node, Volume, StorageClass, CSINode, CSIDriver, CSIStorageCapacity})
"""Kinds of objects that determine whether there is a volume, or a way to provision one."""
VOLUME_FOUND: Final = QueueingHint(VOLUME_KINDS, volume_found, storage_shape, claims=True)

VOLUME_MESSAGES: Final[Mapping[Reason, str]] = {
    Reason.VOLUME_UNREACHABLE: "didn't match PersistentVolume's node affinity",
    Reason.VOLUME_MISSING: "unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    Reason.NO_VOLUME_FITS: "didn't find available persistent volumes to bind",
    Reason.PROVISIONING_ELSEWHERE: "didn't match the node selected for provisioning a volume of the pod",
    Reason.TOPOLOGY_NOT_ALLOWED: "didn't find available persistent volumes to bind",
    Reason.INSUFFICIENT_STORAGE: "did not have enough free storage",
    Reason.STORAGE_UNREACHABLE: "had no access to the storage of the pod's volumes",
    Reason.RESERVED_FOR_OTHER: "had only volumes reserved for other claims",
    Reason.UNHEALTHY: "had only volumes known to be unhealthy",
    Reason.QUARANTINED: "had only volumes in quarantine",
    Reason.HEALTH_UNKNOWN: "had only volumes whose health is unknown",
    Reason.TOPOLOGY_CONTRADICTED: "had only volumes whose driver contradicts their node affinity",
    Reason.NO_JOINT_ASSIGNMENT: "didn't find persistent volumes for all claims of the pod together",
}
"""For the plugins that depend on what a pod's claims get on a node; which of them rejects it first depends on their
order.
"""


class VolumeBinding(PreFilter, Filter):
    """The pod's volumes must be accessible from the node, and the other claims need a volume there or a way to
    provision one.

    As a PreFilter it rejects pods whose claims are missing, lost, or to be bound by other components and not bound yet,
    and keeps only the nodes from which the pod's volumes are accessible.
    """

    name = "VolumeBinding"
    explains = True
    messages: ClassVar[Mapping[Reason, str]] = VOLUME_MESSAGES
    eviction = Eviction.UNMOVED
    queueing_hint = VOLUME_FOUND

    def confine(self, info: PodInfo, cluster: ClusterView) -> int | Rejection | None:
        if info.rejection is not None or not (info.claims.bound or info.claims.orphaned):
            return info.rejection
        return _reaching_all(info, cluster)

    def text(self, rejection: Rejection, info: PodInfo, cluster: ClusterView) -> str:
        return claim_text(rejection, info.pod, cluster.storage.snapshot.claims)

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        if not info.pod.claims:
            return None

        def why(state: NodeInfo) -> Rejection | None:
            rejections = info.choice(state).own.rejections
            return about(state, rejections[0]) if rejections else None

        if not info.claims.delayed:
            return NodeRule(why, allowed_nodes=_reaching_all(info, cluster))

        def fitting(nodes: Sequence[NodeInfo]) -> Sequence[NodeInfo]:
            return [state for state in nodes if not info.choice(state).own.rejections]

        def every(state: NodeInfo) -> Iterable[Rejection]:
            return info.choice(state).rejections

        return NodeRule(why, fitting, by_choice=True, every=every)


class VolumeZone(Filter):
    """A bound volume must be in the node's zone and region, by their labels."""

    name = "VolumeZone"
    messages: ClassVar[Mapping[Reason, str]] = {Reason.VOLUME_ZONE_MISMATCH: "had no available volume zone"}
    eviction = Eviction.UNMOVED
    queueing_hint = QueueingHint(frozenset({Node, Volume}), zone_reached, storage_shape, claims=True)

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        volumes = tuple(zoned_volumes(info.pod, cluster.storage.snapshot)) if info.pod.claims else ()
        return NodeRule(lambda state: zone_rejection(volumes, state.node)) if volumes else None


class NodeVolumeLimits(Filter):
    """The node must have the drivers that demand it, and they must be able to attach that many more volumes."""

    name = "NodeVolumeLimits"
    messages: ClassVar[Mapping[Reason, str]] = {
        Reason.ATTACH_LIMIT_REACHED: "exceed max volume count",
        Reason.DRIVER_NOT_ON_NODE: "lacked a CSI driver of the pod's volumes",
    }
    eviction = Eviction.LOCAL
    unresolvable: ClassVar[frozenset[Reason]] = frozenset({Reason.DRIVER_NOT_ON_NODE})
    queueing_hint = QueueingHint(
        frozenset({Node, CSINode, CSIDriver, Pod, Claim, Volume, StorageClass, VolumeAttachment}),
        attachable,
        storage_shape,
        claims=True,
    )

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        wanted = attachments_of(info.pod, cluster.storage.snapshot)
        if not wanted:
            return None

        def fitting(nodes: Sequence[NodeInfo]) -> Sequence[NodeInfo]:
            return [
                state
                for state in nodes
                if has_plenty(wanted, state.attach) or attach_rejection(state.name, wanted, state.attach) is None
            ]

        def why(state: NodeInfo) -> Rejection | None:
            return attach_rejection(state.name, wanted, state.attach)

        def texts(nodes: Sequence[NodeInfo]) -> Sequence[tuple[str, ...]]:
            return [_attach_text(wanted, state) for state in nodes]

        # Claims that are not bound and not used by other pods are attached nowhere: the number per driver is enough.
        is_new = not info.claims.bound and not any(key in cluster.claim_users for key in info.pod.claim_keys)
        cache_key = None
        if is_new and not inline_volumes(info.pod):
            cache_key = tuple(sorted(driver for driver, _ in wanted))
        return NodeRule(why, fitting, cache_key=cache_key, texts=texts)


def _attach_text(wanted: frozenset[UsedVolume], state: NodeInfo) -> tuple[str, ...]:
    missing = missing_driver(wanted, state.attach)
    if missing is not None:
        return (f"{missing} CSI driver is not installed on the node",)
    rejected = attach_rejection(state.name, wanted, state.attach) is not None
    return (f"node(s) {NodeVolumeLimits.messages[Reason.ATTACH_LIMIT_REACHED]}",) if rejected else ()


class ClaimTally:
    """Counts other pods that use a claim which only one pod may use."""

    def __init__(self, info: PodInfo, cluster: ClusterView) -> None:
        claims = (*(claim for claim, _ in info.claims.bound), *info.claims.delayed)
        self._pod = info.pod.key
        self._exclusive = frozenset(claim.key for claim in claims if READ_WRITE_ONCE_POD in claim.access_modes)
        users = [user for key in self._exclusive for user in cluster.claim_users.get(key, ())]
        self._users = sum(user != self._pod for user in users)

    def counts(self, _: NodeInfo) -> Counts:
        return (self._users,)

    def adds(self, pod: Pod, _: NodeInfo) -> Counts:
        return (len(self._exclusive.intersection(pod.claim_keys)) if pod.key != self._pod else 0,)

    def allows(self, _: NodeInfo, counts: Counts) -> bool:
        return counts[0] == 0


class VolumeRestrictions(Filter):
    """A ReadWriteOncePod claim that another pod uses excludes every node for its pod (KEP-2485)."""

    name = "VolumeRestrictions"
    messages: ClassVar[Mapping[Reason, str]] = {
        Reason.VOLUME_IN_USE: "unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
        "in-use by another pod"
    }
    eviction = Eviction.INCREMENTAL
    queueing_hint = QueueingHint(frozenset({Node, Pod}), claim_released, storage_shape, claims=True)

    def tally(self, info: PodInfo, cluster: ClusterView) -> ClaimTally:
        return ClaimTally(info, cluster)

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        claims = (*(claim for claim, _ in info.claims.bound), *info.claims.delayed)
        exclusive = [claim for claim in claims if READ_WRITE_ONCE_POD in claim.access_modes]
        used = next(
            (other_pod for claim in exclusive if (other_pod := _used_by(claim, info, cluster)) is not None), None
        )
        if used is None:
            return None
        claim, user = used
        wanted = f"exclusive use of claim {claim.key} ({READ_WRITE_ONCE_POD})"
        return NodeRule(
            lambda state: Rejection(Reason.VOLUME_IN_USE, state.name, wanted, f"in use by pod {user}"), allowed_nodes=0
        )


def about(state: NodeInfo, rejection: Rejection) -> Rejection:
    """Return a rejection computed for one node in the name of another, equal one."""
    return rejection if rejection.subject == state.name else replace(rejection, subject=state.name)


def _reaching_all(info: PodInfo, cluster: ClusterView) -> int:
    """Return the nodes from which all of the pod's volumes are accessible."""
    reached = 0 if info.claims.orphaned else cluster.index.everything
    for _, volume in info.claims.bound:
        reached &= cluster.index.reaching(volume.node_affinity)
    return reached


def _used_by(claim: Claim, info: PodInfo, cluster: ClusterView) -> tuple[Claim, str] | None:
    """Return another pod, placed or assumed to be, that uses the claim."""
    users = cluster.claim_users.get(claim.key, Map())
    user = next((key for key in sorted(users) if key != info.pod.key), None)
    return None if user is None else (claim, user)


def _volume_eased(pod: Pod, change: ClusterEvent, wanted: Wanted) -> bool:
    if _volume_name(change) in wanted.volumes or _claimed_by(pod, change):
        return True
    new = change.new
    return isinstance(new, Volume) and is_free(new) and class_of(new) in wanted.classes


def _claimed_by(pod: Pod, change: ClusterEvent) -> bool:
    """Whether the volume's claimRef names, or named, a claim of the pod: then that alone decides."""
    references = (item.claim for item in (change.old, change.new) if isinstance(item, Volume))
    keys = {reference.key for reference in references if reference is not None}
    return not keys.isdisjoint(pod.claim_keys)


def _can_be_made(change: ClusterEvent, wanted: Wanted) -> bool:
    old, new = change.old, change.new
    if isinstance(old, StorageClass) or isinstance(new, StorageClass):
        names = {item.name for item in (old, new) if isinstance(item, StorageClass)}
        return not names.isdisjoint(wanted.classes)
    if isinstance(old, CSIStorageCapacity) or isinstance(new, CSIStorageCapacity):
        return _capacity_eased(old, new, wanted)
    # A driver that stops reporting its capacity has room everywhere.
    return isinstance(old, CSIDriver) and old.storage_capacity and not _tells_capacity(new)


def _capacity_eased(old: object, new: object, wanted: Wanted) -> bool:
    """Whether a report may leave more: one that is gone may have been the smallest of several about one storage."""
    before, after = (item if isinstance(item, CSIStorageCapacity) else None for item in (old, new))
    classes = {report.storage_class for report in (before, after) if report is not None}
    return not classes.isdisjoint(wanted.classes | wanted.sharing) and _more_capacity(before, after)


def _more_capacity(old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> bool:
    """Whether one volume may be larger, as upstream compares, or several together."""
    if old is None or new is None or (old.storage_class, old.node_topology) != (new.storage_class, new.node_topology):
        return True
    return _grew(old.largest_volume, new.largest_volume) or _grew(old.capacity, new.capacity)


def _grew(before: int | None, after: int | None) -> bool:
    return after is not None and (before is None or after > before)


def _tells_capacity(driver: object) -> bool:
    return isinstance(driver, CSIDriver) and driver.storage_capacity


def _reports_changed(old: CSINode, new: object) -> bool:
    return old.storage != (new.storage if isinstance(new, CSINode) else None)


def _node_labels_changed(change: ClusterEvent) -> bool:
    """Whether a node was added, moved, or removed: from fewer nodes a volume may look healthier."""
    old, new = change.old, change.new
    return not (isinstance(old, Node) and isinstance(new, Node) and old.labels == new.labels)


def _volume_name(change: ClusterEvent) -> str | None:
    item = change.old if change.new is None else change.new
    return item.name if isinstance(item, Volume) else None


def _zones_of(item: object) -> object:
    """Return the labels of zones; None for absent objects."""
    return [pair for pair in item.labels if pair[0] in ZONE_LABELS] if isinstance(item, Node | Volume) else None


def _limits(item: object) -> dict[str, int | None]:
    """Return the registered drivers and the attach limits they state; none of absent objects."""
    drivers = item.drivers if isinstance(item, CSINode) else ()
    return {driver.name: driver.attach_limit for driver in drivers}


def _limit_eased(before: Mapping[str, int | None], after: Mapping[str, int | None], wanted: Wanted | None) -> bool:
    """Whether a driver was registered, or may attach more: isSchedulableAfterCSINodeUpdated of
    nodevolumelimits/csi.go. Here a limit that is gone counts too.
    """
    for driver in before.keys() | after.keys():
        was, now = before.get(driver), after.get(driver)
        concerned = wanted is None or driver in wanted.drivers
        if concerned and (driver not in before or (was is not None and (now is None or now > was))):
            return True
    return False


def _demanding(driver: object) -> bool:
    return isinstance(driver, CSIDriver) and driver.prevent_pod_scheduling_if_missing
