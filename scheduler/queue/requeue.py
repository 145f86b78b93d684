"""Changes in the cluster that may help rejected pods, and what such a pod waits for.

Changes that cannot help any pod are dropped: heartbeats of nodes and kubelets, and new reservations.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, TypeVar

import msgspec

from binder.matching.matching import class_of
from binder.reservation.contract import Annotations
from kube.objects.labels import Pairs
from kube.objects.model import Claim, Namespace, Pod, Record, StorageClass, Volume, VolumeAttachment
from kube.pod_topology.inter_pod_affinity import rejecting_keys
from kube.pod_topology.placed_pods import NAMESPACE_NAME
from kube.rules.disruption import DisruptionBudget
from kube.store.node_view import used_volume
from kube.store.snapshot import Snapshot
from kube.store.store import Store
from scheduler.cycle.cycle import Unschedulable
from scheduler.cycle.decision_cost import constrain_few
from scheduler.framework.cluster_event import ClusterEvent, Wanted
from scheduler.framework.plugin import ScheduleResult
from scheduler.queue.expiry import expires_in, sharing
from scheduler.state.attach_limits import attachments_of
from scheduler.state.cluster import ClusterView

R = TypeVar("R", bound=Record)

_NONE: Final[frozenset[str]] = frozenset()


class Changes:
    """Reports changes in a store that holds the pods that are on nodes, and no others."""

    def __init__(self, store: Store, publish: Callable[[ClusterEvent], None], annotations: Annotations) -> None:
        self._store = store
        self._publish = publish
        self._annotations = annotations

    @contextmanager
    def following(self) -> Iterator[None]:
        """Report changes while inside the context."""
        store = self._store
        with ExitStack() as stack:
            stack.enter_context(store.pods.listening(self._pod_changed))
            stack.enter_context(store.claims.listening(self._claim_changed))
            stack.enter_context(store.volumes.listening(self._volume_changed))
            stack.enter_context(store.classes.listening(self._class_changed))
            stack.enter_context(store.attachments.listening(self._attachment_changed))
            stack.enter_context(store.nodes.listening(self._changed))
            stack.enter_context(store.csi_nodes.listening(self._changed))
            stack.enter_context(store.csi_drivers.listening(self._changed))
            stack.enter_context(store.capacities.listening(self._changed))
            stack.enter_context(store.budgets.listening(self._budget_changed))
            stack.enter_context(store.namespaces.listening(self._namespace_changed))
            yield

    def _changed(self, old: R | None, new: R | None) -> None:
        if not alike(old, new):
            self._publish(ClusterEvent(old, new))

    def _budget_changed(self, old: DisruptionBudget | None, new: DisruptionBudget | None) -> None:
        """Only changes that permit more evictions matter: the status is written with every pod that is added or
        removed.
        """
        if old is not None and (new is None or new.selector != old.selector or new.allowed > old.allowed):
            self._publish(ClusterEvent(old, new))

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if _labels_of(old) != _labels_of(new):
            self._publish(ClusterEvent(old, new))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        before, after = _on_node(old), _on_node(new)
        if before is not None and after is not None and _identity(before) == _identity(after):
            if _counted(before) != _counted(after):
                self._publish(ClusterEvent(before, after))
            return
        if before is not None:
            self._publish(ClusterEvent(before, None, frozenset(driver for driver, _ in self._attached_for(before))))
        if after is not None:
            self._publish(ClusterEvent(None, after))

    def _attached_for(self, pod: Pod) -> frozenset[tuple[str, str]]:
        return attachments_of(pod, self._store.snapshot())

    def _claim_changed(self, old: Claim | None, new: Claim | None) -> None:
        if alike(old, new):
            return
        snapshot = self._store.snapshot()
        before = used_volume(snapshot, old) if old is not None else None
        after = used_volume(snapshot, new) if new is not None else None
        drivers = _NONE
        if before is not None and before != after:
            # A claim that gets its volume counts as before, unless another driver has it or it was attached already.
            key = new.key if new is not None else ""
            if after is None or after[0] != before[0] or key in snapshot.pods_by_claim:
                drivers = frozenset({before[0]})
        self._publish(ClusterEvent(old, new, drivers))

    def _volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        if alike(old, new) or only_reserved(old, new, self._annotations):
            return
        drivers = _NONE
        if _handle(old) != _handle(new):
            drivers = self._drivers_before(old, new)
        self._publish(ClusterEvent(old, new, drivers))

    def _drivers_before(self, old: Volume | None, new: Volume | None) -> frozenset[str]:
        """Return the drivers that had to attach the volume, or its claim while the volume did not exist."""
        if old is not None:
            return frozenset({old.driver}) - {""}
        snapshot = self._store.snapshot()
        claimed = snapshot.claims_by_volume.get(new.name, ()) if new is not None else ()
        classes = (snapshot.classes.get(class_of(snapshot.claims[key])) for key in claimed)
        return frozenset(storage_class.provisioner for storage_class in classes if storage_class is not None) - {
            new.driver if new else "",
            "",
        }

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        if not alike(old, new):
            self._publish(ClusterEvent(old, new, frozenset({old.provisioner}) if old is not None else _NONE))

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None and new is None:
            self._publish(ClusterEvent(old, None, frozenset({old.attacher})))


def alike(old: R | None, new: R | None) -> bool:
    """Whether only the version changed, as far as our records show."""
    if old is None or new is None or type(old) is not type(new):
        return False
    return msgspec.structs.replace(new, resource_version=old.resource_version) == old


def only_reserved(old: Volume | None, new: Volume | None, annotations: Annotations) -> bool:
    """Whether a volume was reserved, or a reservation extended, and nothing else changed: that helps no pod."""
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


def wanted_by(unschedulable: Unschedulable) -> Wanted:
    """Return what a pod waits for after a decision that found no node."""
    judgement, snapshot = unschedulable.judgement, unschedulable.cluster.storage.snapshot
    pod = judgement.info.pod
    claims = [claim for key in pod.claim_keys if (claim := snapshot.claims.get(key)) is not None]
    reserved = {reservation.volume for reservation in judgement.info.reserved.values()}
    return Wanted(
        classes=frozenset(class_of(claim) for claim in claims),
        volumes=frozenset({claim.volume_name for claim in claims if claim.volume_name} | reserved),
        drivers=frozenset(driver for driver, _ in attachments_of(pod, snapshot)),
        whole=judgement.rejection is not None,
        topology_keys=_topology_keys(pod, unschedulable.cluster),
        sharing=sharing(judgement.info, unschedulable.cluster.storage),
        again_in=expires_in(judgement.info, unschedulable.cluster.storage, unschedulable.cluster.now),
    )


def _topology_keys(pod: Pod, cluster: ClusterView) -> frozenset[str] | None:
    return rejecting_keys(pod, cluster) if constrain_few(cluster.pod_groups) else None


def forgotten(placement: ScheduleResult, snapshot: Snapshot) -> tuple[ClusterEvent, ...]:
    """Return the change that other pods see when a pod does not get the node and volumes reserved for it."""
    pod = msgspec.structs.replace(placement.pod, node_name=placement.node)
    drivers = frozenset(driver for driver, _ in attachments_of(pod, snapshot))
    freed = [snapshot.volumes.get(volume.name, volume) for _, volume in placement.volumes.volumes]
    return (ClusterEvent(pod, None, drivers), *(ClusterEvent(None, volume) for volume in freed))


def renounced(pod: Pod, node: str) -> ClusterEvent:
    """Return the change that other pods see when a waiting pod loses its nominated node.

    It blocked no pod of higher priority (getLEPriorityPreCheck in pkg/scheduler/eventhandlers.go).
    """
    return ClusterEvent(msgspec.structs.replace(pod, node_name=node), None, most_priority=pod.priority)


def _on_node(pod: Pod | None) -> Pod | None:
    """Return the pod if it uses something of a node."""
    return pod if pod is not None and pod.node_name and not pod.finished else None


def _identity(pod: Pod) -> tuple[str, str]:
    return pod.uid, pod.node_name


def _counted(pod: Pod) -> tuple[object, ...]:
    """Return what is visible to other pods of a pod on a node."""
    return pod.requests, pod.labels, pod.deleting, pod.constraints


def _labels_of(namespace: Namespace | None) -> Pairs | None:
    """Return the labels of a namespace; None if it has only those that every namespace has."""
    if namespace is None or namespace.labels == ((NAMESPACE_NAME, namespace.name),):
        return None
    return namespace.labels


def _handle(volume: Volume | None) -> tuple[str, str] | None:
    return None if volume is None else (volume.driver, volume.handle)
