"""Health reports about storage on claims and CSINodes, as records (KEP-1432 and csi-addons).

`kube.decoding.decode_health` reads them; csi.health.sources defines what they mean for a volume.
"""

from datetime import datetime

from msgspec import Struct


class HealthCondition(Struct, frozen=True, gc=False):
    """An entry of `status.healthStatus.healthConditions` of a claim: Kubernetes 1.37, gate CSIVolumeHealth."""

    status: str
    reason: str = ""
    message: str = ""


class NodeReport(Struct, frozen=True, gc=False):
    """What csi-addons' Volume Condition Reporter on a node reports about a claim's volume, and since when if it states
    that.
    """

    node: str
    healthy: bool
    since: datetime | None = None


class ClaimHealth(Struct, frozen=True, gc=False):
    """Everything reported about a claim's volume on the claim itself.

    `conditions` is None if the field was never written; empty means that no adverse condition is known. `since` is when
    the present set of them first appeared. `unreadable` counts reports that could not be read: they count as absent.
    """

    conditions: tuple[HealthCondition, ...] | None = None
    since: datetime | None = None
    nodes: tuple[NodeReport, ...] = ()
    unreadable: int = 0


class StorageCondition(Struct, frozen=True, gc=False):
    """An adverse condition of one driver's storage as seen from a node: `status.storageHealth` of a CSINode.

    Kubernetes 1.37, gate CSIVolumeHealth (KEP-1432). An empty `volume_mode` or `access_mode` means every one.
    """

    driver: str
    status: str
    reason: str = ""
    message: str = ""
    volume_mode: str = ""
    access_mode: str = ""
    since: datetime | None = None


class StorageReports(Struct, frozen=True, gc=False):
    """All conditions on one CSINode. `unreadable` counts reports that could not be read: they count as absent."""

    conditions: tuple[StorageCondition, ...] = ()
    unreadable: int = 0
