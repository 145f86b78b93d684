"""What an answer may contain, checked before anything of it is read: each function raises TooLarge if it has more."""

from collections.abc import Collection

from csi.client.channel import TooLarge
from csi.client.size_limits import (
    MAP_BYTES,
    MAX_CAPABILITIES,
    MAX_FOREIGN_ID_BYTES,
    MAX_HEALTH_ENTRIES,
    MAX_SEGMENTS,
    STRING_BYTES,
    TOPOLOGY_BYTES,
)
from csi.health.size_limit import SizeLimit
from csi.proto import csi_v1_pb2 as csi


def check_volume(volume: csi.Volume) -> None:
    """Check where the volume is accessible. Fields that are never read are limited by the size of the answer only."""
    topology = volume.accessible_topology
    if len(topology) > MAX_SEGMENTS:
        raise TooLarge(SizeLimit.TOPOLOGY, f"a volume has {len(topology)} topology segments, {MAX_SEGMENTS} allowed")
    sizes = [segment.ByteSize() for segment in topology]
    if sum(sizes) > TOPOLOGY_BYTES:
        raise TooLarge(SizeLimit.TOPOLOGY, f"the topology of a volume has {sum(sizes)} bytes, {TOPOLOGY_BYTES} allowed")
    for segment, size in zip(topology, sizes, strict=True):
        # On the wire a map is larger than what it contains, never smaller.
        if size > MAP_BYTES and (content := _content(segment)) > MAP_BYTES:
            raise TooLarge(SizeLimit.TOPOLOGY, f"a topology segment has {content} bytes, {MAP_BYTES} allowed")


def check_health(health: csi.VolumeHealth) -> None:
    """Check the number of entries."""
    count = len(health.health_statuses)
    if count > MAX_HEALTH_ENTRIES:
        detail = f"the health of a volume has {count} entries, {MAX_HEALTH_ENTRIES} allowed"
        raise TooLarge(SizeLimit.HEALTH_ENTRIES, detail)


def check_count(capabilities: Collection[object]) -> None:
    """Check the number of capabilities. The specification knows about twenty."""
    if len(capabilities) > MAX_CAPABILITIES:
        detail = f"the driver announces {len(capabilities)} capabilities, {MAX_CAPABILITIES} allowed"
        raise TooLarge(SizeLimit.CAPABILITIES, detail)


def check_token(token: str) -> None:
    """Check a page token, which is kept to notice repetitions and sent back."""
    size = len(token.encode())
    if size > STRING_BYTES:
        raise TooLarge(SizeLimit.PAGE_TOKEN, f"a page token has {size} bytes, {STRING_BYTES} allowed")


def check_foreign(volume_id: str) -> None:
    """Check the identifier of a volume that has no PersistentVolume. One that has may be as long as it is there."""
    size = len(volume_id.encode())
    if size > MAX_FOREIGN_ID_BYTES:
        detail = f"the identifier of a volume has {size} bytes, {MAX_FOREIGN_ID_BYTES} allowed unless its volume has it"
        raise TooLarge(SizeLimit.VOLUME_ID, detail)


def _content(topology: csi.Topology) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in topology.segments.items())
