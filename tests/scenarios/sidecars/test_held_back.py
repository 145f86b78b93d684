"""What pvc-prebinder's own controller keeps back: an unhealthy volume, and one that it reserved for another pod."""

import pytest

from devcluster.driver.health import VolumeFault
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.drivers import Directories
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.why_command import Asker, typed

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_volume_that_its_driver_calls_unhealthy(
    world: World, directories: Directories, capsys: pytest.CaptureFixture[str]
) -> None:
    asker, disks = Asker(world, capsys), await world.storage_class("complete")
    handle = directories.unhealthy("zone-a", VolumeFault.UNREADABLE)
    await world.volumes(disks, volume(world, "only", disks, directories, handle))
    await world.pod("app", {"data": claim_spec(disks)}, gated=True)
    item = await asker.names("pod/app", "Unhealthy")
    await typed(world, item["next"][0])
    await asker.names(f"pv/{world.name('only')}", "Unhealthy")
    directories.recover(handle)
    await world.all_run("app")
    await asker.names("pod/app", "Scheduled", exit_code=0)


async def test_a_volume_that_is_reserved_for_another_pod(
    world: World, directories: Directories, capsys: pytest.CaptureFixture[str]
) -> None:
    asker, disks = Asker(world, capsys), await world.storage_class("annotate")
    await world.volumes(disks, volume(world, "only", disks, directories, directories.healthy("zone-a")))
    async with world.scheduler_paused():
        await world.pod("first", {"one": claim_spec(disks)}, gated=True)
        await eventually(world.reserved, bool, "the volume is reserved")
        await world.pod("second", {"two": claim_spec(disks)}, gated=True)
        item = await asker.names("pod/second", "ReservedForOther")
        await typed(world, item["next"][0])
    await world.all_run("first")
    await asker.names("pod/second", "StaticOnlyNoMatch")
    await world.volumes(disks, volume(world, "another", disks, directories, directories.healthy("zone-a")))
    await world.all_run("second")


def volume(world: World, word: str, disks: str, directories: Directories, handle: str) -> Document:
    return world.volume(word, disks, zone="zone-a", driver=directories.driver.driver_name, handle=handle)
