"""The directory driver in the cluster: a privileged pod on the node, and its volumes seen from this machine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from devcluster.cluster import DevCluster
from devcluster.driver.volumes import create_volume
from tests.e2e.installation import SECONDS, rolled_out
from tests.scenarios.environment.admin import Admin, Document
from tests.scenarios.environment.documents import HOSTNAME
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.sidecars.installation import CAPACITY

NAME: Final = "directory.csi.example"
NAMESPACE: Final = "directory-driver"
_MANIFEST: Final = Path(__file__).with_name("directory_driver.yaml")
_GIBIBYTE: Final = 1024**3


class Driver:
    """Makes volumes for stories. `root` is where they lie on this machine."""

    def __init__(self, root: Path, name: str = NAME) -> None:
        self.root, self.name = root, name

    def volume(self, world: World, word: str, storage_class: str, **how: Any) -> Document:
        """Make a directory and return the PersistentVolume for it."""
        create_volume(self.root, world.name(word), _GIBIBYTE, {"topology.kubernetes.io/zone": "zone-a"})
        return world.volume(word, storage_class, driver=self.name, zone="zone-a", **how)


async def install_driver(cluster: DevCluster) -> Driver:
    """Install it; return when the kubelet knows it."""
    return await _installed(cluster, _MANIFEST.read_text(encoding="utf-8"), NAMESPACE, NAME)


@asynccontextmanager
async def installed_as(
    cluster: DevCluster, name: str, *, attached: bool = False, limit: int = 0
) -> AsyncIterator[Driver]:
    """Install it once more under another name; with `attached` its volumes have to be attached, without an attacher.

    `limit` is how many of its volumes the node may have at once, 0 for any number.
    """
    namespace, text = _manifest_as(name)
    text = text.replace("attachRequired: false", f"attachRequired: {str(attached).lower()}")
    text = text.replace("- --publish=mount", f"- --publish=mount\n            - --max-volumes={limit}")
    yield await _installed(cluster, text, namespace, name)
    await cluster.run_kubectl("delete", "-f", "-", given=text)


@asynccontextmanager
async def pool(cluster: DevCluster, name: str, gibibytes: int) -> AsyncIterator[Driver]:
    """Install it once more for volumes on this node only, at most so much in all, and external-provisioner for it.

    As with many drivers its controller is not the node plugin: it is a process of this machine, over the same
    directory.
    """
    namespace, text = _manifest_as(name)
    text = text.replace("topology.kubernetes.io/zone=zone-a", f"{HOSTNAME}=$(NODE)")
    text = text.replace("attachRequired: false", "attachRequired: false\n  storageCapacity: true")
    driver = await _installed(cluster, text, namespace, name)
    limit = f"--segment-capacity={gibibytes * _GIBIBYTE}"
    controller = await cluster.start_driver(name, root=driver.root, topology={HOSTNAME: "none"}, flags=(limit,))
    provisioner = await cluster.start_sidecar("csi-provisioner", *CAPACITY, "--strict-topology", driver=controller)
    try:
        yield driver
    finally:
        await provisioner.stop()
        await controller.stop()
        await cluster.run_kubectl("delete", "-f", "-", given=text)


def _manifest_as(name: str) -> tuple[str, str]:
    """Return the namespace and the manifest of the driver under another name."""
    namespace = name.replace(".", "-")
    return namespace, _MANIFEST.read_text(encoding="utf-8").replace(NAME, name).replace(NAMESPACE, namespace)


async def _installed(cluster: DevCluster, text: str, namespace: str, name: str) -> Driver:
    await cluster.run_kubectl("apply", "-f", "-", given=text)
    await rolled_out(cluster, "daemonset/node", namespace)
    async with Admin(cluster) as admin:
        await eventually(partial(registered, admin, name), bool, f"the kubelet has registered {name}", SECONDS)
    return Driver(cluster.node.volumes / name, name)


async def registered(admin: Admin, name: str) -> bool:
    """Whether the kubelet knows a driver of that name."""
    node = await admin.find("CSINode", "node-1")
    return node is not None and name in [driver["name"] for driver in node["spec"]["drivers"] or ()]
