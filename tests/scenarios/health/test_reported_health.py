"""What another reporter writes about a volume's health keeps it from pods, without any way to its driver."""

from functools import partial

from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.health.probed_volumes import quarantined
from tests.scenarios.processes.controller import start_controller
from tests.scenarios.processes.why_command import Asker


async def publish(world: World, volume: str, health: str) -> None:
    fields = {"health": health, "health-reason": "DiskGone", "health-source": "CSI driver d"}
    annotations = {world.prefix + word: value for word, value in fields.items()}
    await world.admin.patch("PersistentVolume", volume, {"metadata": {"annotations": annotations}})


async def test_a_volume_that_an_agent_reports_as_lost_is_not_used_until_it_is_healthy(
    own_world: World, asker: Asker
) -> None:
    disks = await own_world.storage_class("prebind")
    await own_world.volumes(disks, *(own_world.volume(word, disks, zone="zone-a") for word in ("a", "b")))
    lost, well = own_world.name("a"), own_world.name("b")
    await publish(own_world, lost, "DataLoss")
    controller = await start_controller(own_world, "--quarantine", "--quarantine-max-share=1")
    await eventually(partial(quarantined, own_world), lambda inside: inside == {lost}, "it is in quarantine")
    await own_world.pod("first", {"first": claim_spec(disks)}, gated=True)
    await own_world.all_run("first")
    assert (await own_world.bound())["first"] == well
    await own_world.pod("second", {"second": claim_spec(disks)}, gated=True)
    await own_world.noted("second", "Quarantined")
    item = await asker.names("pod/second", "Quarantined")
    assert item["causes"][-1]["name"] == lost
    await asker.names(f"pv/{lost}", "Quarantined")
    await publish(own_world, lost, "Healthy")
    await own_world.all_run("second")
    assert (await own_world.bound())["second"] == lost
    await controller.stop()
