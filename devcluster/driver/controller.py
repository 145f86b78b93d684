"""The Identity and Controller services of the directory driver."""
# ruff: noqa: N802, ARG002  (gRPC gives the methods their names and arguments)

from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.wrappers_pb2 import BoolValue

from csi.proto import csi_v1_pb2 as csi
from csi.proto import csi_v1_pb2_grpc as services
from devcluster.driver.generation import CONTROLLER_CALLS, Generation, condition, volume_health
from devcluster.driver.room import Room
from devcluster.driver.volumes import Volume, create_volume, delete_volume, find_volume, volume_id_for, volume_ids

Context = grpc.aio.ServicerContext[Any, Any]

DEFAULT_CAPACITY: Final = 1024**3
VENDOR_VERSION: Final = "0.1.0"
_PAGE_TOKEN: Final = "after:"
_Mode = csi.VolumeCapability.AccessMode
_Rpc = csi.ControllerServiceCapability.RPC
_Service = csi.PluginCapability.Service
_Expansion = csi.PluginCapability.VolumeExpansion
_MODES: Final = frozenset({_Mode.SINGLE_NODE_WRITER, _Mode.SINGLE_NODE_READER_ONLY, _Mode.MULTI_NODE_MULTI_WRITER})
_ALWAYS: Final = (_Rpc.CREATE_DELETE_VOLUME, _Rpc.EXPAND_VOLUME, _Rpc.GET_CAPACITY)


class Identity(services.IdentityServicer):
    """Returns the driver's identity."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def GetPluginInfo(self, request: csi.GetPluginInfoRequest, context: Context) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self._name, vendor_version=VENDOR_VERSION)

    async def GetPluginCapabilities(
        self, request: csi.GetPluginCapabilitiesRequest, context: Context
    ) -> csi.GetPluginCapabilitiesResponse:
        kinds = (_Service.CONTROLLER_SERVICE, _Service.VOLUME_ACCESSIBILITY_CONSTRAINTS)
        grows = csi.PluginCapability(volume_expansion=_Expansion(type=_Expansion.ONLINE))
        return csi.GetPluginCapabilitiesResponse(
            capabilities=[*(csi.PluginCapability(service=_Service(type=kind)) for kind in kinds), grows]
        )

    async def Probe(self, request: csi.ProbeRequest, context: Context) -> csi.ProbeResponse:
        return csi.ProbeResponse(ready=BoolValue(value=True))


class Controller(services.ControllerServicer):
    """Creates, removes, finds and lists directories.

    By default they are in `segment`. They are created in any segment of the same keys, because for a directory the
    segment is only a label. `room` is how much they may have.
    """

    def __init__(self, root: Path, segment: dict[str, str], generation: Generation, room: Room | None = None) -> None:
        self._root, self._segment, self._generation = root, segment, generation
        self._room = room or Room(root)
        self._calls = (*_ALWAYS, *CONTROLLER_CALLS[generation])

    async def ControllerGetCapabilities(
        self, request: csi.ControllerGetCapabilitiesRequest, context: Context
    ) -> csi.ControllerGetCapabilitiesResponse:
        return csi.ControllerGetCapabilitiesResponse(
            capabilities=[csi.ControllerServiceCapability(rpc=_Rpc(type=kind)) for kind in self._calls]
        )

    async def CreateVolume(self, request: csi.CreateVolumeRequest, context: Context) -> csi.CreateVolumeResponse:
        if wrong := _wrong_request(request):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, wrong)
        wanted = request.capacity_range
        if 0 < wanted.limit_bytes < wanted.required_bytes:
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, "limit_bytes is less than required_bytes")
        volume_id = volume_id_for(request.name)
        volume = find_volume(self._root, volume_id)
        if volume is None:
            capacity = wanted.required_bytes or min(DEFAULT_CAPACITY, wanted.limit_bytes or DEFAULT_CAPACITY)
            segment = await self._segment_with(capacity, request.accessibility_requirements, context)
            volume = create_volume(self._root, volume_id, capacity, segment, request.name)
        elif not _satisfies(volume, request):
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, f"volume {request.name!r} differs")
        return csi.CreateVolumeResponse(volume=_described(volume))

    async def DeleteVolume(self, request: csi.DeleteVolumeRequest, context: Context) -> csi.DeleteVolumeResponse:
        if not request.volume_id:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "volume_id is missing")
        delete_volume(self._root, request.volume_id)
        return csi.DeleteVolumeResponse()

    async def ControllerExpandVolume(
        self, request: csi.ControllerExpandVolumeRequest, context: Context
    ) -> csi.ControllerExpandVolumeResponse:
        if not request.HasField("capacity_range"):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "capacity_range is missing")
        volume, wanted = await self._existing(request.volume_id, context), request.capacity_range
        if 0 < wanted.limit_bytes < max(wanted.required_bytes, volume.capacity):
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, f"volume {request.volume_id!r} cannot get smaller")
        capacity = max(volume.capacity, wanted.required_bytes)
        if lack := self._room.lacks(capacity, volume.segment, capacity - volume.capacity):
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, lack)
        create_volume(self._root, volume.volume_id, capacity, volume.segment, volume.name)
        return csi.ControllerExpandVolumeResponse(capacity_bytes=capacity)

    async def ValidateVolumeCapabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest, context: Context
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        if not request.volume_id or not request.volume_capabilities:
            missing = "volume_capabilities" if request.volume_id else "volume_id"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{missing} is missing")
        await self._existing(request.volume_id, context)
        if not all(_supported(capability) for capability in request.volume_capabilities):
            return csi.ValidateVolumeCapabilitiesResponse(message="only mounted file systems are supported")
        confirmed = csi.ValidateVolumeCapabilitiesResponse.Confirmed(
            volume_context=request.volume_context,
            volume_capabilities=request.volume_capabilities,
            parameters=request.parameters,
        )
        return csi.ValidateVolumeCapabilitiesResponse(confirmed=confirmed)

    async def ListVolumes(self, request: csi.ListVolumesRequest, context: Context) -> csi.ListVolumesResponse:
        await self._offered(_Rpc.LIST_VOLUMES, context)
        page, token = await self._page(request.max_entries, request.starting_token, context)
        status = csi.ListVolumesResponse.VolumeStatus
        entries = [
            csi.ListVolumesResponse.Entry(
                volume=_described(volume),
                status=status(volume_condition=condition(self._generation, self._root, volume)),
            )
            for volume in page
        ]
        return csi.ListVolumesResponse(entries=entries, next_token=token)

    async def ControllerGetVolume(
        self, request: csi.ControllerGetVolumeRequest, context: Context
    ) -> csi.ControllerGetVolumeResponse:
        await self._offered(_Rpc.GET_VOLUME, context)
        volume = await self._existing(request.volume_id, context)
        status = csi.ControllerGetVolumeResponse.VolumeStatus
        return csi.ControllerGetVolumeResponse(
            volume=_described(volume),
            status=status(volume_condition=condition(self._generation, self._root, volume)),
        )

    async def ControllerGetVolumeHealth(
        self, request: csi.ControllerGetVolumeHealthRequest, context: Context
    ) -> csi.ControllerGetVolumeHealthResponse:
        await self._offered(_Rpc.GET_VOLUME_HEALTH, context)
        volume = await self._existing(request.volume_id, context)
        return csi.ControllerGetVolumeHealthResponse(volume_health=volume_health(self._root, volume))

    async def ControllerListVolumeHealth(
        self, request: csi.ControllerListVolumeHealthRequest, context: Context
    ) -> csi.ControllerListVolumeHealthResponse:
        await self._offered(_Rpc.LIST_VOLUME_HEALTH, context)
        page, token = await self._page(request.max_entries, request.starting_token, context)
        # A page of volumes may hold fewer unhealthy ones, down to none.
        healths = (volume_health(self._root, volume) for volume in page)
        entries = [health for health in healths if health.health_statuses]
        return csi.ControllerListVolumeHealthResponse(entries=entries, next_token=token)

    async def GetCapacity(self, request: csi.GetCapacityRequest, context: Context) -> csi.GetCapacityResponse:
        segment = dict(request.accessible_topology.segments)
        if segment and not self._serves(segment):
            return csi.GetCapacityResponse(available_capacity=0)
        response = csi.GetCapacityResponse(available_capacity=self._room.free(segment or None))
        if self._room.largest is not None:
            response.maximum_volume_size.value = self._room.largest
        return response

    async def _offered(self, kind: csi.ControllerServiceCapability.RPC.Type, context: Context) -> None:
        if kind not in self._calls:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"generation {self._generation} has no such call")

    async def _page(self, max_entries: int, token: str, context: Context) -> tuple[list[Volume], str]:
        """Return the volumes of a page, and the token of the next one."""
        if max_entries < 0:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "max_entries is negative")
        if token and not token.startswith(_PAGE_TOKEN):
            await context.abort(grpc.StatusCode.ABORTED, f"starting_token {token!r} is unknown")
        # The token is an id and not a position: removing a volume between two pages moves none of the others.
        last = token.removeprefix(_PAGE_TOKEN)
        remaining = [volume_id for volume_id in volume_ids(self._root) if volume_id > last]
        page = remaining[: max_entries or None]
        volumes = [volume for volume_id in page if (volume := find_volume(self._root, volume_id))]
        return volumes, f"{_PAGE_TOKEN}{page[-1]}" if len(page) < len(remaining) else ""

    async def _existing(self, volume_id: str, context: Context) -> Volume:
        if not volume_id:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "volume_id is missing")
        volume = find_volume(self._root, volume_id)
        if volume is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"volume {volume_id!r} does not exist")
        return volume

    async def _segment_with(self, size: int, required: csi.TopologyRequirement, context: Context) -> dict[str, str]:
        """Return the first requested segment that is served and has room, our own if none is requested.

        As a driver does, it takes any of the requested ones: which node was selected only orders them, unless the
        provisioner runs with --strict-topology and requests that one alone.
        """
        demanded = [dict(topology.segments) for topology in (*required.preferred, *required.requisite)]
        lack = "no directories in the demanded topology"
        for segment in filter(self._serves, demanded or [self._segment]):
            lack = self._room.lacks(size, segment)
            if not lack:
                return segment
        return await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, lack)

    def _serves(self, segment: dict[str, str]) -> bool:
        return segment.keys() == self._segment.keys()


def _described(volume: Volume) -> csi.Volume:
    topology = [csi.Topology(segments=volume.segment)] if volume.segment else []
    return csi.Volume(volume_id=volume.volume_id, capacity_bytes=volume.capacity, accessible_topology=topology)


def _wrong_request(request: csi.CreateVolumeRequest) -> str:
    if not request.name:
        return "name is missing"
    if not request.volume_capabilities:
        return "volume_capabilities are missing"
    if not all(_supported(capability) for capability in request.volume_capabilities):
        return "only mounted file systems are supported"
    if request.HasField("volume_content_source"):
        return "volumes cannot be made from a volume_content_source"
    return "mutable_parameters are not supported" if request.mutable_parameters else ""


def _supported(capability: csi.VolumeCapability) -> bool:
    return not capability.HasField("block") and capability.access_mode.mode in _MODES


def _satisfies(volume: Volume, request: csi.CreateVolumeRequest) -> bool:
    wanted = request.capacity_range
    required = request.accessibility_requirements
    demanded = [dict(topology.segments) for topology in (*required.requisite, *required.preferred)]
    fits = wanted.required_bytes <= volume.capacity <= (wanted.limit_bytes or volume.capacity)
    return fits and (not demanded or not volume.segment or volume.segment in demanded)
