"""A CSI driver that gives any response, on a real gRPC server, and records every call."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message

from csi.proto import csi_v1_pb2 as csi

Rpc = csi.ControllerServiceCapability.RPC
Service = csi.PluginCapability.Service
NAME = "scripted.csi.example"


class Rejected(Exception):
    """Makes a call fail with that status."""

    def __init__(self, code: grpc.StatusCode, details: str = "") -> None:
        super().__init__(code, details)
        self.code, self.details = code, details


Script = Callable[[bytes], Awaitable[Message | bytes | None]]
"""A response: from the bytes of the request to a message, or to arbitrary bytes; None for the status OK without a
message. May raise Rejected.
"""


def gives(answer: Message | bytes | Rejected | None) -> Script:
    async def script(request: bytes) -> Message | bytes | None:
        if isinstance(answer, Rejected):
            raise answer
        return answer

    return script


async def hangs(request: bytes) -> Message:
    await asyncio.Event().wait()
    raise AssertionError("an event that nobody sets was set")


def volume_answer(
    volume_id: str, *, abnormal: bool | None = False, message: str = "", zones: Iterable[str] = ()
) -> csi.ControllerGetVolumeResponse:
    """A response to ControllerGetVolume; `abnormal=None` omits the condition."""
    condition = None if abnormal is None else csi.VolumeCondition(abnormal=abnormal, message=message)
    return csi.ControllerGetVolumeResponse(
        volume=csi.Volume(
            volume_id=volume_id, accessible_topology=[csi.Topology(segments={"zone": zone}) for zone in zones]
        ),
        status=csi.ControllerGetVolumeResponse.VolumeStatus(volume_condition=condition),
    )


async def healthy(request: bytes) -> Message:
    return volume_answer(csi.ControllerGetVolumeRequest.FromString(request).volume_id)


def health_answer(
    volume_id: str, *entries: tuple[int, str] | tuple[int, str, str]
) -> csi.ControllerGetVolumeHealthResponse:
    """A response to ControllerGetVolumeHealth; each entry is a status, a reason and optionally a message."""
    return csi.ControllerGetVolumeHealthResponse(volume_health=volume_health(volume_id, *entries))


def volume_health(volume_id: str, *entries: tuple[int, str] | tuple[int, str, str]) -> csi.VolumeHealth:
    statuses = [
        csi.VolumeHealth.VolumeHealthEntry(status=status, reason=reason, message="".join(message))  # type: ignore[arg-type]
        for status, reason, *message in entries
    ]
    return csi.VolumeHealth(volume_id=volume_id, health_statuses=statuses)


async def without_problem(request: bytes) -> Message:
    return health_answer(csi.ControllerGetVolumeHealthRequest.FromString(request).volume_id)


def listed_volume(volume_id: str, *, abnormal: bool | None = False, message: str = "") -> Message:
    """An entry of ListVolumes: on the wire the same as a response to ControllerGetVolume."""
    return csi.ListVolumesResponse.Entry.FromString(
        volume_answer(volume_id, abnormal=abnormal, message=message).SerializeToString()
    )


def volumes_answer(*volume_ids: str) -> csi.ListVolumesResponse:
    return csi.ListVolumesResponse(entries=[listed_volume(volume_id) for volume_id in volume_ids])  # type: ignore[misc]


class ScriptedDriver:
    """Serves on a socket; `script` holds the response to each method by its short name and may change at any time."""

    def __init__(
        self,
        socket: Path,
        *,
        name: str = NAME,
        services: Iterable[int] = (Service.CONTROLLER_SERVICE, Service.VOLUME_ACCESSIBILITY_CONSTRAINTS),
        rpcs: Iterable[int] = (Rpc.GET_VOLUME, Rpc.VOLUME_CONDITION),
        script: Mapping[str, Script] | None = None,
        compression: grpc.Compression = grpc.Compression.NoCompression,
    ) -> None:
        self.socket, self.name = socket, name
        self._compression = compression
        self.calls: list[str] = []
        self.script: dict[str, Script] = {
            "GetPluginInfo": gives(csi.GetPluginInfoResponse(name=name)),
            "GetPluginCapabilities": gives(_plugin_capabilities(services)),
            "ControllerGetCapabilities": gives(_controller_capabilities(rpcs)),
            "Probe": gives(csi.ProbeResponse()),
            "ControllerGetVolume": healthy,
            "ControllerGetVolumeHealth": without_problem,
            "ControllerListVolumeHealth": gives(csi.ControllerListVolumeHealthResponse()),
            "ListVolumes": gives(volumes_answer("v")),
            **(script or {}),
        }
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        self._server = grpc.aio.server(compression=self._compression)
        self._server.add_generic_rpc_handlers((_Everything(self._answer),))
        self._server.add_insecure_port(f"unix://{self.socket}")
        await self._server.start()

    async def start_on_tcp(self, credentials: grpc.ServerCredentials) -> int:
        """Serve on loopback instead, and return the port."""
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((_Everything(self._answer),))
        port = self._server.add_secure_port("127.0.0.1:0", credentials)
        await self._server.start()
        return port

    async def stop(self) -> None:
        assert self._server is not None, "the driver was not started"
        await self._server.stop(0)

    async def __aenter__(self) -> "ScriptedDriver":
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def _answer(self, path: str, request: bytes, context: Any) -> bytes | None:
        self.calls.append(path)
        script = self.script.get(path.rpartition("/")[2])
        if script is None:
            script = gives(Rejected(grpc.StatusCode.UNIMPLEMENTED, path))
        try:
            answer = await script(request)
        except Rejected as rejected:
            await context.abort(rejected.code, rejected.details)
        return answer.SerializeToString() if isinstance(answer, Message) else answer


class _Everything(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in the stubs only
    """Routes every method of every service to one function."""

    def __init__(self, answer: Callable[[str, bytes, Any], Awaitable[bytes | None]]) -> None:
        self._answer = answer

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        async def behave(request: bytes, context: Any) -> AsyncIterator[bytes]:
            answer = await self._answer(handler_call_details.method, request, context)
            if answer is not None:
                yield answer

        # A stream, because a unary handler always sends a message.
        return grpc.unary_stream_rpc_method_handler(behave)


def _plugin_capabilities(services: Iterable[int]) -> Message:
    return csi.GetPluginCapabilitiesResponse(
        capabilities=[csi.PluginCapability(service=Service(type=kind)) for kind in services]  # type: ignore[arg-type]
    )


def _controller_capabilities(rpcs: Iterable[int]) -> Message:
    return csi.ControllerGetCapabilitiesResponse(
        capabilities=[csi.ControllerServiceCapability(rpc=Rpc(type=kind)) for kind in rpcs]  # type: ignore[arg-type]
    )
