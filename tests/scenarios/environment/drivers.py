"""Two kinds of CSI driver behind one face: ours, of directories, and the Go mock of Kubernetes' end-to-end tests."""

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Protocol

from devcluster.cluster import DevCluster
from devcluster.driver.generation import Generation
from devcluster.driver.health import VolumeFault
from devcluster.driver.process import Driver
from devcluster.driver.volumes import break_volume, create_volume, make_well
from tests.scenarios.environment.documents import ZONE

CAPACITY = 1024**3
MOCK_VOLUMES = 200


class Backing(Protocol):
    """Where volumes come from. Handles are new each time."""

    driver: Driver

    def healthy(self, zone: str) -> str:
        """Return the handle of a volume that is well and lies in that zone."""

    def unhealthy(self, zone: str) -> str:
        """Return the handle of a volume that is not well."""


class Directories:
    """Volumes of the directory driver. `root` is where they lie."""

    def __init__(self, driver: Driver, root: Path) -> None:
        self.driver, self.root = driver, root
        self._numbers = count(1)

    def healthy(self, zone: str) -> str:
        handle = f"v{next(self._numbers)}"
        create_volume(self.root, handle, CAPACITY, {ZONE: zone})
        return handle

    def unhealthy(self, zone: str, fault: VolumeFault = VolumeFault.GONE) -> str:
        handle = self.healthy(zone)
        break_volume(self.root, handle, fault)
        return handle

    def break_volume(self, handle: str, fault: VolumeFault) -> None:
        break_volume(self.root, handle, fault)

    def recover(self, handle: str) -> None:
        make_well(self.root, handle)


class Mock:
    """Volumes of the mock driver: it knows ids from "1" on, says nothing of topology, and calls others not found."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._known: Iterator[int] = iter(range(1, MOCK_VOLUMES + 1))
        self._unknown = count(1)

    def healthy(self, zone: str) -> str:
        return str(next(self._known))

    def unhealthy(self, zone: str) -> str:
        return f"nowhere-{next(self._unknown)}"


async def start_directories(
    cluster: DevCluster, name: str, generation: Generation = Generation.CONDITION, flags: Sequence[str] = ()
) -> Directories:
    root = cluster.directory / f"volumes-{name}"
    driver = await cluster.start_driver(name, root, {ZONE: "zone-a"}, generation, flags=flags)
    return Directories(driver, root)


async def start_mock(cluster: DevCluster, name: str) -> Mock:
    return Mock(await cluster.start_mock_driver(name, MOCK_VOLUMES))


def endpoint_flag(driver: Driver) -> str:
    return f"--csi-endpoint={driver.driver_name}={driver.endpoint}"
