"""`pvc-prebinder doctor` on a real control plane: with the rights of the manifests, and with fewer."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import DevCluster
from prebinder.cli import main
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.drivers import Directories, endpoint_flag
from tests.scenarios.processes.controller import account

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def doctor(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, Any]]:
    code = await asyncio.to_thread(main, ["doctor", "-o", "json", *flags])
    return code, {check["check"]: check for check in json.loads(capsys.readouterr().out)}


async def test_the_manifests_grant_all_that_is_needed(
    cluster: DevCluster, rights: None, directories: Directories, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [f"--kubeconfig={await account(cluster)}", endpoint_flag(directories.driver)]
    code, checks = await doctor(capsys, *flags)
    assert [check for check in checks.values() if check["state"] != "ok" and "StorageClass" not in check["check"]] == []
    assert checks["CSI driver directory.csi.example"]["found"].startswith("responds")
    assert code == 0


async def test_what_is_missing_is_a_problem(
    cluster: DevCluster, admin: Admin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = await cluster.kubeconfig_for_service_account("default", "default")
    absent = f"--csi-endpoint=absent.csi.example=unix://{tmp_path}/csi.sock"
    code, checks = await doctor(capsys, f"--kubeconfig={bare}", absent)
    assert code == 3
    assert checks["patch persistentvolumes"]["meaning"] == "nothing can be reserved"
    assert checks["CSI driver absent.csi.example"]["state"] == "problem"
    assert checks["server version"]["state"] == "ok"
