"""The directory driver over gRPC, where csi-sanity does not look: pages, topology, links, and its end."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from csi.proto import csi_v1_pb2 as csi
from csi.proto import csi_v1_pb2_grpc as services
from devcluster.driver.health import VolumeFault
from devcluster.driver.volumes import break_volume, create_volume, data_directory, delete_volume
from tests.driver_process import DriverProcess

NAME = "directory.csi.example"
ZONE = "topology.kubernetes.io/zone"
MOUNTED = csi.VolumeCapability(
    mount=csi.VolumeCapability.MountVolume(),
    access_mode=csi.VolumeCapability.AccessMode(mode=csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER),
)


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[DriverProcess]:
    async with DriverProcess(tmp_path, NAME, "--topology", f"{ZONE}=a", "--node", "node-1") as driver:
        yield driver


@pytest.fixture
async def channel(driver: DriverProcess) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(f"unix://{driver.socket}") as channel:
        yield channel


@pytest.fixture
def controller(channel: grpc.aio.Channel) -> Any:
    return services.ControllerStub(channel)  # type: ignore[no-untyped-call]


@pytest.fixture
def node(channel: grpc.aio.Channel) -> Any:
    return services.NodeStub(channel)  # type: ignore[no-untyped-call]


def zone(name: str, key: str = ZONE) -> csi.TopologyRequirement:
    return csi.TopologyRequirement(preferred=[csi.Topology(segments={key: name})])


async def rejection(call: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value.code()


async def test_each_segment_is_a_pool_with_a_largest_volume(tmp_path: Path) -> None:
    limits = ("--topology", f"{ZONE}=a", "--segment-capacity", "1000", "--largest-volume", "700")
    async with (
        DriverProcess(tmp_path, NAME, *limits) as driver,
        grpc.aio.insecure_channel(f"unix://{driver.socket}") as channel,
    ):
        controller: Any = services.ControllerStub(channel)  # type: ignore[no-untyped-call]

        def create(name: str, size: int, *zones: str) -> Any:
            preferred = [csi.Topology(segments={ZONE: each}) for each in zones]
            request = csi.CreateVolumeRequest(
                name=name,
                volume_capabilities=[MOUNTED],
                capacity_range=csi.CapacityRange(required_bytes=size),
                accessibility_requirements=csi.TopologyRequirement(preferred=preferred),
            )
            return controller.CreateVolume(request)

        async def capacity(name: str) -> tuple[int, int]:
            segment = csi.Topology(segments={ZONE: name})
            report = await controller.GetCapacity(csi.GetCapacityRequest(accessible_topology=segment))
            return report.available_capacity, report.maximum_volume_size.value

        await create("first", 600, "a")
        assert (await capacity("a"), await capacity("b")) == ((400, 700), (1000, 700))
        assert await rejection(create("second", 500, "a")) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await rejection(create("second", 701, "b")) is grpc.StatusCode.RESOURCE_EXHAUSTED
        elsewhere = await create("second", 500, "a", "b")
        assert elsewhere.volume.accessible_topology[0].segments == {ZONE: "b"}
        assert (await create("first", 600, "a", "b")).volume.accessible_topology[0].segments == {ZONE: "a"}
        assert (await capacity("a"), await capacity("b")) == ((400, 700), (500, 700))


async def test_volumes_are_created_and_grow_as_long_as_there_is_room(tmp_path: Path) -> None:
    async with (
        DriverProcess(tmp_path, NAME, "--capacity", "1000") as driver,
        grpc.aio.insecure_channel(f"unix://{driver.socket}") as channel,
    ):
        controller: Any = services.ControllerStub(channel)  # type: ignore[no-untyped-call]

        def create(name: str, size: int) -> Any:
            wanted = csi.CapacityRange(required_bytes=size)
            request = csi.CreateVolumeRequest(name=name, volume_capabilities=[MOUNTED], capacity_range=wanted)
            return controller.CreateVolume(request)

        def grow(size: int) -> Any:
            wanted = csi.CapacityRange(required_bytes=size)
            return controller.ControllerExpandVolume(
                csi.ControllerExpandVolumeRequest(volume_id=first.volume.volume_id, capacity_range=wanted)
            )

        first = await create("first", 600)
        assert await rejection(create("second", 600)) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await create("first", 600)).volume == first.volume
        await create("second", 300)
        assert (await controller.GetCapacity(csi.GetCapacityRequest())).available_capacity == 100
        assert await rejection(grow(701)) is grpc.StatusCode.RESOURCE_EXHAUSTED
        for _ in range(2):
            assert (await grow(700)).capacity_bytes == 700
        assert (await grow(1)).capacity_bytes == 700
        assert (await controller.GetCapacity(csi.GetCapacityRequest())).available_capacity == 0


async def test_pages_survive_a_volume_that_is_deleted_between_them(controller: Any, driver: DriverProcess) -> None:
    for number in range(5):
        create_volume(driver.root, f"v{number}", 1)
    first = await controller.ListVolumes(csi.ListVolumesRequest(max_entries=2))
    delete_volume(driver.root, "v1")
    second = await controller.ListVolumes(csi.ListVolumesRequest(max_entries=2, starting_token=first.next_token))
    third = await controller.ListVolumes(csi.ListVolumesRequest(max_entries=2, starting_token=second.next_token))
    pages = [[entry.volume.volume_id for entry in page.entries] for page in (first, second, third)]
    assert pages == [["v0", "v1"], ["v2", "v3"], ["v4"]]
    assert third.next_token == ""


async def test_the_list_carries_conditions(controller: Any, driver: DriverProcess) -> None:
    for volume_id in ("well", "unhealthy"):
        create_volume(driver.root, volume_id, 1)
    break_volume(driver.root, "unhealthy", VolumeFault.READ_ONLY)
    answer = await controller.ListVolumes(csi.ListVolumesRequest())
    abnormal = {entry.volume.volume_id: entry.status.volume_condition.abnormal for entry in answer.entries}
    assert abnormal == {"well": False, "unhealthy": True}


@pytest.mark.parametrize(
    ("required", "expected"),
    [(None, {ZONE: "a"}), (zone("c"), {ZONE: "c"})],
    ids=["its own zone", "the demanded zone"],
)
async def test_volumes_are_created_in_the_requested_topology(
    controller: Any, required: csi.TopologyRequirement | None, expected: dict[str, str]
) -> None:
    request = csi.CreateVolumeRequest(name="pvc-1", volume_capabilities=[MOUNTED], accessibility_requirements=required)
    answer = await controller.CreateVolume(request)
    assert [dict(topology.segments) for topology in answer.volume.accessible_topology] == [expected]
    again = await controller.CreateVolume(request)
    assert again == answer


async def test_a_topology_of_other_keys_is_rejected(controller: Any) -> None:
    request = csi.CreateVolumeRequest(
        name="pvc-1", volume_capabilities=[MOUNTED], accessibility_requirements=zone("r1", key="rack")
    )
    assert await rejection(controller.CreateVolume(request)) is grpc.StatusCode.RESOURCE_EXHAUSTED
    capacity = await controller.GetCapacity(csi.GetCapacityRequest(accessible_topology=zone("r1", "rack").preferred[0]))
    assert capacity.available_capacity == 0


async def test_the_same_name_in_another_zone_is_another_volume(controller: Any) -> None:
    request = csi.CreateVolumeRequest(name="pvc-1", volume_capabilities=[MOUNTED], accessibility_requirements=zone("a"))
    await controller.CreateVolume(request)
    request.accessibility_requirements.CopyFrom(zone("b"))
    assert await rejection(controller.CreateVolume(request)) is grpc.StatusCode.ALREADY_EXISTS


async def test_a_block_volume_is_rejected(controller: Any) -> None:
    block = csi.VolumeCapability(block=csi.VolumeCapability.BlockVolume(), access_mode=MOUNTED.access_mode)
    request = csi.CreateVolumeRequest(name="pvc-1", volume_capabilities=[block])
    assert await rejection(controller.CreateVolume(request)) is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_published_volume_is_its_directory(node: Any, driver: DriverProcess, tmp_path: Path) -> None:
    create_volume(driver.root, "v", 1000)
    target = tmp_path / "pod" / "target"
    await node.NodePublishVolume(
        csi.NodePublishVolumeRequest(volume_id="v", target_path=str(target), volume_capability=MOUNTED)
    )
    (target / "file").write_bytes(b"x" * 10)
    assert (data_directory(driver.root, "v") / "file").exists()
    stats = await node.NodeGetVolumeStats(csi.NodeGetVolumeStatsRequest(volume_id="v", volume_path=str(target)))
    assert (stats.usage[0].total, stats.usage[0].used, stats.usage[0].available) == (1000, 10, 990)
    await node.NodeUnpublishVolume(csi.NodeUnpublishVolumeRequest(volume_id="v", target_path=str(target)))
    assert not target.is_symlink()
    assert (data_directory(driver.root, "v") / "file").exists()


async def test_something_else_at_the_target_is_left_alone(node: Any, driver: DriverProcess, tmp_path: Path) -> None:
    create_volume(driver.root, "v", 1000)
    target = tmp_path / "target"
    target.write_text("precious")
    publish = csi.NodePublishVolumeRequest(volume_id="v", target_path=str(target), volume_capability=MOUNTED)
    assert await rejection(node.NodePublishVolume(publish)) is grpc.StatusCode.FAILED_PRECONDITION
    await node.NodeUnpublishVolume(csi.NodeUnpublishVolumeRequest(volume_id="v", target_path=str(target)))
    assert target.read_text() == "precious"


async def test_it_ends_on_a_signal_and_serves_the_same_volumes_again(controller: Any, driver: DriverProcess) -> None:
    create_volume(driver.root, "v", 1000)
    await driver.send(signal.SIGTERM)
    assert driver.exit_code == 0
    await driver.start()
    answer = await controller.ControllerGetVolume(csi.ControllerGetVolumeRequest(volume_id="v"), wait_for_ready=True)
    assert answer.volume.capacity_bytes == 1000
