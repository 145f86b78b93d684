"""The controller is killed right after each single write; started again, it ends where it would have ended anyway."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from types import MappingProxyType
from typing import Final

import pytest

from devcluster.cluster import DevCluster
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.final_state import SECONDS, clean, settled
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World, lived_in
from tests.scenarios.processes.controller import Controller, account, release_lease, start_controller
from tests.scenarios.processes.proxy import Proxy, Write

MODES = ("annotate", "prebind", "complete")
MAX_ROUNDS = 15
"""No story has so many writes, lost races included."""
SURE: Final = MappingProxyType({"annotate": 3, "prebind": 3, "complete": 2})
"""Writes that are ours in any case; of those of a bind the PV controller may be the first with all but the volumes'."""


class Mortal:
    """A controller behind a proxy that kills it when told, and the stories of one mode, one after the other."""

    def __init__(self, world: World, proxy: Proxy, controller: Controller, mode: str) -> None:
        self.world, self.mode = world, mode
        self._proxy, self._controller = proxy, controller
        self._numbers = count(1)

    async def crash_after(self, nth: int, meanwhile: Callable[[World, str], Awaitable[None]]) -> bool:
        """Let a pod want two volumes, kill the controller after its nth write, do something, start it again.

        Return whether there were that many writes. At the end all that is wanted is bound and nothing is left over.
        """
        world, pod = self.world, f"app-{next(self._numbers)}"
        killed = self._kill_after(nth)
        claims = await self._wanting_two(pod)
        settling = asyncio.create_task(settled(world, claims, pod))
        dying = asyncio.create_task(killed.wait())
        await asyncio.wait({settling, dying}, return_when=asyncio.FIRST_COMPLETED)
        # After the last write all is settled, and it may be the one after which the controller is just being killed.
        await self._proxy.answered()
        if not killed.is_set():
            dying.cancel()
            await settling
            return False
        settling.cancel()
        assert await world.violations() == []
        await meanwhile(world, pod)
        await revive(world, self._proxy, self._controller)
        left = await world.claims()
        await settled(world, [claim for claim in claims if claim in left], *await world.pods())
        assert await world.violations() == []
        return True

    def _kill_after(self, nth: int) -> asyncio.Event:
        killed = asyncio.Event()
        last = len(self._proxy.writes) + nth

        async def kill(write: Write) -> None:
            if write.number == last:
                self._proxy.sever()
                await self._controller.kill()
                killed.set()

        self._proxy.after_write = kill
        return killed

    async def _wanting_two(self, pod: str) -> list[str]:
        """Zone a has one volume more than is needed, zone b one less."""
        world = self.world
        disks = await world.storage_class(self.mode, pod)
        zones = ("zone-a", "zone-a", "zone-a", "zone-b")
        await world.volumes(
            disks, *(world.volume(f"{pod}-{place}", disks, zone=zone) for place, zone in enumerate(zones))
        )
        claims = [f"{pod}-data", f"{pod}-log"]
        await world.pod(pod, {claim: claim_spec(disks) for claim in claims}, gated=True)
        return claims


async def revive(world: World, proxy: Proxy, controller: Controller) -> None:
    proxy.after_write = None
    proxy.mend()
    await release_lease(world)
    await controller.start()


async def nothing(world: World, pod: str) -> None:
    """Leave everything as it is."""


async def user_gives_up(world: World, pod: str) -> None:
    """Delete the pod and its claims."""
    await world.admin.delete("Pod", pod, world.namespace)
    await eventually(world.pods, lambda pods: pod not in pods, "the pod is gone")
    for claim in await world.claims():
        if claim.startswith(f"{pod}-"):
            await world.admin.delete("PersistentVolumeClaim", claim, world.namespace)
    await eventually(
        world.claims, lambda claims: not any(each.startswith(f"{pod}-") for each in claims), "its claims are gone"
    )


async def crash_everywhere(world: World, mode: str) -> list[int]:
    """Return the writes after which it was killed: all, and after the first few once more with a deletion."""
    async with lived_in(world), Proxy(world.cluster) as proxy:
        controller = await start_controller(world, kubeconfig=proxy.kubeconfig_for(await account(world.cluster)))
        mortal, reached = Mortal(world, proxy, controller, mode), []
        for nth in range(1, MAX_ROUNDS):
            if not await mortal.crash_after(nth, nothing):
                break
            reached.append(nth)
        for nth in range(1, SURE[mode] + 1):
            assert await mortal.crash_after(nth, user_gives_up)
        await controller.stop()
        assert "Traceback" not in controller.log()
        return reached


@pytest.mark.timeout(900)
async def test_it_converges_after_a_crash_at_any_write(cluster: DevCluster, admin: Admin, rights: None) -> None:
    """Annotate and prebind: two volumes, two claims, and the annotations of all four taken off again. Complete: two
    volumes, then three writes for each pair; what the PV controller was seen to have written is not written again."""
    async with asyncio.TaskGroup() as tasks:
        stories = {mode: tasks.create_task(crash_everywhere(World(cluster, admin), mode)) for mode in MODES}
    reached = {mode: len(story.result()) for mode, story in stories.items()}
    assert reached["annotate"] >= 8
    assert reached["prebind"] >= 4
    assert reached["complete"] >= SURE["complete"]
    assert max(reached.values()) < MAX_ROUNDS - 1, reached


async def test_what_a_crash_left_half_done_is_freed_when_its_time_is_over(own_world: World) -> None:
    """The second volume goes away meanwhile, so that the pod cannot have both; the first runs out."""
    world = own_world
    disks = await world.storage_class("annotate")
    await world.volumes(disks, *(world.volume(word, disks, zone="zone-a") for word in ("one", "two")))
    async with Proxy(world.cluster) as proxy:
        kubeconfig = proxy.kubeconfig_for(await account(world.cluster))
        controller = await start_controller(world, "--reservation-ttl=10s", kubeconfig=kubeconfig)
        killed = asyncio.Event()

        async def kill(_: Write) -> None:
            proxy.sever()
            await controller.kill()
            killed.set()

        proxy.after_write = kill
        await world.pod("app", {claim: claim_spec(disks) for claim in ("data", "log")}, gated=True)
        async with asyncio.timeout(SECONDS):
            await killed.wait()
        ((kept,),) = (await world.held()).values()
        (other,) = {world.name("one"), world.name("two")} - {kept}
        await world.admin.delete("PersistentVolume", other)
        await eventually(world.own_volumes, lambda volumes: list(volumes) == [kept], "the other volume is gone")
        await revive(world, proxy, controller)
        await clean(world)
        assert await controller.metric("pvc_prebinder_reservation_releases_total", cause="expired") == 1
        await controller.stop()
