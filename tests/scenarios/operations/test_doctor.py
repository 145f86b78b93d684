"""`pvc-prebinder doctor` on a real control plane: with the rights of the manifests, and with fewer."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from binder.health.published_sweeps import sweeps_annotation
from binder.reservation.contract import Annotations
from csi.health.complete_sweep import SweepReport
from devcluster.cluster import DevCluster
from prebinder.cli import main
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.drivers import Directories, endpoint_flag
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import account, start_controller

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def doctor(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, Any]]:
    code = await asyncio.to_thread(main, ["doctor", "-o", "json", *flags])
    return code, {check["check"]: check for check in json.loads(capsys.readouterr().out)["items"]}


async def test_the_manifests_grant_all_that_is_needed(
    cluster: DevCluster, rights: None, directories: Directories, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [f"--kubeconfig={await account(cluster)}", endpoint_flag(directories.driver)]
    code, checks = await doctor(capsys, *flags)
    # The components karpenter, holds and snapshots are not applied.
    of_components = ("list nodepools.karpenter.sh", "list statefulsets.apps and 5 more", "get volumesnapshots")
    of_stories = ("StorageClass", "CSI driver", "volumes of type", "installation", *of_components)
    problems = [check for check in checks.values() if check["state"] != "ok"]
    assert [check for check in problems if not check["check"].startswith(of_stories)] == []
    assert checks["scheduling gate"]["found"].startswith("possible by components/gate-policy")
    assert checks["CSI driver directory.csi.example"]["state"] == "ok"
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


async def test_for_each_driver_the_process_that_probes_its_volumes_is_reported(
    cluster: DevCluster, own_world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world = own_world
    disks, driver = await world.storage_class("prebind"), f"{world.namespace}.csi.example"
    await world.volumes(disks, world.volume("a", disks, zone="zone-a", driver=driver, handle="a"))
    flags = [f"--kubeconfig={cluster.kubeconfig}", f"--annotation-prefix={world.prefix}"]
    _, checks = await doctor(capsys, *flags)
    assert checks[f"StorageClass {disks}"]["state"] == "ok"
    assert checks[f"CSI driver {driver}"]["found"] == "1 volume, not probed"

    now = datetime.now(UTC)
    report = SweepReport(driver, now, now, timedelta(minutes=1), version=0, volumes=1)
    annotations = sweeps_annotation({driver: report}, Annotations(world.prefix))
    await world.admin.create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "agent", "namespace": world.namespace, "annotations": annotations},
        }
    )
    _, checks = await doctor(capsys, *flags)
    assert checks[f"CSI driver {driver}"]["state"] == "ok"
    assert checks[f"CSI driver {driver}"]["found"].endswith(f"as reported on Lease {world.namespace}/agent")


async def test_the_running_controller_is_reported_not_only_what_the_cluster_offers(
    cluster: DevCluster, own_world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world = own_world
    flags = [f"--kubeconfig={cluster.kubeconfig}", f"--lease-namespace={world.namespace}"]
    _, checks = await doctor(capsys, *flags)
    assert checks["installation"]["found"] == f"none in namespace {world.namespace}"
    code, checks = await doctor(capsys, *flags, "--wait", "1s")
    assert (code, checks["wait"]["found"]) == (3, "not ready within 1s")

    controller = await start_controller(world)
    lease = f"Lease {world.namespace}/pvc-prebinder"
    code, checks = await doctor(capsys, *flags)
    assert checks[lease]["state"] == "ok"
    assert checks["controller"]["found"] == f"no pod in namespace {world.namespace}"
    await controller.stop()
    code, checks = await doctor(capsys, *flags)
    assert (code, checks[lease]["state"], checks[lease]["found"]) == (3, "problem", "held by no one")
