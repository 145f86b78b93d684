"""The CSI driver of one class, which is made to misbehave; the others have none.

Its volumes are directories. Everything that it is made to do is recorded, for the judge.
"""

import json
import time
from pathlib import Path
from typing import Final

from devcluster.cluster import DevCluster
from devcluster.driver.health import VolumeFault
from devcluster.driver.process import Driver
from devcluster.driver.volumes import break_volume, create_volume, make_well
from soak import terrain

PROBE_FLAGS: Final = ("--health-sweep-interval=5s", "--health-in-use-interval=2s", "--health-max-age=5s")
"""Of the controllers: the driver's volumes are probed often, because faults are short."""
DRIVER_RECORD: Final = "driver.jsonl"
_CAPACITY: Final = 3 * 1024**3
_FAULTS: Final = {
    "Degraded": VolumeFault.READ_ONLY,
    "Inaccessible": VolumeFault.UNREADABLE,
    "DataLoss": VolumeFault.GONE,
}
_MOODS: Final = ("hang", "flood", "lie")


class MoodyDriver:
    """Each line of `path` is a time and either what is the matter with the driver, or a volume and its state."""

    def __init__(self, process: Driver, root: Path, mood: Path, path: Path) -> None:
        self.process, self._root, self._mood = process, root, mood
        self._events = path.open("w", encoding="utf-8")

    @property
    def endpoint(self) -> str:
        """As for `--csi-endpoint`."""
        return f"{self.process.driver_name}={self.process.endpoint}"

    def begin(self, trouble: str) -> None:
        """Let it misbehave from now on: hang, flood, lie; pause and kill are only recorded."""
        if trouble in _MOODS:
            self._mood.write_text(trouble)
        self._record(trouble=trouble)

    def end(self) -> None:
        """Let it answer as it should."""
        self._mood.unlink(missing_ok=True)
        self._record(trouble="")

    def set_state(self, volume: str, state: str) -> None:
        """Make a volume unhealthy in that way, or healthy; OSError if its directory is in no state for that."""
        if state == "Healthy":
            make_well(self._root, volume)
        else:
            break_volume(self._root, volume, _FAULTS[state])
        self._record(volume=volume, state=state)

    def heal(self) -> None:
        """Make all volumes healthy."""
        for name in terrain.driven_volumes():
            self.set_state(name, "Healthy")

    def close(self) -> None:
        self._events.close()

    def _record(self, **event: str) -> None:
        self._events.write(json.dumps({"at": time.time(), **event}) + "\n")
        self._events.flush()


async def start_driver(cluster: DevCluster, path: Path) -> MoodyDriver:
    """Start the driver with a directory for each of its volumes."""
    root, mood = cluster.directory / "driven", cluster.directory / "mood"
    for class_name, number in terrain.volumes():
        if class_name == terrain.DRIVEN_CLASS:
            segment = terrain.segment(number)
            create_volume(root, terrain.volume_name(class_name, number), _CAPACITY, segment)
    process = await cluster.start_driver(terrain.DRIVER, root, flags=[f"--mood={mood}"])
    return MoodyDriver(process, root, mood, path)
