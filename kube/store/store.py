"""The cached state of the cluster: one collection per kind, the indexes that rules use, and snapshots at no cost."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from kube.decoding.decode_parts import OWN_PREFIX
from kube.objects.model import (
    Claim,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Namespace,
    Node,
    Pod,
    Record,
    StorageClass,
    Volume,
    VolumeAttachment,
    value_of,
)
from kube.objects.stateful_set import ResourceQuota, StatefulSet
from kube.persistent_map import Map
from kube.rules.disruption import DisruptionBudget
from kube.store.collection import Collection
from kube.store.index import Change, Index, updated
from kube.store.snapshot import Snapshot
from kube.store.storage_capacities import StorageCapacityIndex

R = TypeVar("R", bound=Record)


class Store:
    """Nine collections, and those that only some commands fill. `own_prefix` is the prefix of our annotations.

    The optional ones are in no snapshot: `budgets` (PodDisruptionBudgets), `namespaces`, `stateful_sets` and `quotas`.
    """

    def __init__(self, own_prefix: str = OWN_PREFIX) -> None:
        naming = (f"{own_prefix}reserved-for", f"{own_prefix}set-aside-for")
        self._snapshot: Snapshot | None = None
        self._pods_by_claim: Index[Pod] = Index(_claims_used)
        self._pods_by_node: Index[Pod] = Index(lambda pod: () if pod.finished else _words(pod.node_name))
        self._pods_by_nominated_node: Index[Pod] = Index(_nominated)
        self._volumes_by_claim: Index[Volume] = Index(_claim_of)
        self._volumes_reserved_for: Index[Volume] = Index(
            lambda record: tuple({name: None for key in naming if (name := value_of(record.annotations, key))})
        )
        self._claims_by_volume: Index[Claim] = Index(_volume_of)
        self._attachments_by_node: Index[VolumeAttachment] = Index(lambda record: _words(record.node_name))
        self._csi_nodes_by_unhealthy_driver: Index[CSINode] = Index(_unhealthy_drivers)
        self._constraining_pods: Index[Pod] = Index(_constraining)
        self._capacities_by_class = StorageCapacityIndex()
        changed = self._forget_snapshot
        self.claims: Collection[Claim] = Collection((self._claims_by_volume,), changed)
        self.volumes: Collection[Volume] = Collection((self._volumes_by_claim, self._volumes_reserved_for), changed)
        self.classes: Collection[StorageClass] = Collection((), changed)
        self.pods: Collection[Pod] = Collection(
            (self._pods_by_claim, self._pods_by_node, self._pods_by_nominated_node, self._constraining_pods), changed
        )
        self.nodes: Collection[Node] = Collection((), changed)
        self.csi_nodes: Collection[CSINode] = Collection((self._csi_nodes_by_unhealthy_driver,), changed)
        self.csi_drivers: Collection[CSIDriver] = Collection((), changed)
        self.capacities: Collection[CSIStorageCapacity] = Collection((self._capacities_by_class,), changed)
        self.attachments: Collection[VolumeAttachment] = Collection((self._attachments_by_node,), changed)
        self.budgets: Collection[DisruptionBudget] = Collection()
        self.namespaces: Collection[Namespace] = Collection()
        self.stateful_sets: Collection[StatefulSet] = Collection()
        self.quotas: Collection[ResourceQuota] = Collection()

    @property
    def collections(self) -> Mapping[str, Collection[Any]]:
        """All of them by kind."""
        return {
            "PersistentVolumeClaim": self.claims,
            "PersistentVolume": self.volumes,
            "StorageClass": self.classes,
            "Pod": self.pods,
            "Node": self.nodes,
            "CSINode": self.csi_nodes,
            "CSIDriver": self.csi_drivers,
            "CSIStorageCapacity": self.capacities,
            "VolumeAttachment": self.attachments,
            "PodDisruptionBudget": self.budgets,
            "Namespace": self.namespaces,
            "StatefulSet": self.stateful_sets,
            "ResourceQuota": self.quotas,
        }

    def snapshot(self) -> Snapshot:
        """Return the state of this moment; the same object until something changes."""
        if self._snapshot is None:
            self._snapshot = Snapshot(
                claims=self.claims.items,
                volumes=self.volumes.items,
                classes=self.classes.items,
                pods=self.pods.items,
                nodes=self.nodes.items,
                csi_nodes=self.csi_nodes.items,
                csi_drivers=self.csi_drivers.items,
                capacities=self.capacities.items,
                attachments=self.attachments.items,
                pods_by_claim=self._pods_by_claim.entries,
                pods_by_node=self._pods_by_node.entries,
                pods_by_nominated_node=self._pods_by_nominated_node.entries,
                volumes_by_claim=self._volumes_by_claim.entries,
                volumes_reserved_for=self._volumes_reserved_for.entries,
                claims_by_volume=self._claims_by_volume.entries,
                attachments_by_node=self._attachments_by_node.entries,
                capacities_by_class=self._capacities_by_class.entries,
                csi_nodes_by_unhealthy_driver=self._csi_nodes_by_unhealthy_driver.entries,
                constraining_pods=self._constraining_pods.entries,
            )
        return self._snapshot

    def _forget_snapshot(self) -> None:
        self._snapshot = None


def _words(word: str | None) -> tuple[str, ...]:
    return (word,) if word else ()


def _claims_used(pod: Pod) -> tuple[str, ...]:
    return () if pod.finished else pod.claim_keys


def _volume_of(claim: Claim) -> tuple[str, ...]:
    return _words(claim.volume_name)


def _nominated(pod: Pod) -> tuple[str, ...]:
    return () if pod.node_name or pod.finished or pod.deleting else _words(pod.nominated_node)


def _constraining(pod: Pod) -> tuple[str, ...]:
    constraints = pod.constraints
    if constraints is None or pod.finished:
        return ()
    constrains = constraints.anti_affinity or (not pod.node_name and constraints.is_required)
    return (pod.key,) if constrains else ()


def _unhealthy_drivers(csi_node: CSINode) -> tuple[str, ...]:
    conditions = csi_node.storage.conditions if csi_node.storage is not None else ()
    return tuple(dict.fromkeys(condition.driver for condition in conditions))


def _claim_of(volume: Volume) -> tuple[str, ...]:
    return (volume.claim.key,) if volume.claim and volume.claim.name else ()


def snapshot_of(records: Iterable[Record], own_prefix: str = OWN_PREFIX) -> Snapshot:
    """Return the snapshot of a cluster that consists of these objects."""
    return store_of(records, own_prefix).snapshot()


def store_of(records: Iterable[Record], own_prefix: str = OWN_PREFIX) -> Store:
    """Return a store that holds these objects."""
    store, objects = Store(own_prefix), list(records)
    store.claims.replace((record for record in objects if isinstance(record, Claim)), "")
    store.volumes.replace((record for record in objects if isinstance(record, Volume)), "")
    store.classes.replace((record for record in objects if isinstance(record, StorageClass)), "")
    store.pods.replace((record for record in objects if isinstance(record, Pod)), "")
    store.nodes.replace((record for record in objects if isinstance(record, Node)), "")
    store.csi_nodes.replace((record for record in objects if isinstance(record, CSINode)), "")
    store.csi_drivers.replace((record for record in objects if isinstance(record, CSIDriver)), "")
    store.capacities.replace((record for record in objects if isinstance(record, CSIStorageCapacity)), "")
    store.attachments.replace((record for record in objects if isinstance(record, VolumeAttachment)), "")
    return store


def supposing(
    snapshot: Snapshot, claims: Iterable[Claim] = (), pods: Iterable[Pod] = (), volumes: Iterable[Volume] = ()
) -> Snapshot:
    """Return the snapshot as it would be with these objects: new ones, or other versions of known ones."""
    of_claims = [(claim.key, snapshot.claims.get(claim.key), claim) for claim in claims]
    of_pods = [(pod.key, snapshot.pods.get(pod.key), pod) for pod in pods]
    of_volumes = [(volume.name, snapshot.volumes.get(volume.name), volume) for volume in volumes]
    return replace(
        snapshot,
        claims=_with(snapshot.claims, of_claims),
        pods=_with(snapshot.pods, of_pods),
        volumes=_with(snapshot.volumes, of_volumes),
        pods_by_claim=updated(snapshot.pods_by_claim, _claims_used, of_pods),
        constraining_pods=updated(snapshot.constraining_pods, _constraining, of_pods),
        volumes_by_claim=updated(snapshot.volumes_by_claim, _claim_of, of_volumes),
        claims_by_volume=updated(snapshot.claims_by_volume, _volume_of, of_claims),
    )


def _with(items: Map[str, R], changes: Iterable[Change[R]]) -> Map[str, R]:
    mutation = items.mutate()
    for key, _, new in changes:
        if new is not None:
            mutation[key] = new
    return mutation.finish()
