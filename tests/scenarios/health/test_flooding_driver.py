"""A driver that floods the controller with answers beyond every limit stays alone with it."""

from devcluster.driver.mood import Mood
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.drivers import endpoint_flag, start_directories
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.health.probed_volumes import volume_events
from tests.scenarios.processes.controller import start_controller


async def test_volumes_of_another_driver_are_reserved_and_an_event_names_the_limit(own_world: World) -> None:
    cluster, disks = own_world.cluster, await own_world.storage_class("prebind")
    mood = cluster.directory / f"{own_world.namespace}-mood"
    mood.write_text(Mood.FLOOD)
    flooding = await start_directories(cluster, f"a-{own_world.namespace}.csi.example", flags=[f"--mood={mood}"])
    good = await start_directories(cluster, f"b-{own_world.namespace}.csi.example")
    name = flooding.driver.driver_name
    await own_world.admin.create(
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}, "spec": {}}
    )
    await own_world.volumes(
        disks,
        own_world.volume("1", disks, zone="zone-a", driver=name, handle=flooding.healthy("zone-a")),
        own_world.volume("2", disks, zone="zone-a", driver=good.driver.driver_name, handle=good.healthy("zone-a")),
    )
    flags = (endpoint_flag(flooding.driver), endpoint_flag(good.driver), "--health-sweep-interval=1s")
    controller = await start_controller(own_world, *flags, "--health-max-age=1s")
    await own_world.pod("app", {"data": claim_spec(disks)}, gated=True)
    await eventually(own_world.reserved, lambda held: held == {"data": own_world.name("2")}, "the other is reserved")

    async def reasons() -> list[str]:
        return await volume_events(own_world, name)

    await eventually(reasons, lambda seen: "DriverLimitExceeded" in seen, "an Event on the CSIDriver")
    mood.unlink()
    await own_world.pod("other", {"more": claim_spec(disks)}, gated=True)
    await own_world.all_run("app", "other")
    await controller.stop()
    await own_world.admin.delete("CSIDriver", name)
    for each in (flooding, good):
        await each.driver.stop()
