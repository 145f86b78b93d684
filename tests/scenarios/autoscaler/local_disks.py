"""A driver that makes volumes on the disk of one node, played by the test on the nodes that Karpenter launches."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.running_task import running
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import HOSTNAME
from tests.scenarios.environment.provisioner import selected
from tests.scenarios.environment.world import World

_STORAGE: Final = "storage.k8s.io/v1"
_POOL: Final = "karpenter.sh/nodepool"


@dataclass
class LocalDisks:
    """Each node of the pool has a disk of so many GiB, which is reported some seconds after the node has come.

    `left` is what each disk that was reported has left; `rejected` are claims for which that was too little.
    """

    world: World
    pool: str
    driver: str
    storage_class: str
    size: int
    report_after: float
    left: dict[str, int] = field(default_factory=dict)
    rejected: set[str] = field(default_factory=set)
    _came: dict[str, float] = field(default_factory=dict)
    _made: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Report disks and make volumes until cancelled."""
        while True:
            for node in await self.world.admin.list("Node"):
                name, now = node["metadata"]["name"], time.monotonic()
                is_ours = node["metadata"]["labels"].get(_POOL) == self.pool and name not in self.left
                if is_ours and now >= self._came.setdefault(name, now) + self.report_after:
                    await self._report(node)
            for name, claim in (await self.world.claims()).items():
                is_ours = claim["spec"]["storageClassName"] == self.storage_class
                if is_ours and selected(claim) and name not in self._made:
                    await self._make(name, claim)
            await asyncio.sleep(0.2)

    async def _report(self, node: Document) -> None:
        name, hostname = node["metadata"]["name"], node["metadata"]["labels"][HOSTNAME]
        self.left[name] = self.size
        entry = {"name": self.driver, "nodeID": name, "topologyKeys": [HOSTNAME]}
        about = {"apiVersion": _STORAGE, "kind": "CSINode", "metadata": {"name": name}}
        await self.world.admin.create({**about, "spec": {"drivers": [entry]}})
        metadata = {"name": f"on-{name}", "namespace": self.world.namespace}
        capacity = {"apiVersion": _STORAGE, "kind": "CSIStorageCapacity", "metadata": metadata}
        free = {"storageClassName": self.storage_class, "capacity": f"{self.size}Gi"}
        await self.world.admin.create({**capacity, **free, "nodeTopology": {"matchLabels": {HOSTNAME: hostname}}})

    async def _make(self, name: str, claim: Document) -> None:
        host, metadata, spec = selected(claim) or "", claim["metadata"], claim["spec"]
        wanted = spec["resources"]["requests"]["storage"]
        size = int(wanted.removesuffix("Gi"))
        if self.left.get(host, 0) < size:
            self.rejected.add(name)
            return
        self._made.add(name)
        self.left[host] -= size
        node = await self.world.admin.get("Node", host)
        where = node["metadata"]["labels"][HOSTNAME]
        volume = self.world.volume(name, spec["storageClassName"], node=where, size=wanted, reclaim_policy="Delete")
        volume["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": self.driver}
        reference = {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
        volume["spec"]["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference}
        await self.world.admin.create(volume)
        left = {"capacity": f"{self.left[host]}Gi"}
        await self.world.admin.patch("CSIStorageCapacity", f"on-{host}", left, self.world.namespace)


@asynccontextmanager
async def local_disks(
    world: World, pool: str, *, size: int, report_after: float, mode: str = "provision"
) -> AsyncIterator[LocalDisks]:
    """A class of such a driver, which states what new nodes bring. No other node than those of the pool has a disk."""
    driver = world.name(f"{pool}.csi.example")
    spec = {"attachRequired": False, "storageCapacity": True}
    await world.admin.create({"apiVersion": _STORAGE, "kind": "CSIDriver", "metadata": {"name": driver}, "spec": spec})
    made = await world.storage_class(mode, f"local-{pool}", provisioner=driver)
    words = {f"{world.prefix}new-nodes": "join-volumes", f"{world.prefix}new-node-storage": f"{size}Gi"}
    await world.admin.patch("StorageClass", made, {"metadata": {"annotations": words}})
    disks = LocalDisks(world, pool, driver, made, size, report_after)
    try:
        async with running(disks.run()) as driver_runs:
            yield disks
            assert not driver_runs.done(), driver_runs.exception()
    finally:
        for node in disks.left:
            await world.admin.delete("CSINode", node)
        await world.admin.delete("CSIDriver", driver)
