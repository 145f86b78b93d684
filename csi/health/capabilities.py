"""How a driver can be probed for the health of a volume, by its capabilities and never by its version.

Two generations exist: the health calls of CSI 1.13 (KEP-1432), and the VolumeCondition that 1.13 retired. A driver may
support both, one, or merely report whether a volume exists.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from csi.proto import csi_v1_pb2 as csi

_Service = csi.PluginCapability.Service
_Rpc = csi.ControllerServiceCapability.RPC


class HealthProtocol(StrEnum):
    """Ways to determine a volume's health, named for the call that is made; the best first."""

    HEALTH_BY_LIST = "ControllerListVolumeHealth"
    HEALTH_BY_GET = "ControllerGetVolumeHealth"
    CONDITION_BY_GET = "ControllerGetVolume with VolumeCondition"
    CONDITION_BY_LIST = "ListVolumes with VolumeCondition"
    EXISTENCE = "ControllerGetVolume"


NEEDED: Final[Mapping[HealthProtocol, frozenset[int]]] = {
    # A list implies nothing about a volume it omits: only a get confirms, and the spec requires both capabilities.
    HealthProtocol.HEALTH_BY_LIST: frozenset({_Rpc.LIST_VOLUME_HEALTH, _Rpc.GET_VOLUME_HEALTH}),
    HealthProtocol.HEALTH_BY_GET: frozenset({_Rpc.GET_VOLUME_HEALTH}),
    HealthProtocol.CONDITION_BY_GET: frozenset({_Rpc.VOLUME_CONDITION, _Rpc.GET_VOLUME}),
    HealthProtocol.CONDITION_BY_LIST: frozenset({_Rpc.VOLUME_CONDITION, _Rpc.LIST_VOLUMES}),
    HealthProtocol.EXISTENCE: frozenset({_Rpc.GET_VOLUME}),
}
HEALTH_CALLS: Final = frozenset({HealthProtocol.HEALTH_BY_LIST, HealthProtocol.HEALTH_BY_GET})
"""The protocols of CSI 1.13, whose responses carry health and nothing else."""


@dataclass(frozen=True, slots=True)
class Negotiation:
    """The capabilities negotiated with a driver.

    `protocol` is the first of the `offered` ones, None if there is none. `topology` tells whether the driver reports
    where a volume is accessible. `listing` is the protocol for lists of volumes, None if volumes have to be probed
    individually; `getting` tells whether they can be. `unknown` are capability numbers that this version does not know.
    """

    protocol: HealthProtocol | None
    offered: tuple[HealthProtocol, ...]
    topology: bool
    unknown: tuple[int, ...]

    @property
    def listing(self) -> HealthProtocol | None:
        if self.protocol is HealthProtocol.CONDITION_BY_GET and HealthProtocol.CONDITION_BY_LIST in self.offered:
            return HealthProtocol.CONDITION_BY_LIST
        lists = (HealthProtocol.HEALTH_BY_LIST, HealthProtocol.CONDITION_BY_LIST)
        return self.protocol if self.protocol in lists else None

    @property
    def getting(self) -> bool:
        return self.protocol not in (None, HealthProtocol.CONDITION_BY_LIST)

    @property
    def needs_second_call(self) -> bool:
        """Whether a second call, ControllerGetVolume, is needed to determine where a volume is accessible."""
        return self.topology and self.protocol in HEALTH_CALLS and HealthProtocol.EXISTENCE in self.offered


def negotiate(services: Collection[int], rpcs: Collection[int]) -> Negotiation:
    """Choose the best protocol from the numbers of the plugin's services and its controller's capabilities."""
    topology = _Service.VOLUME_ACCESSIBILITY_CONSTRAINTS in services
    unknown = tuple(sorted(set(rpcs) - set(_Rpc.Type.values())))
    if _Service.CONTROLLER_SERVICE not in services:
        return Negotiation(None, (), topology, unknown)
    offered = tuple(protocol for protocol, needed in NEEDED.items() if needed <= set(rpcs))
    return Negotiation(offered[0] if offered else None, offered, topology, unknown)
