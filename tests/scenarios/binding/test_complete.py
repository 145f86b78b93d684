"""Mode complete beside the PV controller: whichever is faster, the objects end up as the PV controller leaves them."""

import asyncio
import re
from contextlib import AsyncExitStack

import pytest

from tests.scenarios.environment.bindings import as_kubernetes_binds, comparable, pairs
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import account, start_controller
from tests.scenarios.processes.proxy import Proxy, Write

BIND = (
    "persistentvolumes/{}",
    "persistentvolumes/{}/status",
    "persistentvolumeclaims/data",
    "persistentvolumeclaims/data/status",
)


@pytest.mark.parametrize("last", range(1, 5))
async def test_killed_after_any_of_the_four_writes_the_pv_controller_finishes(own_world: World, last: int) -> None:
    world, cluster = own_world, own_world.cluster
    expected = await as_kubernetes_binds(world)
    disks = await world.storage_class("complete")
    (chosen, _) = await world.volumes(disks, *(world.volume(f"v{n}", disks, zone="zone-a") for n in range(2)))
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(Proxy(cluster))
        kubeconfig = proxy.kubeconfig_for(await account(cluster))
        controller = await start_controller(world, kubeconfig=kubeconfig)

        killed = asyncio.Event()

        async def kill(write: Write) -> None:
            if write.number == last:
                proxy.sever()
                await controller.kill()
                killed.set()

        proxy.after_write = kill
        # Stopped until the kill, so that every one of the writes is ours.
        cluster.controller_manager.pause()
        stack.callback(cluster.controller_manager.resume)
        async with world.scheduler_paused():
            await world.pod("app", {"data": claim_spec(disks)}, gated=True)
            await eventually(lambda: short_writes(proxy), lambda seen: len(seen) == last, f"{last} writes")
            assert await short_writes(proxy) == [(path.format(chosen), 200) for path in BIND[:last]]
            await asyncio.wait_for(killed.wait(), 30)
            cluster.controller_manager.resume()
            await eventually(world.bound, lambda bound: "data" in bound, "the PV controller finishes the bind")
        # Nobody is left to lift the gate.
        await world.admin.patch("Pod", "app", {"spec": {"schedulingGates": None}}, world.namespace)
        await world.all_run("app")
    bound_pairs = await pairs(world)
    assert comparable(*bound_pairs["data"]) == expected
    assert (await world.bound())["data"] == chosen


async def short_writes(proxy: Proxy) -> list[tuple[str, int]]:
    """What was written, from the plural on, and how it was answered."""
    within = re.compile(r"^/api/v1/(namespaces/[^/]+/)?")
    return [(within.sub("", write.call.path), write.status) for write in proxy.writes]
