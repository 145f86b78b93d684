"""500 pairs at once in mode complete beside a PV controller without limits: the objects end up as it leaves them.

Three times, each on a control plane of its own, where nothing else happens and the PV controller is at full speed.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment.bindings import as_kubernetes_binds, comparable, pairs
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.fast_cluster import fast_cluster
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import apply_manifests, start_controller

PAIRS = 500
SECONDS = 240


@pytest_asyncio.fixture
async def hurried() -> AsyncIterator[World]:
    async with fast_cluster([NodeSpec(f"node-{n}", "zone-a", pods=PAIRS) for n in range(2)]) as world:
        await apply_manifests(world.cluster)
        await world.open()
        yield world


async def as_kube_scheduler_binds(world: World) -> dict[str, object]:
    """Let kube-scheduler choose and the PV controller bind, and return what they leave."""
    theirs = await world.storage_class("off", "later")
    await world.volumes(theirs, world.volume("late", theirs, zone="zone-a"))
    await world.pod("late", {"late": claim_spec(theirs)})
    await world.all_run("late")
    bound_pairs = await pairs(world)
    return comparable(*bound_pairs["late"])


@pytest.mark.timeout(900)
async def test_they_end_up_as_kubernetes_leaves_them(hurried: World) -> None:
    world = hurried
    expected = await as_kubernetes_binds(world)
    assert expected == await as_kube_scheduler_binds(world)
    controller = await start_controller(world)
    disks = await world.storage_class("complete")
    await world.volumes(disks, *(world.volume(f"v{n}", disks, zone="zone-a") for n in range(PAIRS)))
    names = [f"app-{number}" for number in range(PAIRS)]
    documents = [each for name in names for each in world.pod_documents(name, {name: claim_spec(disks)}, gated=True)]
    await world.admin.create_at_once(documents)
    await eventually(world.bound, lambda bound: set(names) <= set(bound), "all claims are bound", SECONDS)
    await world.all_run(*names, seconds=SECONDS)
    bound_pairs = await pairs(world)
    different = {name: comparable(*bound_pairs[name]) for name in names if comparable(*bound_pairs[name]) != expected}
    assert len(different) == 0, f"{len(different)} differ; {next(iter(different.items()))} instead of {expected}"
    assert await world.violations() == []
    await controller.stop()
