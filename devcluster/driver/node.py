"""The Node service of the directory driver. How it publishes is injected: see devcluster.driver.publishing."""
# ruff: noqa: N802, ARG002  (gRPC gives the methods their names and arguments)

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc

from csi.proto import csi_v1_pb2 as csi
from csi.proto import csi_v1_pb2_grpc as services
from devcluster.driver.controller import Context
from devcluster.driver.generation import Generation, condition, node_calls
from devcluster.driver.publishing import Publisher
from devcluster.driver.volumes import Volume, data_directory, find_volume, look_at

_Rpc = csi.NodeServiceCapability.RPC


@dataclass(frozen=True)
class Place:
    """A node, the segment it is in, and how many volumes it may have at once, 0 for any number."""

    node: str
    segment: Mapping[str, str]
    most_volumes: int = 0


class Node(services.NodeServicer):
    """Makes directories appear at a pod's paths on a node."""

    def __init__(self, root: Path, place: Place, generation: Generation, publisher: Publisher) -> None:
        self._root, self._place, self._generation = root, place, generation
        self._publisher = publisher

    async def NodeGetInfo(self, request: csi.NodeGetInfoRequest, context: Context) -> csi.NodeGetInfoResponse:
        place = self._place
        return csi.NodeGetInfoResponse(
            node_id=place.node,
            max_volumes_per_node=place.most_volumes,
            accessible_topology=csi.Topology(segments=place.segment),
        )

    async def NodeGetCapabilities(
        self, request: csi.NodeGetCapabilitiesRequest, context: Context
    ) -> csi.NodeGetCapabilitiesResponse:
        kinds = node_calls(self._generation)
        return csi.NodeGetCapabilitiesResponse(
            capabilities=[csi.NodeServiceCapability(rpc=_Rpc(type=kind)) for kind in kinds]
        )

    async def NodePublishVolume(
        self, request: csi.NodePublishVolumeRequest, context: Context
    ) -> csi.NodePublishVolumeResponse:
        if not request.HasField("volume_capability"):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "volume_capability is missing")
        volume = await self._existing(request.volume_id, request.target_path, "target_path", context)
        target, directory = Path(request.target_path), data_directory(self._root, volume.volume_id)
        if problem := self._publisher.publish(directory, target, request.readonly):
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, problem)
        return csi.NodePublishVolumeResponse()

    async def NodeUnpublishVolume(
        self, request: csi.NodeUnpublishVolumeRequest, context: Context
    ) -> csi.NodeUnpublishVolumeResponse:
        if not request.volume_id or not request.target_path:
            missing = "target_path" if request.volume_id else "volume_id"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{missing} is missing")
        self._publisher.unpublish(data_directory(self._root, request.volume_id), Path(request.target_path))
        return csi.NodeUnpublishVolumeResponse()

    async def NodeGetVolumeStats(
        self, request: csi.NodeGetVolumeStatsRequest, context: Context
    ) -> csi.NodeGetVolumeStatsResponse:
        volume = await self._existing(request.volume_id, request.volume_path, "volume_path", context)
        if not self._publisher.is_published(data_directory(self._root, volume.volume_id), Path(request.volume_path)):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"not published at {request.volume_path}")
        used = look_at(self._root, volume.volume_id).used
        usage = csi.VolumeUsage(
            unit=csi.VolumeUsage.BYTES,
            total=volume.capacity,
            used=used,
            available=max(0, volume.capacity - used),
        )
        health = condition(self._generation, self._root, volume)
        return csi.NodeGetVolumeStatsResponse(usage=[usage], volume_condition=health)

    async def _existing(self, volume_id: str, path: str, field: str, context: Context) -> Volume:
        """Return the volume of a request that must name it and a path."""
        if not volume_id or not path:
            missing = field if volume_id else "volume_id"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{missing} is missing")
        volume = find_volume(self._root, volume_id)
        if volume is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"volume {volume_id!r} does not exist")
        return volume
