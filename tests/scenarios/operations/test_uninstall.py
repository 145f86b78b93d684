"""`pvc-prebinder uninstall` leaves the objects of a cluster as they were before the controller came."""

from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from devcluster.cluster import DevCluster
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import MANIFESTS, SYSTEM, start_controller
from tests.scenarios.processes.uninstall_command import (
    arrange,
    lease_read_right,
    marked,
    own_driver,
    state,
    uninstall,
)

ROLE = MANIFESTS / "uninstall"
ROLES = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


@pytest_asyncio.fixture
async def account(cluster: DevCluster, rights: None) -> Path:
    """A kubeconfig with the rights of manifests/uninstall and no others."""
    built = yaml.safe_load_all(await cluster.run_kubectl("kustomize", str(ROLE)))
    # The policies are for the default annotation prefix: tests/scenarios/accounts has them.
    kept = [document for document in built if document["kind"] in {"ServiceAccount", *ROLES}]
    await cluster.run_kubectl("apply", "-f", "-", given=yaml.safe_dump_all(kept))
    return await cluster.kubeconfig_for_service_account(SYSTEM, "pvc-prebinder-uninstall")


@pytest.mark.parametrize("mode", ["annotate", "prebind"])
async def test_everything_is_as_before_when_the_command_has_run(own_world: World, account: Path, mode: str) -> None:
    world = own_world
    await lease_read_right(world)
    async with own_driver(world) as driver:
        good, lost = await arrange(world, mode, driver)
        # Else the PV controller would bind what mode prebind commits, and that stays.
        async with world.pv_controller_paused():
            before = await state(world)
            await marked(world, lost, driver)
            after = await state(world)
            assert after[f"volume {good}"]["spec"].get("claimRef", {}).get("name") == (
                "data" if mode == "prebind" else None
            )
            code, would, _ = await uninstall(world, account, "--dry-run")
            assert code == 0
            assert await state(world) == after
            code, out, error = await uninstall(world, account)
            assert (code, error) == (0, "")
            assert out == would.replace("would be: ", "")
            assert f"Pod {world.namespace}/big: scheduling gate removed" in out
            assert f"PersistentVolume {world.name('lost')}: quarantine released, annotations removed" in out
            for pod in ("app", "big"):
                del before[f"pod {pod}"]["spec"]["schedulingGates"]
            assert await state(world) == before
            _, again, _ = await uninstall(world, account)
            assert again == f"Nothing with the prefix {world.prefix} is left.\n"


async def test_only_gates_are_removed_when_no_controller_will(own_world: World, account: Path) -> None:
    world = own_world
    await lease_read_right(world)
    disks = await world.storage_class("complete")
    await world.volumes(disks, world.volume("v", disks, zone="zone-a"))
    await world.pod("app", {"data": claim_spec(disks)}, gated=True)
    code, out, _ = await uninstall(world, account, "--only", "gates")
    assert (code, out) == (0, f"Pod {world.namespace}/app: scheduling gate removed\n")
    await world.all_run("app")


async def test_a_running_controller_is_not_undone(own_world: World, account: Path) -> None:
    world = own_world
    await lease_read_right(world)
    controller = await start_controller(world)
    await eventually(
        lambda: world.admin.find("Lease", "pvc-prebinder", world.namespace),
        lambda lease: lease and lease["spec"].get("holderIdentity"),
        "it leads",
    )
    code, out, error = await uninstall(world, account)
    assert (code, out) == (1, "")
    assert f"holds the Lease {world.namespace}/pvc-prebinder" in error
    await controller.stop()
    code, out, _ = await uninstall(world, account)
    assert code == 0
    assert out == f"Nothing with the prefix {world.prefix} is left.\n"
