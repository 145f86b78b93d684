"""Pools of storage: the directory driver with a limit on each node, and external-provisioner beside it.

There is one provisioner, so it needs no Lease, which a busy machine would lose again and again. If it ends by itself,
`revive` starts it again, as the kubelet would.
"""

from contextlib import suppress
from typing import Final

from devcluster.cluster import DevCluster
from devcluster.driver.process import Driver
from devcluster.errors import ClusterError
from devcluster.processes.component import Component
from soak import terrain
from soak.stage.client import Client

_FLAGS: Final = (
    *("--leader-election=false", "--strict-topology", "--enable-capacity", "--capacity-ownerref-level=-1"),
    *("--capacity-poll-interval=5s", "--kube-api-capacity-qps=50"),
)


class Pools:
    """The two processes."""

    def __init__(self, driver: Driver, provisioner: Component) -> None:
        self.driver, self.provisioner = driver, provisioner
        self._disturbed = False

    async def disturb(self) -> None:
        """Kill the provisioner until `recover`."""
        self._disturbed = True
        await self.provisioner.kill()

    async def recover(self) -> None:
        self._disturbed = False
        await self.revive()

    async def revive(self) -> None:
        """Start the provisioner if it has ended by itself; without an API server it may end again."""
        if not self._disturbed and not self.provisioner.running:
            with suppress(ClusterError):
                await self.provisioner.start()


async def start_pools(cluster: DevCluster, client: Client) -> Pools:
    """Create the class and what belongs to it, and start both."""
    await client.create(*terrain.pool_driver())
    flags = [f"--segment-capacity={terrain.POOL_GI * 1024**3}"]
    driver = await cluster.start_driver(terrain.POOL_DRIVER, topology={terrain.HOSTNAME: "none"}, flags=flags)
    return Pools(driver, await cluster.start_sidecar("csi-provisioner", *_FLAGS, driver=driver))
