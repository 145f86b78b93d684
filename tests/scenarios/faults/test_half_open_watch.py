"""A network that carries requests and no longer what the watches bring: the API server says which pods have a node."""

from pathlib import Path

import pytest_asyncio

from devcluster.cluster import DevCluster
from devcluster.control_plane.nodes import NodeSpec, is_schedulable
from tests.controller_process import running
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.scheduler_pods import pod, rejected
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import SYSTEM, apply_manifests
from tests.scenarios.processes.proxy import Call, Proxy
from tests.scenarios.processes.scheduler_process import ACCOUNT, flags, is_leading, stopped


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def account(cluster: DevCluster) -> Path:
    """A kubeconfig with the rights that the component grants."""
    await apply_manifests(cluster, ["scheduler"])
    return await cluster.kubeconfig_for_service_account(SYSTEM, ACCOUNT)


def of_assigned_pods(call: Call) -> bool:
    """Whether it is the watch of the pods that have a node."""
    return call.watches and call.path == "/api/v1/pods" and "spec.nodeName!" in call.query


async def test_no_node_is_overcommitted_while_a_watch_is_half_open(
    cluster: DevCluster, own_world: World, account: Path
) -> None:
    """Two pods fill a node, and no watch shows them there."""
    node = own_world.name("island")
    taint = {"key": node, "effect": "NoSchedule"}
    own_nodes = {"nodeSelector": {"story": node}, "tolerations": [{"key": node, "operator": "Exists"}]}

    def half(name: str) -> Document:
        return pod(own_world, name, cpu="2", **own_nodes)

    await own_world.admin.create(NodeSpec(node, "zone-a", "4", labels={"story": node}, taints=(taint,)).manifest())
    await eventually(lambda: own_world.admin.get("Node", node), is_schedulable, "the node is ready")
    async with (
        Proxy(cluster) as proxy,
        running("scheduler", proxy.kubeconfig_for(account), *flags(own_world)) as process,
    ):
        await is_leading(process)
        proxy.silent = of_assigned_pods
        await own_world.admin.create(half("first"), half("second"))
        await own_world.all_run("first", "second")
        await own_world.admin.create(half("early"))
        await rejected(own_world, "early", "1 Insufficient cpu")

        async def looked_up() -> set[str]:
            names = {call.path.rpartition("/")[2] for call in proxy.calls if call.method == "GET"}
            return names & {"first", "second"}

        # By then the scheduler has waited for the watch for longer than it believes its own assignments.
        await eventually(looked_up, {"first", "second"}.__eq__, "both are asked about", 90)
        await own_world.admin.create(half("late"))
        await rejected(own_world, "late", "1 Insufficient cpu")
        assert "nodeName" not in (await own_world.pods())["early"]["spec"]
        # What was read counts like what a watch shows: a pod that is deleted makes room once the watch is back.
        await own_world.admin.delete("Pod", "first", own_world.namespace)
        proxy.silent = None
        proxy.drop_watches()
        await eventually(
            own_world.pod_phases,
            lambda phases: [phases["early"], phases["late"]].count("Running") == 1,
            "one of them gets the room",
        )
        await stopped(process)
    await own_world.admin.delete_all("Pod", own_world.namespace)
