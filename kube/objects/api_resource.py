"""The kinds we read and write, and their paths in the API."""

from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of the API, or those of its objects that a field selector selects. `group` is empty for the core group.

    Two parts of one kind have names, which distinguish them in logs and metrics.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    part: str = ""
    field_selector: str = ""
    only_namespace: str = ""

    @property
    def label(self) -> str:
        """Return its name in logs and metrics: the plural, and the part."""
        return f"{self.plural}/{self.part}" if self.part else self.plural

    def selected(self, part: str, field_selector: str) -> "Resource":
        """Return the part of the kind that the selector selects: lists and watches return nothing else."""
        return replace(self, part=part, field_selector=field_selector)

    def within(self, namespace: str) -> "Resource":
        """Return the objects of one namespace as a kind of its own: lists and watches show nothing else."""
        return replace(self, only_namespace=namespace)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of an object, of a collection (no name), or of the collection in all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        inside = namespace or self.only_namespace
        if inside and self.namespaced:
            root += f"/namespaces/{quote(inside, safe='')}"
        parts = [root, self.plural]
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PODS: Final = Resource("", "v1", "pods", "Pod", namespaced=True)
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_NODES: Final = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
CSI_DRIVERS: Final = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
CAPACITIES: Final = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", namespaced=True)
ATTACHMENTS: Final = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
DISRUPTION_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
RESOURCE_QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota", namespaced=True)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
NODE_POOLS: Final = Resource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False)
"""Karpenter's: a cluster without it does not serve them."""
VOLUME_SNAPSHOTS: Final = Resource(
    "snapshot.storage.k8s.io", "v1", "volumesnapshots", "VolumeSnapshot", namespaced=True
)
VOLUME_SNAPSHOT_CONTENTS: Final = Resource(
    "snapshot.storage.k8s.io", "v1", "volumesnapshotcontents", "VolumeSnapshotContent", namespaced=False
)
"""external-snapshotter's, as the former: a cluster without it does not serve them."""
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)

WATCHED: Final = (
    CLAIMS,
    VOLUMES,
    STORAGE_CLASSES,
    PODS,
    NODES,
    CSI_NODES,
    CSI_DRIVERS,
    CAPACITIES,
    ATTACHMENTS,
)
"""The nine kinds that are listed and watched."""
