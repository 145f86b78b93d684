"""A cluster in which all accounts are limited."""

from collections.abc import AsyncIterator
from functools import partial
from itertools import count
from typing import Final

import pytest_asyncio
import yaml

from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from devcluster.control_plane.nodes import spread
from soak.stage.rights import rendered
from tests.scenarios.accounts.stolen_token import SCHEDULER, UNINSTALL, Thief
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.documents import PREFIX
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World, lived_in
from tests.scenarios.processes.controller import ACCOUNT, COMPONENTS, MANIFESTS

_attempts: Final = count()
"""Every one of them would change something: what changes nothing breaks no limit."""


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def limited() -> AsyncIterator[World]:
    """A world in which all accounts are limited. The policies name the default annotation prefix and gate, so the
    cluster is one without the controller that other stories share: it would lift the gates.
    """
    async with DevCluster(Options()) as cluster, Admin(cluster) as admin:
        await cluster.add_nodes(spread(6))
        built = await rendered(cluster, (*COMPONENTS, "scheduler", "account-limits"))
        job = yaml.safe_load_all(await cluster.run_kubectl("kustomize", str(MANIFESTS / "uninstall")))
        built += [document for document in job if document["kind"] != "Job"]
        await cluster.run_kubectl("apply", "-f", "-", given=yaml.safe_dump_all(built))
        async with lived_in(World(cluster, admin, PREFIX)) as world:
            await eventually(partial(in_force, world), bool, "the policies are in force")
            yield world


async def in_force(world: World) -> bool:
    """The API server takes a policy up some time after it is stored."""
    disks = await world.admin.find("StorageClass", world.name("probe")) or await world.storage_class(None, "probe")
    if await world.admin.find("PersistentVolume", world.name("probe")) is None:
        await world.admin.create(world.volume("probe", disks if isinstance(disks, str) else world.name("probe")))
    body = {"metadata": {"labels": {"stolen": f"time-{next(_attempts)}"}}}
    rejections = [
        await Thief(world.cluster, who).patch("PersistentVolume", world.name("probe"), body)
        for who in (ACCOUNT, SCHEDULER, UNINSTALL)
    ]
    return all("pvc-prebinder" in rejection for rejection in rejections)
