"""`pvc-prebinder health` and `pvc-prebinder quarantine`, as a person runs them beside a controller."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from devcluster.driver.health import VolumeFault
from tests import command_process
from tests.scenarios.environment.drivers import Directories, endpoint_flag
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.health.probed_volumes import quarantined, volumes, watched

FINE, ERROR, PROBLEM_FOUND = 0, 1, 3


async def command(world: World, *arguments: str, kubeconfig: Path | None = None) -> tuple[int | None, str, str]:
    """Return exit code, output and errors of a command on this world's cluster."""
    flags = [f"--kubeconfig={kubeconfig or world.cluster.kubeconfig}", f"--annotation-prefix={world.prefix}"]
    return await command_process.command(*arguments, *flags)


async def health_of(world: World, *arguments: str) -> tuple[int | None, dict[str, dict[str, Any]]]:
    code, out, error = await command(world, "health", "-o", "json", *arguments)
    assert not error
    rows = json.loads(out)["items"]
    return code, {row["volume"]: row for row in rows}


async def reads_with_the_view_role(world: World, well: str) -> None:
    """A user with it is shown what the Lease says, and nothing is missing."""
    account = await viewer(world)
    code, out, error = await command(world, "health", well, kubeconfig=account)
    assert (code, error) == (FINE, "")
    assert re.search(rf"{well} +Healthy +probed \d+s ago", out), out
    code, out, error = await command(world, "why", f"pv/{well}", "-o", "json", kubeconfig=account)
    assert (code, error) == (FINE, "")
    (item,) = json.loads(out)["items"]
    assert [
        entry["found"] for entry in item["evidence"] if re.fullmatch(r"Healthy, probed \d+s ago", entry["found"])
    ], item


async def viewer(world: World) -> Path:
    """Return a kubeconfig of a user with the role `view`, of which manifests/base makes its own a part."""
    name = f"{world.namespace}-views"
    subject = {"kind": "ServiceAccount", "name": "views", "namespace": world.namespace}
    about = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    documents = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "views", "namespace": world.namespace}},
        *(
            {**about, "metadata": {"name": f"{name}-{granted}"}, "roleRef": {**role, "name": granted}}
            | {"subjects": [subject]}
            for granted in ("view", "pvc-prebinder-view")
        ),
    ]
    await world.cluster.run_kubectl("apply", "-f", "-", given=yaml.safe_dump_all(documents))
    return await world.cluster.kubeconfig_for_service_account(world.namespace, "views")


async def probed(world: World, driver: Directories, name: str) -> tuple[int | None, str, str | None]:
    code, rows = await health_of(world, name, endpoint_flag(driver.driver))
    return code, rows[name]["health"], rows[name]["source"]


async def test_health_and_quarantine_on_the_command_line(own_world: World) -> None:
    disks = await own_world.storage_class(None)
    async with watched(own_world, "--quarantine") as (driver, controller):
        made = await volumes(own_world, driver, disks, 2)
        unhealthy, well = made
        assert await probed(own_world, driver, unhealthy) == (
            FINE,
            "Healthy",
            f"CSI driver {driver.driver.driver_name}",
        )
        driver.break_volume(made[unhealthy], VolumeFault.GONE)
        await eventually(partial(quarantined, own_world), lambda inside: inside == {unhealthy}, "it is in quarantine")

        code, rows = await eventually(
            partial(health_of, own_world, unhealthy, well),
            lambda result: result[1][well]["health"] == "Healthy",
            "the last sweep stands on the Lease",
        )
        assert code == PROBLEM_FOUND
        assert (rows[unhealthy]["health"], rows[unhealthy]["quarantined"]) == ("Inaccessible", True)
        lease = f"CSI driver {driver.driver.driver_name}, as reported on Lease {own_world.namespace}/pvc-prebinder"
        assert (rows[well]["reason"], rows[well]["source"]) == ("Probed", lease)
        assert rows[well]["probed"]
        await reads_with_the_view_role(own_world, well)
        assert (await probed(own_world, driver, unhealthy))[:2] == (PROBLEM_FOUND, "Inaccessible")
        code, out, _ = await command(own_world, "health", unhealthy, "-o", "wide")
        assert code == PROBLEM_FOUND
        assert "Inaccessible" in out

        code, out, _ = await command(own_world, "quarantine", "list")
        assert (code, unhealthy in out, well in out) == (FINE, True, False)
        code, _, error = await command(own_world, "quarantine", "release", well)
        assert (code, f'"{well}" is not in quarantine' in error) == (ERROR, True)
        code, _, error = await command(own_world, "health", "nowhere")
        missing = 'there is no PersistentVolume "nowhere"; list them: kubectl get pv'
        assert (code, error) == (ERROR, f"pvc-prebinder: {missing}\n")

        # Nobody looks after it any more.
        await controller.stop()
        marks = dict.fromkeys((f"{own_world.prefix}quarantine", f"{own_world.prefix}quarantined-at"))
        await own_world.admin.patch("PersistentVolume", unhealthy, {"metadata": {"annotations": marks}})
        code, out, _ = await command(own_world, "quarantine", "list", "-o", "json")
        assert (code, json.loads(out)["items"][0]["reason"]) == (FINE, "unknown: the annotations were removed")
        code, out, _ = await command(own_world, "quarantine", "release", unhealthy)
        assert (code, out) == (FINE, f"{unhealthy} released\n")
        assert await quarantined(own_world) == set()
        assert "claimRef" not in (await own_world.own_volumes())[unhealthy]["spec"]
        await controller.start()
        await eventually(
            partial(quarantined, own_world), lambda inside: inside == {unhealthy}, "a controller puts it back"
        )
