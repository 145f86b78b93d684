"""The directory driver is a correct CSI driver in every generation: by the conformance tests of the CSI project.

None is skipped here; csi-sanity itself leaves out what a driver does not announce.
"""

import asyncio
import json
from pathlib import Path

import pytest

from devcluster.build import binaries
from devcluster.driver.generation import Generation
from tests.driver_process import DriverProcess

NAME = "directory.csi.example"
TOPOLOGY = ["--topology", "topology.kubernetes.io/zone=a"]


@pytest.fixture(scope="module")
def csi_sanity() -> Path:
    return binaries.ensure([binaries.SANITY])["csi-sanity"]


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
    report = tmp_path / "report.json"
    async with DriverProcess(tmp_path, NAME, "--generation", generation, *topology) as driver:
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
    passed = [spec for spec in specs if spec["State"] == "passed" and spec["LeafNodeType"] == "It"]
    # Guards against a driver that announces nothing and so is asked nothing.
    assert len(passed) >= applicable
