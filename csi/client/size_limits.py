"""How large an answer of a driver may be, and its parts: what the CSI specification limits, as it limits it, and what
it leaves open.

The specification, "Size Limits": 128 bytes for a string and 4 KiB for a map, unless a field's description says
otherwise; none of the fields read here does. Enforced is what is kept or sent back: page tokens, topology segments,
identifiers of volumes that no PersistentVolume has. Texts for people (reasons, messages, errors) are cut instead:
drivers in use exceed 128 bytes, and KEP-1432 allows 1,024.
"""

import json
from collections.abc import Mapping
from typing import Final

from csi.client.readonly import (
    CONTROLLER_GET_VOLUME,
    CONTROLLER_GET_VOLUME_HEALTH,
    CONTROLLER_LIST_VOLUME_HEALTH,
    LIST_VOLUMES,
)

STRING_BYTES: Final = 128
MAP_BYTES: Final = 4096
MAX_SEGMENTS: Final = 256
"""Topology segments of a volume, together at most 64 KiB: the specification sets no number, and a PersistentVolume that
repeated so many in its node affinity would not fit into etcd much longer."""
TOPOLOGY_BYTES: Final = 64 * 1024
MAX_HEALTH_ENTRIES: Final = 256
MAX_CAPABILITIES: Final = 1000
MAX_FOREIGN_ID_BYTES: Final = 1024
"""Bytes of the identifier of a volume without PersistentVolume, which is compared and never kept. More than the
specification allows, because drivers in use exceed that: the resource IDs of Azure's disks have 150 to 300 bytes."""

PAGE_BYTES: Final = 4 * 1024 * 1024
"""A page of a list: the default limit of gRPC, which every other client of the driver has."""
VOLUME_BYTES: Final = 512 * 1024
"""A volume: it may name every node that it is published on, 5,000 with 100 bytes each."""
SMALL_BYTES: Final = 64 * 1024
"""Any other answer."""
METADATA_BYTES: Final = 16 * 1024
"""Headers and trailers, in which errors arrive."""
LIST_BYTES: Final = 256 * 1024 * 1024
"""All pages of a list: 500,000 volumes with 500 bytes each."""

_SIZES: Final[Mapping[str, int]] = {
    LIST_VOLUMES.path: PAGE_BYTES,
    CONTROLLER_LIST_VOLUME_HEALTH.path: PAGE_BYTES,
    CONTROLLER_GET_VOLUME.path: VOLUME_BYTES,
    CONTROLLER_GET_VOLUME_HEALTH.path: VOLUME_BYTES,
}


def answer_bytes(path: str) -> int:
    """Return the limit for the answers of a method."""
    return _SIZES.get(path, SMALL_BYTES)


def service_config() -> str:
    """Return the limits for gRPC, which stops receiving an answer as soon as its length is announced."""
    configs = [_method_config({}, SMALL_BYTES)]
    for path, size in _SIZES.items():
        _, service, method = path.split("/")
        configs.append(_method_config({"service": service, "method": method}, size))
    return json.dumps({"methodConfig": configs})


def _method_config(name: Mapping[str, str], size: int) -> Mapping[str, object]:
    return {"name": [name], "maxResponseMessageBytes": size}
