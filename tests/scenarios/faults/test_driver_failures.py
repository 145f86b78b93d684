"""A driver that hangs, dies or talks nonsense never counts as healthy and never holds up the claims of others."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest

from csi.proto import csi_v1_pb2 as csi
from tests.csi.client.test_readonly import ALLOWED
from tests.csi.scripted_driver import Rejected, Rpc, Script, ScriptedDriver, gives, hangs, volume_answer
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.drivers import Directories, Mock, endpoint_flag, start_directories, start_mock
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import Controller, start_controller

HELD_WITHIN, EXPLAINED_WITHIN = 15.0, 30.0
"""Seconds, at most, in which a pod behind hung volumes has a healthy one, or learns that only those are left."""


@pytest.fixture
async def failing(own_world: World) -> AsyncIterator[Directories]:
    """A driver to be harmed."""
    backing = await start_directories(own_world.cluster, f"{own_world.namespace}.csi.example")
    yield backing
    await backing.driver.kill()


async def class_of(world: World, word: str, *volumes: tuple[str, str]) -> str:
    """Create a class in mode prebind with a volume in zone-a for each (driver, handle), in this order of names."""
    disks = await world.storage_class("prebind", word)
    await world.volumes(
        disks,
        *(
            world.volume(f"{word}-{number}", disks, zone="zone-a", driver=driver, handle=handle)
            for number, (driver, handle) in enumerate(volumes)
        ),
    )
    return disks


async def rejected_as_unknown(world: World, pod: str) -> None:
    await world.noted(pod, "HealthUnknown")


async def test_a_driver_that_hangs_delays_no_other(
    own_world: World, failing: Directories, directories: Directories
) -> None:
    endpoints = endpoint_flag(failing.driver), endpoint_flag(directories.driver)
    controller = await start_controller(own_world, *endpoints)
    hanging = [(failing.driver.driver_name, failing.healthy("zone-a")) for _ in range(10)]
    well = [(directories.driver.driver_name, directories.healthy("zone-a")) for _ in range(10)]
    # Before there are volumes: the verdict on one that was probed would be fresh for a while.
    failing.driver.pause()
    slow, quick = await class_of(own_world, "slow", *hanging), await class_of(own_world, "quick", *well)
    for number in range(10):
        await own_world.pod(f"slow-{number}", {f"slow-{number}": claim_spec(slow)}, gated=True)
        await own_world.pod(f"quick-{number}", {f"quick-{number}": claim_spec(quick)}, gated=True)
    await own_world.all_run(*(f"quick-{number}" for number in range(10)))
    assert {claim.partition("-")[0] for claim in await own_world.held()} == {"quick"}
    await rejected_as_unknown(own_world, "slow-0")
    assert {claim.partition("-")[0] for claim in await own_world.held()} == {"quick"}
    failing.driver.resume()
    await own_world.all_run(*(f"slow-{number}" for number in range(10)))
    await controller.stop()


async def test_twelve_hung_volumes_keep_no_pod_from_a_healthy_one_behind_them(
    own_world: World, failing: Directories
) -> None:
    """A driver stopped by SIGSTOP: its volumes are smaller, so they come first, and the good one is a local disk."""
    controller = await start_controller(own_world, endpoint_flag(failing.driver))
    known = await class_of(own_world, "known", (failing.driver.driver_name, failing.healthy("zone-a")))
    await own_world.pod("before", {"before": claim_spec(known)}, gated=True)
    await own_world.all_run("before")  # so the controller is connected, and its calls hang instead of failing
    failing.driver.pause()
    handles = [failing.healthy("zone-a") for _ in range(12)]
    disks = await class_of(own_world, "disks", *((failing.driver.driver_name, handle) for handle in handles))
    await own_world.volumes(disks, local_volume(own_world, disks, await own_world.some_node()))
    await own_world.pod("first", {"first": claim_spec(disks)}, gated=True)
    held = await eventually(own_world.held, lambda held: "first" in held, "first has a volume", HELD_WITHIN)
    assert held["first"] == [own_world.name("local")]
    await own_world.pod("second", {"second": claim_spec(disks)}, gated=True)
    await eventually(
        lambda: own_world.events(about="second"),
        lambda events: any(
            "HealthUnknown" in event["note"] and failing.driver.driver_name in event["note"] for event in events
        ),
        "an Event about second names the driver",
        EXPLAINED_WITHIN,
    )
    assert "second" not in await own_world.held()
    failing.driver.resume()
    await own_world.all_run("first", "second")
    await stop_and_show_no_traceback(controller)


def local_volume(world: World, storage_class: str, node: str) -> Document:
    """A disk of that node, of 2Gi: kubelet's own, which no driver reports on."""
    volume = world.volume("local", storage_class, node=node, size="2Gi")
    del volume["spec"]["csi"]
    volume["spec"]["local"] = {"path": "/mnt/disk"}
    return volume


async def test_a_driver_that_dies_and_comes_back(own_world: World, failing: Directories) -> None:
    controller = await start_controller(own_world, endpoint_flag(failing.driver))
    disks = await class_of(own_world, "disks", (failing.driver.driver_name, failing.healthy("zone-a")))
    await failing.driver.kill()
    await own_world.pod("app", {"data": claim_spec(disks)}, gated=True)
    await rejected_as_unknown(own_world, "app")
    assert await own_world.held() == {}
    assert await controller.metric("pvc_prebinder_csi_endpoint_up", driver_name=failing.driver.driver_name) == 0
    await failing.driver.start()
    await own_world.all_run("app")
    assert await controller.metric("pvc_prebinder_csi_endpoint_up", driver_name=failing.driver.driver_name) == 1
    await controller.stop()


async def test_the_go_driver_forgets_its_volumes_when_it_dies(own_world: World) -> None:
    """It keeps volumes in memory: the three it always has are there again, a fourth is not."""
    mock = await start_mock(own_world.cluster, f"{own_world.namespace}.csi.example")
    mock.driver.command = [each for each in mock.driver.command if not each.startswith("--volumes")]
    await mock.driver.restart()
    controller = await start_controller(own_world, endpoint_flag(mock.driver))
    name = mock.driver.driver_name
    disks = await class_of(own_world, "disks", (name, "4"), (name, "3"))
    await own_world.pod("app", {"data": claim_spec(disks)}, gated=True)
    await own_world.all_run("app")
    assert await own_world.bound() == {"data": own_world.name("disks-1")}
    await mock.driver.stop()
    await controller.stop()


async def test_unknown_volumes_are_taken_if_the_policy_allows_it(own_world: World, failing: Directories) -> None:
    await failing.driver.kill()
    controller = await start_controller(own_world, endpoint_flag(failing.driver), "--unknown-health=allow")
    disks = await class_of(own_world, "disks", (failing.driver.driver_name, failing.healthy("zone-a")))
    await own_world.pod("app", {"data": claim_spec(disks)}, gated=True)
    await own_world.all_run("app")
    await controller.stop()


UNKNOWN_CODE = 4711
GETTING_TO_KNOW = {"/csi.v1.Identity/GetPluginInfo"}
NONSENSE: dict[str, dict[str, Script]] = {
    "no-protobuf": {"ControllerGetVolume": gives(b"\xff\xfe<html>502 Bad Gateway</html>")},
    "empty-answer": {"ControllerGetVolume": gives(b"")},
    "other-volume": {"ControllerGetVolume": gives(volume_answer("somebody-else"))},
    "no-condition": {"ControllerGetVolume": gives(volume_answer("v", abnormal=None))},
    "abnormal": {"ControllerGetVolume": gives(volume_answer("v", abnormal=True, message="\x1b[2J\n" * 5000))},
    "internal-error": {"ControllerGetVolume": gives(Rejected(grpc.StatusCode.INTERNAL, "x" * 4000))},
    "unimplemented": {"ControllerGetVolume": gives(Rejected(grpc.StatusCode.UNIMPLEMENTED))},
    "hanging": {"ControllerGetVolume": hangs},
    "garbled-capabilities": {"ControllerGetCapabilities": gives(b"\x0a\xff")},
    "wrong-name": {"GetPluginInfo": gives(csi.GetPluginInfoResponse(name="another.csi.example"))},
}


async def test_an_invalid_response_never_counts_as_healthy(
    own_world: World, directories: Directories, mock: Mock, tmp_path: Path
) -> None:
    """For each kind of nonsense a driver, a class with one volume of it before a healthy one, and a pod."""
    async with AsyncExitStack() as stack:
        scripted = {
            word: await stack.enter_async_context(
                ScriptedDriver(
                    tmp_path / f"{number}.sock",
                    name=f"{word}.csi.example",
                    rpcs=(Rpc.GET_VOLUME, Rpc.VOLUME_CONDITION, UNKNOWN_CODE),
                    script=script,
                )
            )
            for number, (word, script) in enumerate(NONSENSE.items())
        }
        endpoints = [f"--csi-endpoint={driver.name}=unix://{driver.socket}" for driver in scripted.values()]
        controller = await start_controller(
            own_world, *endpoints, endpoint_flag(directories.driver), endpoint_flag(mock.driver)
        )
        for number, (word, driver) in enumerate(scripted.items()):
            backing = directories if number % 2 else mock
            well = (backing.driver.driver_name, backing.healthy("zone-a"))
            disks = await class_of(own_world, word, (driver.name, "v"), well)
            await own_world.pod(word, {word: claim_spec(disks)}, gated=True)
        await own_world.all_run(*NONSENSE)
        assert await own_world.bound() == {word: own_world.name(f"{word}-1") for word in NONSENSE}
        for driver in scripted.values():
            assert GETTING_TO_KNOW <= set(driver.calls) <= ALLOWED, "not asked at all, or more than may be asked"
        await stop_and_show_no_traceback(controller)


async def stop_and_show_no_traceback(controller: Controller) -> None:
    await controller.stop()
    assert "Traceback" not in controller.log()
