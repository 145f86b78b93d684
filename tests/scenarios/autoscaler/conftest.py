"""A cluster of this room's own: a node with room in zone-d, and Karpenter."""

from collections.abc import AsyncIterator

import pytest_asyncio

from devcluster.cluster import DevCluster
from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.autoscaler.karpenter import start_karpenter
from tests.scenarios.environment.admin import Admin
from tests.scenarios.processes.controller import COMPONENTS, apply_manifests


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster() -> AsyncIterator[DevCluster]:
    """One node, in zone-d; Karpenter adds the others."""
    async with DevCluster() as cluster:
        await cluster.add_nodes([NodeSpec("d1", "zone-d")])
        async with Admin(cluster) as admin:
            await start_karpenter(cluster, admin)
            yield cluster


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def rights(cluster: DevCluster) -> None:
    """The rights as shipped, with the component that lets the controller read NodePools."""
    await apply_manifests(cluster, (*COMPONENTS, "karpenter"))
