"""How much the directory driver may hold: in all, in each segment of its topology, and in one volume."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devcluster.driver.volumes import Volume, find_volume, volume_ids


@dataclass(frozen=True, slots=True)
class Room:
    """Limits in bytes, None for none: of all volumes together, of those of each segment, and of a single volume.

    A limit of each segment makes one driver a set of node-local pools, as a driver with one instance on each node has.
    """

    root: Path
    capacity: int | None = None
    segment_capacity: int | None = None
    largest: int | None = None

    def free(self, segment: Mapping[str, str] | None) -> int:
        """Return the bytes left in a segment, for None in the whole driver."""
        volumes = list(self._volumes()) if self.capacity is not None or self.segment_capacity is not None else []
        left = [] if self.capacity is None else [self.capacity - sum(volume.capacity for volume in volumes)]
        if self.segment_capacity is not None and segment is not None:
            there = sum(volume.capacity for volume in volumes if volume.segment == segment)
            left.append(self.segment_capacity - there)
        return max(0, min(left)) if left else shutil.disk_usage(self.root).free

    def lacks(self, size: int, segment: Mapping[str, str] | None, more: int | None = None) -> str:
        """Return why a volume of this size cannot be there, or grow by `more` to it; empty if it can.

        Without a limit sizes are only noted: no directory is as large as its volume.
        """
        if self.largest is not None and size > self.largest:
            return f"{size} bytes wanted, a volume may have {self.largest}"
        if self.capacity is None and self.segment_capacity is None:
            return ""
        wanted, free = size if more is None else more, self.free(segment)
        return f"{wanted} bytes wanted, {free} are free" if wanted > free else ""

    def _volumes(self) -> list[Volume]:
        volumes = (find_volume(self.root, volume_id) for volume_id in volume_ids(self.root))
        return [volume for volume in volumes if volume is not None]
