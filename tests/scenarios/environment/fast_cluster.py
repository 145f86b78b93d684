"""A control plane whose PV controller and kube-scheduler have no client limits: both are at full speed."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from devcluster.control_plane.lifted_limits import LIFTED_CONFIGURATION, LIFTED_FLAGS
from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.world import World


@asynccontextmanager
async def fast_cluster(nodes: Sequence[NodeSpec]) -> AsyncIterator[World]:
    """Yield a world on a control plane of its own that has these nodes; it is not open yet."""
    flags = {"kube-controller-manager": LIFTED_FLAGS}
    async with (
        DevCluster(Options(flags=flags, scheduler_configuration=LIFTED_CONFIGURATION)) as cluster,
        Admin(cluster) as admin,
    ):
        await cluster.add_nodes(nodes)
        yield World(cluster, admin)
