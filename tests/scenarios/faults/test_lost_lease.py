"""Two replicas: one leads, and the one that has lost the Lease writes nothing, not even what it had begun."""

import asyncio
from dataclasses import dataclass

from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.final_state import settled
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import Controller, account, start_controller
from tests.scenarios.processes.proxy import Call, Proxy, Write

PODS = ("one", "two", "three")
SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Replica:
    proxy: Proxy
    controller: Controller

    async def leads(self) -> bool:
        return await self.controller.metric("leader_election_master_status") == 1

    def written(self) -> list[Call]:
        return [call for call in self.proxy.calls if call.writes]


async def start_replica(world: World, proxy: Proxy) -> Replica:
    return Replica(proxy, await start_controller(world, kubeconfig=proxy.kubeconfig_for(await account(world.cluster))))


async def wanting(world: World, disks: str, *pods: str) -> list[str]:
    """Create these pods, each with two claims, and volumes for them; return the names of the claims."""
    claims = {pod: [f"{pod}-data", f"{pod}-log"] for pod in pods}
    names = [name for each in claims.values() for name in each]
    await world.volumes(disks, *(world.volume(name, disks, zone="zone-a") for name in names))
    for pod, each in claims.items():
        await world.pod(pod, {claim: claim_spec(disks) for claim in each}, gated=True)
    return names


async def test_a_paused_holder_wakes_up_after_its_time_and_does_not_write(own_world: World) -> None:
    world = own_world
    disks = await world.storage_class("complete")
    async with Proxy(world.cluster) as first, Proxy(world.cluster) as second:
        leader = await start_replica(world, first)
        await eventually(leader.leads, bool, "the first replica leads", SECONDS)
        standby = await start_replica(world, second)
        stopped = asyncio.Event()

        async def stop_at_first(write: Write) -> None:
            """Its other pods' writes wait behind this one, and go out only if it sends them again."""
            if write.number == 1:
                leader.controller.pause()
                first.sever()
                stopped.set()

        first.after_write = stop_at_first
        claims = await wanting(world, disks, *PODS)
        async with asyncio.timeout(SECONDS):
            await stopped.wait()
        assert await world.violations() == []
        await settled(world, claims, *PODS)
        assert await standby.leads()

        first.after_write = None
        first.mend()
        before, asleep = len(leader.written()), len(first.calls)
        leader.controller.resume()
        await eventually(leader.leads, lambda leads: not leads, "the one that was paused knows that it lost", SECONDS)
        await eventually(
            lambda: lease_reads(first, asleep), lambda reads: reads >= 2, "it stands by and looks at the Lease", SECONDS
        )
        assert leader.written()[before:] == []
        assert await world.violations() == []

        await standby.controller.stop()
        await eventually(leader.leads, bool, "it takes over again", SECONDS)
        await settled(world, await wanting(world, disks, "four"), "four")
        assert leader.written()[before:] != []
        await leader.controller.stop()
        assert "Traceback" not in leader.controller.log() + standby.controller.log()


async def lease_reads(proxy: Proxy, since: int) -> int:
    return sum(call.method == "GET" and "/leases/" in call.path for call in proxy.calls[since:])


async def test_of_two_replicas_one_writes_and_the_other_follows_it_when_it_is_killed(own_world: World) -> None:
    world = own_world
    disks = await world.storage_class("prebind")
    async with Proxy(world.cluster) as first, Proxy(world.cluster) as second:
        leader = await start_replica(world, first)
        await eventually(leader.leads, bool, "the first replica leads", SECONDS)
        standby = await start_replica(world, second)
        await settled(world, await wanting(world, disks, "one"), "one")
        assert standby.written() == []
        await leader.controller.kill()
        claims = await wanting(world, disks, "two")
        await settled(world, claims, "two")
        assert await standby.leads()
        await standby.controller.stop()
