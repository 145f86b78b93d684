"""The chart: installed, upgraded to other values and another image, and removed by Helm, with nothing left."""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest
import yaml

from devcluster.build.image import NAME
from devcluster.cluster import DevCluster
from tests.e2e.driver import Driver
from tests.e2e.installation import SECONDS, controller_pods, everything, leader, undo_writes
from tests.manifests.tools import HELM, binary
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import MANIFESTS, SYSTEM

RELEASE = "pvc-prebinder"
SWITCHES = ("complete", "schedulingGate", "gatePolicy", "accountLimits")
ENFORCE = "pod-security.kubernetes.io/enforce=restricted"
NEXT_TAG = "0.1.1"


@pytest.mark.parametrize("helm", HELM)
async def test_installed_upgraded_and_removed_by_helm(
    bare_world: World, real: DevCluster, admin: Admin, driver: Driver, helm: str
) -> None:
    world = bare_world
    disks = await world.storage_class("complete")
    await world.volumes(disks, *(driver.volume(world, word, disks) for word in ("a", "b")))
    before = await everything(real)
    on = [flag for name in SWITCHES for flag in ("--set", f"{name}.enabled=true")]
    await real.run_kubectl("create", "namespace", SYSTEM)
    await real.run_kubectl("label", "namespace", SYSTEM, ENFORCE)
    await run_helm(real, helm, "install", RELEASE, str(MANIFESTS / "chart"), "--create-namespace", *on)
    assert "Succeeded" in await run_helm(real, helm, "test", RELEASE)
    await world.pod("first", {"data": claim_spec(disks)}, gated=True)
    await world.all_run("first", seconds=SECONDS)

    await real.node.tag(NAME, f"{NAME.rpartition(':')[0]}:{NEXT_TAG}")
    changed = ["--reset-then-reuse-values", "--set", f"image.tag={NEXT_TAG}", "--set", "config.health.quarantine=true"]
    await run_helm(real, helm, "upgrade", RELEASE, str(MANIFESTS / "chart"), *changed)
    pods = await controller_pods(real)
    images = {each["image"] for pod in pods.values() for each in pod["spec"]["containers"]}
    assert images == {f"pvc-prebinder:{NEXT_TAG}"}
    assert (await configuration(real))["health"] == {"quarantine": True}
    assert await leader(admin) in pods
    await world.pod("second", {"more": claim_spec(disks)}, gated=True)
    await world.all_run("first", "second", seconds=SECONDS)
    bound = await world.bound()

    await undo_writes(real)
    await run_helm(real, helm, "uninstall", RELEASE)
    await real.run_kubectl("delete", "namespace", SYSTEM, f"--timeout={SECONDS:.0f}s")
    # What an earlier story removed may have been on its way out when the story began.
    await eventually(partial(everything, real), lambda now: now <= before, "nothing more is left", SECONDS)
    assert await world.bound() == bound
    assert set((await world.pod_phases()).values()) == {"Running"}


async def run_helm(cluster: DevCluster, name: str, action: str, *arguments: str) -> str:
    wait = [] if action == "test" else ["--wait"]
    command: list[str | Path] = [binary(HELM[name], name), action, *arguments, "--namespace", SYSTEM, *wait]
    process = await asyncio.create_subprocess_exec(
        *command,
        f"--timeout={SECONDS:.0f}s",
        f"--kubeconfig={cluster.kubeconfig}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    return printed.decode()


async def configuration(cluster: DevCluster) -> dict[str, object]:
    shown = await cluster.run_kubectl("-n", SYSTEM, "get", "configmap", "pvc-prebinder-config", "--output", "json")
    content: dict[str, object] = yaml.safe_load(json.loads(shown)["data"]["config.yaml"])
    return content
