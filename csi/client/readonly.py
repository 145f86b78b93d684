"""The only methods that this program can call on a CSI driver; all of them are read-only.

Any client of a driver's socket can delete its volumes, so the names are defined once, here, and csi.client.channel
accepts no other way to name a method. The protocol: csi/proto/csi_v1.proto.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message

from csi.proto import csi_v1_pb2 as csi

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)


@dataclass(frozen=True, slots=True)
class ReadOnlyMethod(Generic[Request, Answer]):
    """A remote procedure that changes nothing, with the types of its request and its response."""

    service: str
    request: type[Request]
    answer: type[Answer]

    @property
    def name(self) -> str:
        return self.request.DESCRIPTOR.name.removesuffix("Request")

    @property
    def path(self) -> str:
        """The method on the wire, which is also its name in the metrics of Kubernetes' CSI sidecars."""
        return f"/csi.v1.{self.service}/{self.name}"


_IDENTITY, _CONTROLLER = "Identity", "Controller"

GET_PLUGIN_INFO = ReadOnlyMethod(_IDENTITY, csi.GetPluginInfoRequest, csi.GetPluginInfoResponse)
GET_PLUGIN_CAPABILITIES = ReadOnlyMethod(_IDENTITY, csi.GetPluginCapabilitiesRequest, csi.GetPluginCapabilitiesResponse)
PROBE = ReadOnlyMethod(_IDENTITY, csi.ProbeRequest, csi.ProbeResponse)
CONTROLLER_GET_CAPABILITIES = ReadOnlyMethod(
    _CONTROLLER, csi.ControllerGetCapabilitiesRequest, csi.ControllerGetCapabilitiesResponse
)
LIST_VOLUMES = ReadOnlyMethod(_CONTROLLER, csi.ListVolumesRequest, csi.ListVolumesResponse)
CONTROLLER_GET_VOLUME = ReadOnlyMethod(_CONTROLLER, csi.ControllerGetVolumeRequest, csi.ControllerGetVolumeResponse)
CONTROLLER_GET_VOLUME_HEALTH = ReadOnlyMethod(
    _CONTROLLER, csi.ControllerGetVolumeHealthRequest, csi.ControllerGetVolumeHealthResponse
)
CONTROLLER_LIST_VOLUME_HEALTH = ReadOnlyMethod(
    _CONTROLLER, csi.ControllerListVolumeHealthRequest, csi.ControllerListVolumeHealthResponse
)
