"""What a driver can be asked about the health of a volume, by its capabilities and never by its version.

Two generations exist: the health calls of CSI 1.13 (KEP-1432), and the VolumeCondition which 1.13 retired. A driver
may know both, one, or merely whether a volume exists.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from csi.proto import csi_v1_pb2 as csi

_Service = csi.PluginCapability.Service
_Rpc = csi.ControllerServiceCapability.RPC


class HealthProtocol(StrEnum):
    """Ways to learn a volume's health, named for the call that is made; the best first."""

    HEALTH_BY_LIST = "ControllerListVolumeHealth"
    HEALTH_BY_GET = "ControllerGetVolumeHealth"
    CONDITION_BY_GET = "ControllerGetVolume with VolumeCondition"
    CONDITION_BY_LIST = "ListVolumes with VolumeCondition"
    EXISTENCE = "ControllerGetVolume"


NEEDED: Final = {
    # A list says nothing of a volume it leaves out: only a get confirms, and the spec demands both capabilities.
    HealthProtocol.HEALTH_BY_LIST: {_Rpc.LIST_VOLUME_HEALTH, _Rpc.GET_VOLUME_HEALTH},
    HealthProtocol.HEALTH_BY_GET: {_Rpc.GET_VOLUME_HEALTH},
    HealthProtocol.CONDITION_BY_GET: {_Rpc.VOLUME_CONDITION, _Rpc.GET_VOLUME},
    HealthProtocol.CONDITION_BY_LIST: {_Rpc.VOLUME_CONDITION, _Rpc.LIST_VOLUMES},
    HealthProtocol.EXISTENCE: {_Rpc.GET_VOLUME},
}
SPOKEN: Final = frozenset({HealthProtocol.CONDITION_BY_GET, HealthProtocol.EXISTENCE})
"""The protocols that csi.probe knows how to speak."""


@dataclass(frozen=True, slots=True)
class Negotiation:
    """What was agreed with a driver.

    `protocol` is None when none of the `offered` ones is spoken. `topology` says whether the driver's answers about
    where a volume is accessible mean anything. `unknown` are capability numbers this version does not know.
    """

    protocol: HealthProtocol | None
    offered: tuple[HealthProtocol, ...]
    topology: bool
    unknown: tuple[int, ...]


def negotiate(services: Collection[int], rpcs: Collection[int]) -> Negotiation:
    """Choose the best protocol from the numbers of the plugin's services and its controller's capabilities."""
    topology = _Service.VOLUME_ACCESSIBILITY_CONSTRAINTS in services
    unknown = tuple(sorted(set(rpcs) - set(_Rpc.Type.values())))
    if _Service.CONTROLLER_SERVICE not in services:
        return Negotiation(None, (), topology, unknown)
    offered = tuple(protocol for protocol, needed in NEEDED.items() if needed <= set(rpcs))
    chosen = next((protocol for protocol in offered if protocol in SPOKEN), None)
    return Negotiation(chosen, offered, topology, unknown)
