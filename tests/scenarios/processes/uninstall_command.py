"""The real command `pvc-prebinder uninstall`, and a cluster in which it has something to remove."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path

from devcluster.driver.health import VolumeFault
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.drivers import Directories, endpoint_flag, start_directories
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import SYSTEM, start_controller

CHANGING = ("generation", "resourceVersion", "managedFields", "uid", "creationTimestamp")


@asynccontextmanager
async def own_driver(world: World) -> AsyncIterator[Directories]:
    driver = await start_directories(world.cluster, f"{world.namespace}.csi.example")
    yield driver
    await driver.driver.stop()


async def uninstall(world: World, account: Path, *flags: str) -> tuple[int, str, str]:
    """Run the command with the story's prefix; the Lease is looked for where the story's controllers have it."""
    command = [sys.executable, "-m", "prebinder.cli", "uninstall", f"--kubeconfig={account}"]
    command += [f"--annotation-prefix={world.prefix}", f"--lease-namespace={world.namespace}", *flags]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=os.environ
    )
    out, error = await process.communicate()
    return process.returncode or 0, out.decode(), error.decode()


async def state(world: World) -> dict[str, Document]:
    """Everything of the story that we may write, without what every write changes."""
    objects = {
        "volume": await world.own_volumes(),
        "claim": await world.claims(),
        "pod": await world.pods(),
    }
    return {
        f"{kind} {name}": _stripped(document) for kind, named in objects.items() for name, document in named.items()
    }


def _stripped(document: Document) -> Document:
    kept = deepcopy(document)
    for key in CHANGING:
        kept["metadata"].pop(key, None)
    if not kept["metadata"].get("annotations"):
        kept["metadata"].pop("annotations", None)
    kept.pop("status")
    return kept


async def lease_read_right(world: World) -> None:
    """manifests/uninstall lets its account read the Leases in pvc-prebinder-system; the story has its own namespace."""
    who = {"kind": "ServiceAccount", "name": "pvc-prebinder-uninstall", "namespace": SYSTEM}
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}
    group, metadata = "rbac.authorization.k8s.io", {"name": "uninstall", "namespace": world.namespace}
    await world.admin.create(
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "uninstall"},
            "subjects": [who],
        },
    )


async def arrange(world: World, mode: str, driver: Directories) -> tuple[str, str]:
    """Two volumes, one pod whose claim fits one of them, and one pod that no volume is large enough for.

    No scheduler takes the pods, so only the controller writes. Returns the volume that is healthy, and the
    other one's handle.
    """
    disks = await world.storage_class(mode)
    handles = {word: driver.healthy("zone-a") for word in ("good", "lost")}
    name = driver.driver.driver_name
    made = [world.volume(word, disks, zone="zone-a", driver=name, handle=handle) for word, handle in handles.items()]
    await world.volumes(disks, *made)
    nobody = {"schedulerName": "nobody"}
    await world.pod("app", {"data": claim_spec(disks)}, gated=True, extra=nobody)
    await world.pod("big", {"big": claim_spec(disks, "1Ti")}, gated=True, extra=nobody)
    return world.name("good"), handles["lost"]


async def marked(world: World, handle: str, driver: Directories) -> None:
    """Have a controller reserve, reject and quarantine; it is gone afterwards."""
    driver.break_volume(handle, VolumeFault.GONE)
    flags = ("--quarantine", "--health-sweep-interval=1s", "--health-max-age=1s", endpoint_flag(driver.driver))
    controller = await start_controller(world, *flags)
    key = f"{world.prefix}quarantine"
    await eventually(
        world.own_volumes,
        lambda volumes: key in volumes[world.name("lost")]["metadata"].get("annotations", {}),
        "the lost volume is in quarantine",
    )
    reserved = f"{world.prefix}reserved-for"
    await eventually(
        world.own_volumes,
        lambda volumes: reserved in volumes[world.name("good")]["metadata"].get("annotations", {}),
        "one pod has a reserved volume",
    )
    await world.event("StaticOnlyNoMatch", "big")
    await controller.stop()
