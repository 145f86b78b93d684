"""Where the standalone scheduler puts pods of every kind, judged by a checker that shares no rule with it."""

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path

import pytest_asyncio

from bench.placement.checker import violations
from bench.placement.cluster import read
from devcluster.cluster import DevCluster
from devcluster.processes.ports import LOOPBACK, free_ports
from devcluster.processes.probes import answers_ok
from tests.scenarios.environment.documents import HOSTNAME, Document
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import SYSTEM, Controller, apply_manifests
from tests.scenarios.scheduler.mixed_pods import Crowd, no_more_than, nodes_of_its_own, waiting

ACCOUNT = LEASE = "pvc-prebinder-scheduler"
_numbers = count(1)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def account(cluster: DevCluster) -> Path:
    """A kubeconfig with the rights that the component grants."""
    await apply_manifests(cluster, ["scheduler"])
    return await cluster.kubeconfig_for_service_account(SYSTEM, ACCOUNT)


@asynccontextmanager
async def replica(world: World, kubeconfig: Path) -> AsyncIterator[Controller]:
    """One process of the story's scheduler, which answers to the namespace's name."""
    address, name = f"{LOOPBACK}:{free_ports(1)[0]}", f"scheduler-{next(_numbers)}"
    command = [sys.executable, "-m", "prebinder.cli", "scheduler", f"--name={world.namespace}"]
    command += [f"--kubeconfig={kubeconfig}", f"--annotation-prefix={world.prefix}"]
    command += [f"--lease-namespace={SYSTEM}", f"--lease-name={LEASE}"]
    command += [f"--metrics-bind-address={address}", f"--health-bind-address={address}"]
    component = await world.cluster.start_component(name, command, lambda: answers_ok(f"http://{address}/readyz"))
    try:
        yield Controller(component, address, address)
    finally:
        await component.stop()


async def leader(*replicas: Controller) -> Controller:
    """Wait until one of them leads."""

    async def leading() -> list[Controller]:
        return [replica for replica in replicas if await replica.metric("leader_election_master_status")]

    return (await eventually(leading, bool, "one leads"))[0]


async def wrong(world: World) -> list[str]:
    async with world.cluster.api() as api:
        return violations(await read(api), lambda pod: pod["metadata"]["namespace"] == world.namespace)


async def test_a_leader_is_killed_while_it_places_pods_of_every_kind(own_world: World, account: Path) -> None:
    disks = await own_world.storage_class(None)
    volumes = [own_world.volume(f"pv-{n}", disks, zone=f"zone-{'abc'[n % 3]}") for n in range(20)]
    crowd = Crowd(own_world, own_world.namespace)
    anchor, *near = crowd.together(20)
    pods = [
        *crowd.stored(20, disks),
        *near,
        *crowd.spread(60),
        *crowd.alone(15),
        *crowd.listening(15),
        *crowd.batch(40),
        *crowd.choosy(10),
        *crowd.plain(120),
    ]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(nodes_of_its_own(own_world))
        await own_world.volumes(disks, *volumes)
        first, second = [await stack.enter_async_context(replica(own_world, account)) for _ in range(2)]
        leading = await leader(first, second)
        # Who dies before it has assigned a pod may have assigned others that go by that one's place; so does
        # kube-scheduler. The one that others go by is therefore assigned before anybody dies.
        await own_world.admin.create(anchor)
        await no_more_than(own_world, 0)
        await own_world.admin.create_at_once(pods)
        assert await no_more_than(own_world, 200) > 0, "nothing was left for the other one"
        await leading.kill()
        # What time does after a crash, at once: nobody can write under the Lease of the dead.
        await own_world.admin.patch("Lease", LEASE, {"spec": {"holderIdentity": ""}}, SYSTEM)
        await no_more_than(own_world, 0)
        await eventually(lambda: wrong(own_world), lambda problems: not problems, "all placements are right")


async def test_a_kube_scheduler_places_other_pods_on_the_same_nodes_meanwhile(own_world: World, account: Path) -> None:
    """There is room for some more: nothing keeps two schedulers from assigning the last one at the same time."""
    pods = []
    for crowd, port in ((Crowd(own_world, own_world.namespace), 9100), (Crowd(own_world, ""), 9200)):
        pods += [*crowd.batch(20), *crowd.choosy(10), *crowd.plain(90, cpu="250m"), *crowd.listening(15, port)]
    async with nodes_of_its_own(own_world), replica(own_world, account) as alone:
        await leader(alone)
        await own_world.admin.create_at_once(pods)
        await no_more_than(own_world, 0)
        assert await wrong(own_world) == []


async def test_a_node_that_fills_up_while_volumes_are_bound_is_given_up(own_world: World, account: Path) -> None:
    """The pod's volumes take their time; kube-scheduler, which cannot know of the pod, takes its place meanwhile."""
    disks = await own_world.storage_class(None)
    ours, theirs = Crowd(own_world, own_world.namespace), Crowd(own_world, "")
    claim, database = ours.stored(1, disks)
    (rival,) = theirs.plain(1, cpu="3")
    for pod in (database, rival):
        pod["spec"]["nodeSelector"] = {HOSTNAME: own_world.name("1")}
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
    names = [pod["metadata"]["name"] for pod in (database, rival)]

    async def chosen() -> bool:
        return any(volume["spec"].get("claimRef") for volume in (await own_world.own_volumes()).values())

    async def rejections() -> list[Document]:
        events = await own_world.admin.list("Event", own_world.namespace)
        return [
            event for event in events if (event["reason"], event["regarding"]["name"]) == ("FailedScheduling", names[0])
        ]

    async with nodes_of_its_own(own_world), replica(own_world, account) as alone:
        await leader(alone)
        await own_world.volumes(disks, own_world.volume("pv", disks))
        async with own_world.pv_controller_paused():
            await own_world.admin.create(claim, database)
            await eventually(chosen, bool, "a volume is chosen, and waited for")
            await own_world.admin.create(rival)
            await no_more_than(own_world, 1)
        await eventually(rejections, bool, "it is told that there is no room")
        assert await waiting(own_world.cluster, own_world.namespace) == names[:1]
        await own_world.admin.delete("Pod", names[1], own_world.namespace)
        await no_more_than(own_world, 0)
        assert await wrong(own_world) == []
