"""Makes a driver misbehave for as long as a file says so: it hangs, floods its client, or lies about its volumes.

The file contains one of the words of `Mood`; without the file the driver answers as it should.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from random import SystemRandom
from typing import Any, Final

import grpc

from csi.proto import csi_v1_pb2 as csi

_FLOOD_BYTES: Final = 3 * 1024 * 1024
_SEGMENTS: Final = 2_000
_CHANCE: Final = 0.3
"""Of a lie, for each volume in each answer."""

Handler = Any
"""An RpcMethodHandler, which is generic in the stubs only."""


class Mood(StrEnum):
    """How it misbehaves."""

    HANG = "hang"
    FLOOD = "flood"
    LIE = "lie"


class Moody(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Reads the file at each call. Only calls that read are affected, and of these not what identifies the driver."""

    def __init__(self, file: Path) -> None:
        self._file, self._throw = file, SystemRandom()

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]], details: grpc.HandlerCallDetails
    ) -> Handler:
        handler = await continuation(details)
        method = details.method.rpartition("/")[2]
        if method not in ("ControllerGetVolume", "ListVolumes", "Probe"):
            return handler

        async def behave(request: Any, context: Any) -> Any:
            mood = self._mood()
            if mood is Mood.HANG:
                await asyncio.Event().wait()
            if method == "Probe":
                return await handler.unary_unary(request, context)
            if mood is Mood.FLOOD:
                return _flood(method, request)
            answer = await handler.unary_unary(request, context)
            if mood is Mood.LIE:
                self._lie(answer)
            return answer

        return grpc.unary_unary_rpc_method_handler(behave, handler.request_deserializer, handler.response_serializer)

    def _mood(self) -> Mood | None:
        try:
            return Mood(self._file.read_text().strip())
        except (FileNotFoundError, ValueError):
            return None

    def _lie(self, answer: csi.ControllerGetVolumeResponse | csi.ListVolumesResponse) -> None:
        for each in [answer] if isinstance(answer, csi.ControllerGetVolumeResponse) else answer.entries:
            if self._throw.random() >= _CHANCE:
                continue
            condition = each.status.volume_condition
            condition.abnormal = not condition.abnormal
            del each.volume.accessible_topology[:]
            each.volume.accessible_topology.add(segments={"topology.kubernetes.io/zone": "elsewhere"})


def _flood(method: str, request: Any) -> Any:
    if method == "ListVolumes":
        return csi.ListVolumesResponse(next_token="t" * _FLOOD_BYTES)
    topology = [csi.Topology(segments={f"key-{each}": "x" * 1000}) for each in range(_SEGMENTS)]
    return csi.ControllerGetVolumeResponse(volume=csi.Volume(volume_id=request.volume_id, accessible_topology=topology))
