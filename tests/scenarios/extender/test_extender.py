"""A real kube-scheduler calls the extender: reserved zones win, wrong volumes are avoided, and no pod waits for it."""

import itertools
import os
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
import pytest_asyncio

from binder.reservation.contract import Annotations, Holder, VolumeReservation
from devcluster.driver.health import VolumeFault
from devcluster.processes.ports import LOOPBACK, free_ports
from tests.scenarios.environment.documents import ZONE, ZONES, claim_spec
from tests.scenarios.environment.drivers import Directories, endpoint_flag
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World, zone_of
from tests.scenarios.extender.extender_process import ExtendedScheduler, extended_scheduler
from tests.scenarios.extender.sized_volumes import sized_volumes
from tests.scenarios.processes.controller import start_controller

PODS = 6


@pytest_asyncio.fixture
async def scheduling(own_world: World) -> AsyncIterator[ExtendedScheduler]:
    """A kube-scheduler that waits for the extender, however busy the machine is."""
    async with extended_scheduler(own_world, timeout="30s") as both:
        yield both


@pytest_asyncio.fixture
async def impatient(own_world: World) -> AsyncIterator[ExtendedScheduler]:
    """A kube-scheduler set up as our documentation says."""
    async with extended_scheduler(own_world, timeout="500ms") as both:
        yield both


async def volumes(world: World, disks: str, *zones: str, each: int = 1, **how: str) -> None:
    await world.volumes(
        disks,
        *(world.volume(f"{zone}-{number}", disks, zone=zone, **how) for zone in zones for number in range(each)),
    )


async def health_of(world: World, volume: str) -> str:
    return str((await world.own_volumes())[volume]["metadata"].get("annotations", {}).get(f"{world.prefix}health", ""))


async def test_the_reserved_zone_wins(scheduling: ExtendedScheduler) -> None:
    """In mode annotate nothing but the extender leads kube-scheduler there; chance would, once in 3 ** 6 times.

    Each claim has a size of its own, so that none is given the volume that is reserved for another.
    """
    world = scheduling.world
    controller = await start_controller(world)
    disks = await world.storage_class("annotate")
    sizes = await sized_volumes(world, disks, PODS)
    scheduling.scheduler.pause()
    for name, size in sizes.items():
        await scheduling.pod(name, {f"{name}-data": claim_spec(disks, size)})
    reserved = await eventually(world.reserved, lambda reserved: len(reserved) == PODS, "all are reserved")
    scheduling.scheduler.resume()
    await world.all_run(*sizes)
    assert await world.bound() == reserved
    await controller.stop()


async def rejected(scheduling: ExtendedScheduler, why: str) -> None:
    """Wait until kube-scheduler says so of the pod `late`. It may see the pod first, and say that it has no claim."""
    await eventually(
        lambda: scheduling.rejections("late"),
        lambda rejections: any(why in text for text in rejections),
        f"kube-scheduler says {why}",
    )


async def runs_now(world: World, volume: str) -> None:
    """Wait until the pod `late` runs, now that the volume is free.

    kube-scheduler may try it before the extender has seen that (see docs/extender.md), and then not before something
    else changes: here a label of the volume does.
    """
    looks = itertools.count()

    async def phases() -> dict[str, str]:
        await world.admin.patch("PersistentVolume", volume, {"metadata": {"labels": {"look": str(next(looks))}}})
        return await world.pod_phases()

    await eventually(phases, lambda phases: phases.get("late") == "Running", "late runs")


async def test_a_node_whose_only_volume_is_unhealthy_is_avoided_until_it_recovers(
    scheduling: ExtendedScheduler, directories: Directories
) -> None:
    world = scheduling.world
    controller = await start_controller(world, endpoint_flag(directories.driver), "--health-sweep-interval=1s")
    disks = await world.storage_class("off")
    handle = directories.unhealthy("zone-a", VolumeFault.READ_ONLY)
    await volumes(world, disks, "zone-a", driver=directories.driver.driver_name, handle=handle)
    await volumes(world, disks, "zone-b", each=PODS)
    unhealthy = world.name("zone-a-0")
    await eventually(lambda: health_of(world, unhealthy), bool, "the volume says that it is unhealthy")
    names = [f"app-{number}" for number in range(PODS)]
    for name in names:
        await scheduling.pod(name, {f"{name}-data": claim_spec(disks)})
    await world.all_run(*names)
    assert unhealthy not in (await world.bound()).values()
    await scheduling.pod("late", {"late-data": claim_spec(disks)}, nodeSelector={ZONE: "zone-a"})
    await rejected(scheduling, f"claim late-data would get volume {unhealthy}: Unhealthy, Degraded")
    directories.recover(handle)
    await eventually(lambda: health_of(world, unhealthy), lambda health: health != "Degraded", "the volume recovers")
    await runs_now(world, unhealthy)
    await controller.stop()


async def test_a_node_whose_only_volume_is_held_for_another_claim_is_avoided(scheduling: ExtendedScheduler) -> None:
    world = scheduling.world
    disks = await world.storage_class("off")
    await volumes(world, disks, "zone-a")
    await volumes(world, disks, "zone-b", each=PODS)
    held, now = world.name("zone-a-0"), datetime.now(UTC)
    promise = VolumeReservation("elsewhere/data", "uid", now, now + timedelta(hours=1), Holder("test", 1))
    annotations = Annotations(world.prefix).for_volume(promise)
    await world.admin.patch("PersistentVolume", held, {"metadata": {"annotations": annotations}})
    names = [f"app-{number}" for number in range(PODS)]
    for name in names:
        await scheduling.pod(name, {f"{name}-data": claim_spec(disks)})
    await world.all_run(*names)
    assert held not in (await world.bound()).values()
    await scheduling.pod("late", {"late-data": claim_spec(disks)}, nodeSelector={ZONE: "zone-a"})
    await rejected(scheduling, f"would get volume {held}: ReservedForOther, for elsewhere/data")
    gone = dict.fromkeys(annotations)
    await world.admin.patch("PersistentVolume", held, {"metadata": {"annotations": gone}})
    await runs_now(world, held)


@pytest.mark.parametrize("how", ["down", "slow"])
async def test_scheduling_continues_without_it(impatient: ExtendedScheduler, how: str) -> None:
    world = impatient.world
    disks = await world.storage_class("off")
    await volumes(world, disks, *ZONES)
    if how == "down":
        await impatient.extender.kill()
    else:
        impatient.extender.pause()
    await impatient.pod("app", {"data": claim_spec(disks)})
    await world.all_run("app")
    assert zone_of((await world.own_volumes())[(await world.bound())["data"]]) in ZONES
    if how == "slow":
        impatient.extender.resume()


async def test_after_sigterm_it_answers_until_endpoints_have_moved(own_world: World) -> None:
    async with extended_scheduler(own_world, timeout="30s", delay="10m") as both:
        disks = await own_world.storage_class("off")
        await volumes(own_world, disks, "zone-a", "zone-b")
        annotations = {f"{own_world.prefix}health": "Inaccessible", f"{own_world.prefix}health-reason": "NotFound"}
        unhealthy = own_world.name("zone-a-0")
        await own_world.admin.patch("PersistentVolume", unhealthy, {"metadata": {"annotations": annotations}})
        os.kill(both.extender.pid, signal.SIGTERM)
        await eventually(both.is_ready, lambda ready: not ready, "it says that it is not ready any more")
        await both.pod("late", {"late-data": claim_spec(disks)}, nodeSelector={ZONE: "zone-a"})
        await rejected(both, f"claim late-data would get volume {unhealthy}: Unhealthy")
        assert both.extender.running
        os.kill(both.extender.pid, signal.SIGTERM)
        await eventually(both.ended, bool, "a second signal ends it at once")


async def test_it_ends_when_endpoints_have_had_their_time(own_world: World) -> None:
    async with extended_scheduler(own_world, timeout="30s", delay="100ms") as both:
        os.kill(both.extender.pid, signal.SIGTERM)
        await eventually(both.ended, bool, "it has ended")
        assert "Draining" in both.extender.log_tail()
        assert "Stopped" in both.extender.log_tail()


async def test_the_controller_can_answer_too(own_world: World) -> None:
    address = f"{LOOPBACK}:{free_ports(1)[0]}"
    controller = await start_controller(own_world, f"--extender-bind-address={address}")
    body = {"Pod": {"metadata": {"name": "app"}, "spec": {}}, "NodeNames": ["node-1"]}
    async with aiohttp.ClientSession() as session, session.post(f"http://{address}/filter", json=body) as answer:
        assert (answer.status, (await answer.json())["NodeNames"]) == (200, ["node-1"])
    assert await controller.metric("pvc_prebinder_extender_request_duration_seconds_count", code="200") == 1
    await controller.stop()
