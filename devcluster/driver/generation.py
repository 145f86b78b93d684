"""Which health calls the directory driver offers, and how it reports faults in each generation of CSI."""

from enum import StrEnum
from pathlib import Path
from typing import Final

from csi.proto import csi_v1_pb2 as csi
from devcluster.driver.health import VolumeFault, diagnose
from devcluster.driver.volumes import Volume, look_at

_Rpc = csi.ControllerServiceCapability.RPC
_NodeRpc = csi.NodeServiceCapability.RPC


class Generation(StrEnum):
    """What a driver supports of volume health, named for the CSI version and its calls."""

    HEALTH = "1.13"
    HEALTH_GET = "1.13-get"
    CONDITION = "1.12"
    CONDITION_GET = "1.12-get"
    CONDITION_LIST = "1.12-list"
    EXISTENCE = "existence"
    NOTHING = "none"

    @property
    def reports_conditions(self) -> bool:
        return _Rpc.VOLUME_CONDITION in CONTROLLER_CALLS[self]


EXPLAINED: Final = {
    Generation.HEALTH: "ControllerListVolumeHealth and ControllerGetVolumeHealth",
    Generation.HEALTH_GET: "ControllerGetVolumeHealth",
    Generation.CONDITION: "VolumeCondition by ControllerGetVolume and ListVolumes",
    Generation.CONDITION_GET: "VolumeCondition by ControllerGetVolume",
    Generation.CONDITION_LIST: "VolumeCondition by ListVolumes",
    Generation.EXISTENCE: "ControllerGetVolume without a condition",
    Generation.NOTHING: "no call about one volume",
}
CONTROLLER_CALLS: Final = {
    Generation.HEALTH: (_Rpc.GET_VOLUME, _Rpc.LIST_VOLUMES, _Rpc.GET_VOLUME_HEALTH, _Rpc.LIST_VOLUME_HEALTH),
    Generation.HEALTH_GET: (_Rpc.GET_VOLUME, _Rpc.GET_VOLUME_HEALTH),
    Generation.CONDITION: (_Rpc.GET_VOLUME, _Rpc.LIST_VOLUMES, _Rpc.VOLUME_CONDITION),
    Generation.CONDITION_GET: (_Rpc.GET_VOLUME, _Rpc.VOLUME_CONDITION),
    Generation.CONDITION_LIST: (_Rpc.LIST_VOLUMES, _Rpc.VOLUME_CONDITION),
    Generation.EXISTENCE: (_Rpc.GET_VOLUME,),
    Generation.NOTHING: (),
}
"""Capabilities beyond those that every generation has."""

_STATUS: Final = {
    VolumeFault.GONE: csi.DATA_LOSS,
    VolumeFault.UNREADABLE: csi.INACCESSIBLE,
    VolumeFault.READ_ONLY: csi.DEGRADED,
    VolumeFault.FULL: csi.DEGRADED,
}
_REASON: Final = {
    VolumeFault.GONE: "DirectoryGone",
    VolumeFault.UNREADABLE: "DirectoryUnreadable",
    VolumeFault.READ_ONLY: "DirectoryReadOnly",
    VolumeFault.FULL: "DirectoryFull",
}


def node_calls(generation: Generation) -> tuple[csi.NodeServiceCapability.RPC.Type, ...]:
    """Return the capabilities of the Node service."""
    if generation.reports_conditions:
        return (_NodeRpc.GET_VOLUME_STATS, _NodeRpc.VOLUME_CONDITION)
    return (_NodeRpc.GET_VOLUME_STATS,)


def condition(generation: Generation, root: Path, volume: Volume) -> csi.VolumeCondition | None:
    """Return the health of a volume in the form of CSI up to 1.12, None in a generation without it."""
    if not generation.reports_conditions:
        return None
    finding = diagnose(look_at(root, volume.volume_id), volume.capacity)
    if finding is None:
        return csi.VolumeCondition(abnormal=False, message="the directory is there, writable and has room")
    return csi.VolumeCondition(abnormal=True, message=finding.message)


def volume_health(root: Path, volume: Volume) -> csi.VolumeHealth:
    """Return the health of a volume in the form of CSI 1.13; without entries it is healthy."""
    finding = diagnose(look_at(root, volume.volume_id), volume.capacity)
    health = csi.VolumeHealth(volume_id=volume.volume_id)
    if finding is not None:
        kind = finding.fault
        health.health_statuses.add(status=_STATUS[kind], reason=_REASON[kind], message=finding.message)
    return health
