"""Mode prebind, and claims that are deleted before the PV controller has bound them."""

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.final_state import clean
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import Controller, account, start_controller
from tests.scenarios.processes.proxy import Proxy, Write

CLAIMS: Final = ("app-data", "app-log")
KEEPS_ITS_TERM: Final = "--no-leader-elect"
"""While it is suspended until the PV controller, resumed, has set the volumes to Released."""
MAX_WRITES: Final = 3
"""Both volumes, and the first annotations that are removed from a bound pair."""


async def wanted(world: World, disks: str) -> None:
    await world.pod("app", {claim: claim_spec(disks) for claim in CLAIMS}, gated=True)


async def forget_claims(world: World) -> None:
    """Delete the pod and its claims, which only Kubernetes' protection keeps while no PV controller runs."""
    await world.admin.delete("Pod", "app", world.namespace)
    for claim in CLAIMS:
        await world.admin.patch("PersistentVolumeClaim", claim, {"metadata": {"finalizers": None}}, world.namespace)
        await world.admin.delete("PersistentVolumeClaim", claim, world.namespace)
    await eventually(world.claims, lambda claims: not claims, "the claims are gone")


@asynccontextmanager
async def without_pv_controller(world: World) -> AsyncIterator[None]:
    await world.cluster.controller_manager.kill()
    try:
        yield
    finally:
        await world.cluster.controller_manager.start()


@asynccontextmanager
async def committed(world: World) -> AsyncIterator[tuple[str, Controller]]:
    """A pod whose volumes are committed without a PV controller; inside, the claims are gone again.

    The PV controller that comes then has never seen the claims. One that was suspended would begin to bind them.
    """
    disks = await world.storage_class("prebind")
    await world.volumes(disks, *(world.volume(name, disks, zone="zone-a") for name in ("one", "two")))
    controller = await start_controller(world, KEEPS_ITS_TERM)
    async with without_pv_controller(world):
        await wanted(world, disks)
        await eventually(world.held, lambda held: set(held) == set(CLAIMS), "both volumes are committed")
        claims = await world.claims()
        for volume in (await world.own_volumes()).values():
            reference = volume["spec"]["claimRef"]
            assert reference["uid"] == claims[reference["name"]]["metadata"]["uid"]
            assert not any(
                key.startswith(world.prefix) for key in claims[reference["name"]]["metadata"].get("annotations", ())
            )
        controller.pause()
        await forget_claims(world)
    await eventually(world.volume_phases, lambda phases: set(phases.values()) == {"Released"}, "both are Released")
    yield disks, controller
    await controller.stop()


async def event_note(world: World, volume: str, reason: str) -> str:
    """Return the note of the Event about the volume, once it is there."""

    async def notes() -> list[str]:
        events = await world.admin.list("Event", "default")
        return [each["note"] for each in events if (each["regarding"]["name"], each["reason"]) == (volume, reason)]

    return (await eventually(notes, bool, f"an Event {reason} about {volume}"))[0]


async def test_volumes_that_were_never_bound_are_available_again(own_world: World) -> None:
    async with committed(own_world) as (disks, controller):
        controller.resume()
        available = {own_world.name(name): "Available" for name in ("one", "two")}
        await eventually(own_world.volume_phases, lambda phases: phases == available, "both are Available again")
        await clean(own_world)
        assert "was never bound" in await event_note(own_world, own_world.name("one"), "VolumeMadeAvailable")
        await wanted(own_world, disks)
        await own_world.all_run("app")


async def test_the_next_leader_cannot_know_and_says_how_to_give_the_volume_back(own_world: World) -> None:
    async with committed(own_world) as (disks, controller):
        await controller.kill()
        await controller.start()
        notes = [await event_note(own_world, own_world.name(name), "VolumeReleased") for name in ("one", "two")]
        assert set((await own_world.volume_phases()).values()) == {"Released"}
        for note in notes:
            command = shlex.split(note.partition("kubectl ")[2])
            assert command[:2] == ["patch", "pv"]
            cluster = own_world.cluster
            process = await asyncio.create_subprocess_exec(
                cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", *command, stdout=asyncio.subprocess.DEVNULL
            )
            assert await process.wait() == 0
        await wanted(own_world, disks)
        await own_world.all_run("app")
        assert set(await own_world.bound()) == set(CLAIMS)


@pytest.mark.parametrize("nth", range(1, MAX_WRITES + 1))
async def test_claims_recreated_after_any_write_are_served(own_world: World, nth: int) -> None:
    """With the PV controller at work: what it has bound by then stays Released, and there are volumes for both."""
    world = own_world
    disks = await world.storage_class("prebind")
    await world.volumes(disks, *(world.volume(f"v{number}", disks, zone="zone-a") for number in range(4)))
    recreated = asyncio.Event()

    async with Proxy(world.cluster) as proxy:

        async def recreate(write: Write) -> None:
            if write.number != nth:
                return
            await world.admin.delete("Pod", "app", world.namespace)
            for claim in CLAIMS:
                await world.admin.delete("PersistentVolumeClaim", claim, world.namespace)
            await eventually(world.claims, lambda claims: not claims, "the claims are gone")
            await eventually(world.pods, lambda pods: not pods, "the pod is gone")
            await wanted(world, disks)
            recreated.set()

        proxy.after_write = recreate
        controller = await start_controller(world, kubeconfig=proxy.kubeconfig_for(await account(world.cluster)))
        await wanted(world, disks)
        async with asyncio.timeout(60):
            await recreated.wait()
        await world.all_run("app")
        await clean(world)
        await controller.stop()
