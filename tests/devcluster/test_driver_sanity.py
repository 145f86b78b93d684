"""The directory driver is a correct CSI driver: by the conformance tests of the CSI project, all that apply."""

import asyncio
import json
from pathlib import Path

import pytest

from devcluster import build
from tests.driver_process import DriverProcess

NAME = "directory.csi.example"
TOPOLOGY = ["--topology", "topology.kubernetes.io/zone=a"]


@pytest.fixture(scope="module")
def csi_sanity() -> Path:
    return build.ensure([build.SANITY])["csi-sanity"]


@pytest.mark.parametrize("arguments", [[], TOPOLOGY], ids=["of a host", "of a zone"])
async def test_csi_sanity(csi_sanity: Path, tmp_path: Path, arguments: list[str]) -> None:
    report = tmp_path / "report.json"
    async with DriverProcess(tmp_path, NAME, *arguments) as driver:
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
    assert len(passed) >= 36
