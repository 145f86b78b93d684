"""What each container takes, by its cgroup, after 10,000 volumes and 10,000 claims: `python -m tests.e2e.footprint`.

The manifests' requests and limits are set from this. $PVC_PREBINDER_IMAGE names the archive, as for the stories.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from tests.e2e.conftest import ARCHIVE
from tests.e2e.installation import install, rolled_out
from tests.e2e.test_agent import NAME as SIDECAR
from tests.e2e.test_agent import driver_with_agent, volumes_of_driver
from tests.e2e.test_scheduling import install_extender
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.documents import claim, claim_spec, storage_class, volume

NUMBER = 10_000
_BATCH = 1000
_REST_SECONDS = 40
_MEBIBYTE = 2**20


@dataclass(frozen=True)
class Usage:
    """What one container has in memory that cannot be dropped, in bytes, and its processor time so far, in seconds."""

    memory: int
    seconds: float


async def main(archive: Path) -> None:
    """Install base, extender, scheduler and a driver with an agent, fill the cluster, and print a table."""
    async with DevCluster(Options(kwok=False, real_node=True)) as cluster:
        await cluster.node.load(archive)
        await install(cluster)
        await install_extender(cluster, cluster.directory / "extender", "scheduler")
        await rolled_out(cluster, "deployment/pvc-prebinder-scheduler")
        volumes_of_driver(cluster, *map(handle_of, range(NUMBER)))
        async with driver_with_agent(cluster), Admin(cluster) as admin:
            await asyncio.sleep(_REST_SECONDS)
            empty = await usage(cluster)
            peak = await fill(cluster, admin)
            await asyncio.sleep(_REST_SECONDS)
            full = await usage(cluster)
            await asyncio.sleep(_REST_SECONDS)
            rested = await usage(cluster)
    sys.stdout.write("container | empty | most while filling | full | processor while filling | at rest, full\n")
    for name, before in empty.items():
        rest = (rested[name].seconds - full[name].seconds) / _REST_SECONDS
        memory = (before.memory, peak[name], full[name].memory)
        shown = " | ".join(f"{each / _MEBIBYTE:.0f} MiB" for each in memory)
        sys.stdout.write(f"{name} | {shown} | {full[name].seconds - before.seconds:.1f} s | {rest * 1000:.0f}m\n")


def handle_of(number: int) -> str:
    return f"v{number}"


async def fill(cluster: DevCluster, admin: Admin) -> Mapping[str, int]:
    """Create the volumes and claims; return the most memory that each container was seen with."""
    await admin.create(storage_class("disks", "complete"))
    peak: dict[str, int] = {}
    for first in range(0, NUMBER, _BATCH):
        numbers = range(first, first + _BATCH)
        await admin.create_at_once(
            volume(handle_of(number), "disks", zone="zone-a", driver=SIDECAR) for number in numbers
        )
        spec = claim_spec("disks")
        await admin.create_at_once(claim("default", f"c{number}", spec) for number in numbers)
        for name, used in (await usage(cluster)).items():
            peak[name] = max(peak.get(name, 0), used.memory)
    return peak


async def usage(cluster: DevCluster) -> dict[str, Usage]:
    """Return what the kubelet reads in the cgroups of all containers, by pod and container."""
    async with cluster.api() as api:
        summary = await api.get("/api/v1/nodes/node-1/proxy/stats/summary?only_cpu_and_memory=true")
    return {
        f"{pod['podRef']['name']}/{container['name']}": usage_of(container)
        for pod in summary["pods"]
        for container in pod.get("containers", ())
    }


def usage_of(container: Mapping[str, Any]) -> Usage:
    memory = container.get("memory", {}).get("workingSetBytes", 0)
    return Usage(memory, container.get("cpu", {}).get("usageCoreNanoSeconds", 0) / 1e9)


if __name__ == "__main__":
    asyncio.run(main(Path(os.environ[ARCHIVE])))
