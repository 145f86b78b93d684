"""The directory driver is a correct CSI driver in every generation: by the conformance tests of the CSI project.

csi-sanity leaves out what a driver does not announce; what mounts is left out where this process may not mount.
"""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import grpc
import pytest

from csi.proto import csi_v1_pb2 as csi
from csi.proto import csi_v1_pb2_grpc as services
from devcluster.build import binaries
from devcluster.build.modules import SANITY
from devcluster.driver.generation import Generation
from devcluster.driver.volumes import create_volume, data_directory
from tests.driver_process import DriverProcess

NAME = "directory.csi.example"
OWN_MOUNTS = ("unshare", "--mount", "--propagation=private")
"""What the driver mounts is seen by it alone, and goes with it."""

MOUNTED = csi.VolumeCapability(
    mount=csi.VolumeCapability.MountVolume(),
    access_mode=csi.VolumeCapability.AccessMode(mode=csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER),
)
TOPOLOGY = ["--topology", "topology.kubernetes.io/zone=a"]


@pytest.fixture
def own_mounts() -> None:
    """Skip where there are no mounts of one's own: not Linux, not root, or a container without the right to them."""
    allowed = shutil.which("unshare") and subprocess.run((*OWN_MOUNTS, "true"), capture_output=True, check=False)
    if not allowed or allowed.returncode:
        pytest.skip("mounts need Linux, root and the right to a mount namespace")


@pytest.fixture(scope="module")
def csi_sanity() -> Path:
    return binaries.ensure([SANITY])["csi-sanity"]


@pytest.mark.parametrize(
    ("generation", "topology", "applicable"),
    [
        pytest.param(Generation.HEALTH, [], 39, id="1.13, of a host"),
        pytest.param(Generation.HEALTH, TOPOLOGY, 39, id="1.13, of a zone"),
        pytest.param(Generation.HEALTH_GET, TOPOLOGY, 35, id="1.13 by get"),
        pytest.param(Generation.CONDITION, [], 36, id="1.12, of a host"),
        pytest.param(Generation.CONDITION, TOPOLOGY, 36, id="1.12, of a zone"),
        pytest.param(Generation.CONDITION_GET, TOPOLOGY, 33, id="1.12 by get"),
        pytest.param(Generation.CONDITION_LIST, TOPOLOGY, 33, id="1.12 by list"),
        pytest.param(Generation.EXISTENCE, TOPOLOGY, 33, id="existence"),
        pytest.param(Generation.NOTHING, TOPOLOGY, 30, id="nothing"),
    ],
)
async def test_csi_sanity(
    csi_sanity: Path, tmp_path: Path, generation: Generation, topology: list[str], applicable: int
) -> None:
    async with DriverProcess(tmp_path, NAME, "--generation", generation, *topology) as driver:
        assert len(await passed(csi_sanity, driver, tmp_path)) >= applicable


async def test_csi_sanity_of_a_driver_with_pools(csi_sanity: Path, tmp_path: Path) -> None:
    """What csi-sanity makes is 10 GiB large, and it asks for the capacity."""
    limits = ("--segment-capacity", str(100 * 2**30), "--largest-volume", str(50 * 2**30))
    async with DriverProcess(tmp_path, NAME, *TOPOLOGY, *limits) as driver:
        assert len(await passed(csi_sanity, driver, tmp_path)) >= 36


@pytest.mark.usefixtures("own_mounts")
async def test_csi_sanity_of_a_driver_that_mounts(csi_sanity: Path, tmp_path: Path) -> None:
    """And that returns a limit, as the kubelet publishes it in CSINodes."""
    async with DriverProcess(tmp_path, NAME, "--publish", "mount", "--max-volumes", "110", within=OWN_MOUNTS) as driver:
        assert len(await passed(csi_sanity, driver, tmp_path)) >= 36


@pytest.mark.usefixtures("own_mounts")
async def test_a_mounted_volume_is_its_directory_and_may_be_read_only(tmp_path: Path) -> None:
    target = tmp_path / "pod" / "a target"
    async with DriverProcess(tmp_path, NAME, "--publish", "mount", within=OWN_MOUNTS) as driver:
        create_volume(driver.root, "v", 1000)
        async with grpc.aio.insecure_channel(f"unix://{driver.socket}") as channel:
            node: Any = services.NodeStub(channel)  # type: ignore[no-untyped-call]
            for read_only in (False, True):
                await node.NodePublishVolume(
                    csi.NodePublishVolumeRequest(
                        volume_id="v", target_path=str(target), volume_capability=MOUNTED, readonly=read_only
                    )
                )
                assert await can_write(driver, target / "file") != read_only
            assert (data_directory(driver.root, "v") / "file").exists()
            for _ in range(2):
                await node.NodeUnpublishVolume(csi.NodeUnpublishVolumeRequest(volume_id="v", target_path=str(target)))
    assert not target.exists()
    assert (data_directory(driver.root, "v") / "file").exists()


async def can_write(driver: DriverProcess, file: Path) -> bool:
    """Write to a file as the driver sees it, and say whether that was possible."""
    command = ("nsenter", "--mount", f"--target={driver.pid}", "touch", str(file))
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
    return await process.wait() == 0


async def passed(csi_sanity: Path, driver: DriverProcess, tmp_path: Path) -> list[Any]:
    """Run the conformance tests and return those that passed; fail with their output if one did not.

    Their number guards against a driver that announces nothing and so is called for nothing.
    """
    report = tmp_path / "report.json"
    process = await asyncio.create_subprocess_exec(
        csi_sanity,
        f"--csi.endpoint=unix://{driver.socket}",
        f"--csi.mountdir={tmp_path / 'mount'}",
        f"--csi.stagingdir={tmp_path / 'staging'}",
        f"--ginkgo.json-report={report}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    specs = json.loads(report.read_text())[0]["SpecReports"]
    return [spec for spec in specs if spec["State"] == "passed" and spec["LeafNodeType"] == "It"]
