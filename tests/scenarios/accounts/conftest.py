"""A cluster in which all accounts are limited."""

from collections.abc import AsyncIterator

import pytest_asyncio
import yaml

from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from devcluster.control_plane.nodes import spread
from soak.stage.rights import rendered
from tests.scenarios.accounts.policies_in_force import policies_in_force
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.documents import PREFIX
from tests.scenarios.environment.world import World, lived_in
from tests.scenarios.processes.controller import COMPONENTS, MANIFESTS


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
            await policies_in_force(cluster, admin)
            disks = await world.storage_class(None, "probe")
            await world.volumes(disks, world.volume("probe", disks))
            yield world
