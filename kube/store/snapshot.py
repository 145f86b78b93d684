"""An immutable view of the cluster: every decision of a pass reads this and nothing else.

Maps are persistent (kube.persistent_map): taking a snapshot copies nothing, and later changes of the store do not show.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kube.objects.model import (
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
from kube.store.index import KeyMap, Keys
from kube.store.storage_capacities import StorageCapacities

_NONE: Final[Mapping[str, Keys]] = KeyMap()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Objects by key (`namespace/name`, or the name), and the indexes that rules use.

    `pods_by_claim`: claim key -> keys of the pods that use it, finished ones left out. `pods_by_node`: node name ->
    keys of the pods assigned to it, finished ones left out. `pods_by_nominated_node`: node name -> keys of the pods
    nominated for it and not assigned yet, those being deleted left out. `volumes_by_claim`: claim key -> names of the
    volumes whose claimRef names it (whatever its uid). `volumes_reserved_for`: claim key -> names of the volumes whose
    annotation reserves them for it, or sets them aside. `claims_by_volume`: volume name -> keys of the claims whose
    spec.volumeName is it. `attachments_by_node`: node name -> names of its VolumeAttachments. `capacities_by_class`:
    the capacities by class and node labels. `csi_nodes_by_unhealthy_driver`: driver -> names of the CSINodes that
    report a condition of its storage. `constraining_pods`: key -> key of the pods that limit where others may go: by
    required anti-affinity, and while they have no node by any rule about other pods (`Constraints.is_required`);
    finished ones left out.
    """

    claims: Map[str, Claim] = Map()
    volumes: Map[str, Volume] = Map()
    classes: Map[str, StorageClass] = Map()
    pods: Map[str, Pod] = Map()
    nodes: Map[str, Node] = Map()
    csi_nodes: Map[str, CSINode] = Map()
    csi_drivers: Map[str, CSIDriver] = Map()
    capacities: Map[str, CSIStorageCapacity] = Map()
    attachments: Map[str, VolumeAttachment] = Map()
    pods_by_claim: Mapping[str, Keys] = _NONE
    pods_by_node: Mapping[str, Keys] = _NONE
    pods_by_nominated_node: Mapping[str, Keys] = _NONE
    volumes_by_claim: Mapping[str, Keys] = _NONE
    volumes_reserved_for: Mapping[str, Keys] = _NONE
    claims_by_volume: Mapping[str, Keys] = _NONE
    attachments_by_node: Mapping[str, Keys] = _NONE
    capacities_by_class: StorageCapacities = field(default_factory=StorageCapacities)
    csi_nodes_by_unhealthy_driver: Mapping[str, Keys] = _NONE
    constraining_pods: Mapping[str, Keys] = _NONE
