"""Where in the API each source is."""

from collections.abc import Mapping
from typing import Final

from kube.objects.api_resource import (
    ATTACHMENTS,
    CAPACITIES,
    CLAIMS,
    CSI_DRIVERS,
    CSI_NODES,
    LEASES,
    NAMESPACES,
    NODE_POOLS,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    STORAGE_CLASSES,
    VOLUMES,
    Resource,
)
from why.facts.facts import Source

_EVENTS: Final = Resource("", "v1", "events", "Event", namespaced=True)
"""Those of the core group: users who may view a namespace may read them there."""

_SNAPSHOTS: Final = Resource("snapshot.storage.k8s.io", "v1", "volumesnapshots", "VolumeSnapshot", namespaced=True)
_DEVICE_CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", namespaced=True)

_NODE_CLAIMS: Final = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", namespaced=False)
"""Karpenter's own: a cluster without it does not serve them."""

RESOURCES: Final[Mapping[Source, Resource]] = {
    Source.CLAIMS: CLAIMS,
    Source.VOLUMES: VOLUMES,
    Source.CLASSES: STORAGE_CLASSES,
    Source.PODS: PODS,
    Source.ALL_PODS: PODS,
    Source.DRIVER_PODS: PODS,
    Source.NODES: NODES,
    Source.CSI_NODES: CSI_NODES,
    Source.CSI_DRIVERS: CSI_DRIVERS,
    Source.CAPACITIES: CAPACITIES,
    Source.ATTACHMENTS: ATTACHMENTS,
    Source.EVENTS: _EVENTS,
    Source.QUOTAS: RESOURCE_QUOTAS,
    Source.LEASES: LEASES,
    Source.SNAPSHOTS: _SNAPSHOTS,
    Source.DEVICE_CLAIMS: _DEVICE_CLAIMS,
    Source.NAMESPACES: NAMESPACES,
    Source.NODE_POOLS: NODE_POOLS,
    Source.NODE_CLAIMS: _NODE_CLAIMS,
}

OF_THE_NAMESPACE: Final = frozenset(
    {Source.CLAIMS, Source.PODS, Source.EVENTS, Source.QUOTAS, Source.SNAPSHOTS, Source.DEVICE_CLAIMS}
)
"""Sources that are read in the requested namespace; the others cluster-wide."""
