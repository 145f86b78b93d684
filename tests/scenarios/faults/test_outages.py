"""The API server or etcd goes away in the middle of the work and comes back; the controller is not restarted."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

import pytest
import pytest_asyncio

from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from devcluster.control_plane.nodes import spread
from devcluster.processes.component import Component
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.final_state import settled
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World, lived_in
from tests.scenarios.processes.controller import Controller, account, apply_manifests, start_controller
from tests.scenarios.processes.proxy import Proxy, Write


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fragile() -> AsyncIterator[DevCluster]:
    """A control plane of its own, which the stories of others do not have to share."""
    async with DevCluster(Options()) as cluster:
        await cluster.add_nodes(spread(3))
        await apply_manifests(cluster)
        yield cluster


async def crash(component: Component) -> None:
    await component.kill()
    await component.start()


OUTAGES: dict[str, Callable[[DevCluster], Awaitable[None]]] = {
    "apiserver-restart": lambda cluster: cluster.apiserver.restart(),
    "apiserver-crash": lambda cluster: crash(cluster.apiserver),
    "etcd-restart": lambda cluster: cluster.etcd.restart(),
    "etcd-crash": lambda cluster: crash(cluster.etcd),
}


@dataclass(frozen=True, slots=True)
class Harmed:
    world: World
    proxy: Proxy
    replicas: list[Controller]
    classes: Mapping[str, str]


@pytest.mark.cluster
async def test_an_outage_in_the_middle_of_the_work(fragile: DevCluster) -> None:
    """Two replicas. Each outage begins after the third write for four pods that wait.

    All classes exist before the first one: the PV controller binds the claims of a class that its watch has not shown
    yet as if it were Immediate (IsDelayBindingMode in component-helpers/storage/volume/pv_helpers.go).
    """
    async with Admin(fragile) as admin, lived_in(World(fragile, admin)) as world, Proxy(fragile) as proxy:
        kubeconfig = proxy.kubeconfig_for(await account(fragile))
        replicas = [await start_controller(world, kubeconfig=kubeconfig) for _ in range(2)]
        modes = {case: "complete" if "etcd" in case else "prebind" for case in OUTAGES}
        classes = {case: await world.storage_class(mode, case) for case, mode in modes.items()}
        for case, outage in OUTAGES.items():
            await survives(Harmed(world, proxy, replicas, classes), case, outage)
        assert all(replica.component.running for replica in replicas)
        for replica in replicas:
            await replica.stop()
            assert "Traceback" not in replica.log()


async def survives(harmed: Harmed, case: str, outage: Callable[[DevCluster], Awaitable[None]]) -> None:
    world, proxy, disks = harmed.world, harmed.proxy, harmed.classes[case]
    pods = {f"{case}-{number}": [f"{case}-{number}-{word}" for word in ("data", "log")] for number in range(4)}
    claims = [claim for each in pods.values() for claim in each]
    await world.volumes(disks, *(world.volume(claim, disks, zone="zone-a") for claim in claims))
    begun = len(proxy.writes)

    async def strike(write: Write) -> None:
        """While the third write is not answered nothing else is written."""
        if write.number == begun + 3:
            await outage(world.cluster)
            proxy.after_write = None

    proxy.after_write = strike
    for replica in harmed.replicas:  # so that the outage comes when all pods are there
        replica.pause()
    for pod, each in pods.items():
        await world.pod(pod, {claim: claim_spec(disks) for claim in each}, gated=True)
    for replica in harmed.replicas:
        replica.resume()
    await eventually(lambda: progress(harmed, begun), lambda seen: seen["over"], f"{case} happened", 120)
    await settled(world, claims, *pods)
    assert await world.violations() == []


async def progress(harmed: Harmed, begun: int) -> dict[str, object]:
    """Whether the outage is over; where it does not come, what was written and logged says why."""
    return {
        "over": harmed.proxy.after_write is None,
        "etcd runs": harmed.world.cluster.etcd.running,
        "written": [f"{write.call.method} {write.call.path}: {write.status}" for write in harmed.proxy.writes[begun:]],
        "called": [f"{call.method} {call.path}" for call in harmed.proxy.calls[-10:]],
        "logged": [line[:200] for each in harmed.replicas for line in each.component.log_tail().splitlines()[-6:]],
    }
