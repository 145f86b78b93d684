"""Filters for reserved and for unhealthy volumes: the purpose of this scheduler.

kube-scheduler takes the smallest volume that fits on the node it chose, regardless of reservations and health
(kubernetes#83323; KEP-1432 leaves the reaction to volume and storage health to other components).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from binder.assignment.volume_policy import reject_health, reject_use
from binder.health.node_storage import reject_storage
from binder.matching.evidence import affinity_text
from binder.matching.matching import class_of
from binder.matching.rejection import Reason, Rejection
from binder.reservation.contract import ClaimReservation
from kube.objects.model import Claim, Pod, Volume
from kube.rules.selectors import node_matches
from kube.rules.topology import is_on_one_node
from scheduler.framework.cluster_event import ClusterEvent, Wanted
from scheduler.framework.plugin import Eviction, Filter, NodeRule, PreFilter
from scheduler.framework.profile import Thresholds
from scheduler.framework.queueing_hint import QueueingHint
from scheduler.plugins.volume_filters import (
    VOLUME_FOUND,
    VOLUME_KINDS,
    VOLUME_MESSAGES,
    about,
    storage_shape,
    volume_found,
)
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.health_aware_choice import drivers_of
from scheduler.volumes.volumes import PodInfo

_NONE: Final[frozenset[str]] = frozenset()
_RESERVATION_REASONS: Final = frozenset({Reason.RESERVED_FOR_OTHER})


class ReservedVolume(PreFilter, Filter):
    """A reserved claim goes where its volume is; no pod goes where the only volume for it is reserved for another
    claim.

    As a PreFilter it keeps only the nodes from which the reserved volumes are accessible.
    """

    name = "ReservedVolume"
    explains = True
    messages: ClassVar[Mapping[Reason, str]] = VOLUME_MESSAGES
    eviction = Eviction.UNMOVED
    queueing_hint = VOLUME_FOUND

    def confine(self, info: PodInfo, cluster: ClusterView) -> int | Rejection | None:
        return _reaching_all(_reserved_volumes(info, cluster), cluster) if info.reserved else None

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        if not info.claims.delayed:
            return None
        reserved = _reserved_volumes(info, cluster)
        reached = _reaching_all(reserved, cluster)

        def why(state: NodeInfo) -> Rejection | None:
            for volume in reserved:
                if not node_matches(volume.node_affinity, state.labels):
                    wanted = f"a node from which the reserved volume {volume.name} is accessible"
                    where = affinity_text(volume.node_affinity) if volume.node_affinity else "anywhere"
                    return Rejection(Reason.VOLUME_UNREACHABLE, state.name, wanted, f"it is accessible where {where}")
            rejection = _only_choice(info, cluster, state)
            return rejection if rejection is not None and rejection.reason in _RESERVATION_REASONS else None

        def fitting(nodes: Sequence[NodeInfo]) -> Sequence[NodeInfo]:
            near = [state for state in nodes if reached >> state.number & 1]
            return [state for state in near if not info.choice(state).own.rejections or why(state) is None]

        return NodeRule(why, fitting, by_choice=not reserved)


class VolumeHealth(Filter):
    """No pod goes where the only volume for it is known to be unhealthy, in quarantine, or not accessible according to
    its driver.

    Nor to a node that reports a driver of its volumes as cut off from its storage. The health of a bound volume is not
    considered: its data is nowhere else.
    """

    name = "VolumeHealth"
    messages: ClassVar[Mapping[Reason, str]] = VOLUME_MESSAGES
    eviction = Eviction.UNMOVED
    queueing_hint = VOLUME_FOUND

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        drivers = _unhealthy_drivers(info, cluster)
        if not info.claims.delayed:
            return _reaching_storage(drivers, cluster) if drivers else None

        def why(state: NodeInfo) -> Rejection | None:
            cut = reject_storage(drivers, cluster.storage.snapshot, state.name)
            rejection = cut or _only_choice(info, cluster, state)
            return rejection if rejection is not None and rejection.reason not in _RESERVATION_REASONS else None

        def fitting(nodes: Sequence[NodeInfo]) -> Sequence[NodeInfo]:
            near = [state for state in nodes if state.cut_off.isdisjoint(drivers)] if drivers else nodes
            return [state for state in near if not info.choice(state).own.rejections or why(state) is None]

        return NodeRule(why, fitting, by_choice=not drivers)


def local_volume_found(pod: Pod, change: ClusterEvent, wanted: Wanted | None) -> bool:
    """As `volume_found`; also, a local volume that goes to another pod leaves the choice to one that is not local."""
    old = change.old
    if isinstance(old, Volume) and is_on_one_node(old) and wanted is not None and class_of(old) in wanted.classes:
        return True
    return volume_found(pod, change, wanted)


class LocalStorage(Filter):
    """Local volumes are only for nodes with the label of local storage, if one is configured."""

    name = "LocalStorage"
    args = Thresholds
    messages: ClassVar[Mapping[Reason, str]] = {Reason.STORAGE_LABEL_MISSING: "didn't have the label for local volumes"}
    eviction = Eviction.UNMOVED
    queueing_hint = QueueingHint(VOLUME_KINDS, local_volume_found, storage_shape, claims=True)

    def __init__(self, thresholds: Thresholds) -> None:
        self._label = thresholds.storage_label

    def rule(self, info: PodInfo, _: ClusterView) -> NodeRule | None:
        if not self._label or not info.claims.delayed:
            return None

        def why(state: NodeInfo) -> Rejection | None:
            choice = info.choice(state).own
            local = next((volume.name for _, volume in choice.volumes if is_on_one_node(volume)), None)
            if local is None or self._label in state.labels:
                return None
            wanted = f"a node with the label {self._label}, for local volume {local}"
            return Rejection(Reason.STORAGE_LABEL_MISSING, state.name, wanted, "no such label")

        return NodeRule(why)


def _unhealthy_drivers(info: PodInfo, cluster: ClusterView) -> frozenset[str]:
    """Return those drivers of the pod's volumes on which some node reports."""
    unhealthy = cluster.storage.snapshot.csi_nodes_by_unhealthy_driver
    return (
        frozenset(volume.driver for _, volume in info.claims.bound if volume.driver in unhealthy)
        if unhealthy
        else _NONE
    )


def _reaching_storage(drivers: frozenset[str], cluster: ClusterView) -> NodeRule:
    snapshot, allowed_nodes = cluster.storage.snapshot, cluster.index.everything
    reporting = {name for driver in drivers for name in snapshot.csi_nodes_by_unhealthy_driver.get(driver, ())}
    for name in reporting:
        state = cluster.node(name)
        if state is not None and not state.cut_off.isdisjoint(drivers):
            allowed_nodes &= ~(1 << state.number)
    return NodeRule(lambda state: reject_storage(drivers, snapshot, state.name), allowed_nodes=allowed_nodes)


def _reserved_volumes(info: PodInfo, cluster: ClusterView) -> list[Volume]:
    """Return the volumes that are reserved for the pod's claims, and that they may take."""
    pairs = ((claim, info.reserved.get(claim.key)) for claim in info.claims.delayed)
    held = (_held(claim, reservation, cluster) for claim, reservation in pairs if reservation is not None)
    return [volume for volume in held if volume is not None]


def _reaching_all(volumes: Iterable[Volume], cluster: ClusterView) -> int:
    nodes = cluster.index.everything
    for volume in volumes:
        nodes &= cluster.index.reaching(volume.node_affinity)
    return nodes


def _held(claim: Claim, reservation: ClaimReservation, cluster: ClusterView) -> Volume | None:
    storage = cluster.storage
    volume = storage.snapshot.volumes.get(reservation.volume)
    if volume is None or reject_health(storage, volume, cluster.now) is not None:
        return None
    kept = storage.settings.annotations.reservation_of(volume)
    return volume if kept is not None and kept.holds(cluster.now, claim) else None


def _only_choice(info: PodInfo, cluster: ClusterView, state: NodeInfo) -> Rejection | None:
    """Return why we take nothing on a node on which kube-scheduler would take something."""
    choice = info.choice(state)
    if not choice.own.rejections or choice.upstream.rejections:
        return None
    rejections = (reject_use(cluster.storage, volume, cluster.now, claim) for claim, volume in choice.upstream.volumes)
    first_rejection = next((rejection for rejection in rejections if rejection is not None), None)
    if first_rejection is None:
        snapshot = cluster.storage.snapshot
        return reject_storage(drivers_of(choice.upstream, snapshot), snapshot, state.name)
    return about(
        state,
        Rejection(
            first_rejection.reason,
            state.name,
            f"{first_rejection.wanted} beside {first_rejection.subject}",
            first_rejection.offered,
        ),
    )
