"""The directory driver in the cluster: a privileged pod on the node, and its volumes seen from this machine."""

from pathlib import Path
from typing import Any, Final

from devcluster.cluster import DevCluster
from devcluster.driver.volumes import create_volume
from tests.e2e.installation import SECONDS, rolled_out
from tests.scenarios.environment.admin import Admin, Document
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

NAME: Final = "directory.csi.example"
_MANIFEST: Final = Path(__file__).with_name("directory_driver.yaml")
_GIBIBYTE: Final = 1024**3


class Driver:
    """Makes volumes for stories. `root` is where they lie on this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def volume(self, world: World, word: str, storage_class: str, **how: Any) -> Document:
        """Make a directory and return the PersistentVolume for it."""
        create_volume(self.root, world.name(word), _GIBIBYTE, {"topology.kubernetes.io/zone": "zone-a"})
        return world.volume(word, storage_class, driver=NAME, zone="zone-a", **how)


async def install_driver(cluster: DevCluster) -> Driver:
    """Install it; return when the kubelet knows it."""
    await cluster.run_kubectl("apply", "-f", str(_MANIFEST))
    await rolled_out(cluster, "daemonset/node", "directory-driver")
    async with Admin(cluster) as admin:
        await eventually(
            lambda: admin.find("CSINode", "node-1"),
            lambda node: node and NAME in [driver["name"] for driver in node["spec"]["drivers"] or ()],
            f"the kubelet has registered {NAME}",
            SECONDS,
        )
    return Driver(cluster.node.volumes / NAME)
