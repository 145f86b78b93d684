"""`pvc-prebinder uninstall` leaves the objects of a cluster as they were before the controller came."""

import asyncio
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from devcluster.cluster import DevCluster
from tests.running_task import running
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
    assert f"holds the Lease {world.namespace}/pvc-prebinder and renews it" in error
    await controller.stop()
    code, out, _ = await uninstall(world, account)
    assert code == 0
    assert out == f"Nothing with the prefix {world.prefix} is left.\n"


async def waits_behind_a_gate(world: World) -> None:
    await world.pod("app", {}, gated=True)


async def is_gated(world: World) -> bool:
    return "schedulingGates" in (await world.pods())["app"]["spec"]


async def test_a_leader_whose_clock_is_behind_is_not_undone(own_world: World, account: Path) -> None:
    world = own_world
    await lease_read_right(world)
    await waits_behind_a_gate(world)
    spec = {"holderIdentity": "behind_1", "leaseDurationSeconds": 15, "leaseTransitions": 1}
    metadata = {"name": "pvc-prebinder", "namespace": world.namespace}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    await world.admin.create(lease)

    async def renew() -> None:
        for second in range(60):
            renewed = {"spec": {"renewTime": f"2020-01-01T00:00:{second:02}.000000Z"}}
            await world.admin.patch("Lease", "pvc-prebinder", renewed, world.namespace)
            await asyncio.sleep(1)

    async with running(renew()):
        code, out, error = await uninstall(world, account)
    assert (code, out) == (1, "")
    assert f"behind_1 holds the Lease {world.namespace}/pvc-prebinder and renews it" in error
    assert await is_gated(world)


async def test_a_controller_without_a_lease_is_not_undone(own_world: World, account: Path) -> None:
    """kwok runs no containers: the pod is what an administrator sees of such a controller."""
    world = own_world
    await lease_read_right(world)
    await waits_behind_a_gate(world)
    (unelected,) = world.pod_documents("unelected", {})
    unelected["spec"]["containers"][0] |= {
        "image": "registry.example.com/pvc-prebinder:0.1.0",
        "args": ["controller", "--leader-elect=false"],
    }
    await world.admin.create(unelected)
    code, out, error = await uninstall(world, account)
    assert (code, out) == (1, "")
    assert error == (
        f"pvc-prebinder: pod {world.namespace}/unelected runs `pvc-prebinder controller`. "
        f"Delete it: kubectl -n {world.namespace} delete pod unelected\n"
    )
    assert await is_gated(world)
    await world.admin.delete("Pod", "unelected", world.namespace)
    code, out, _ = await uninstall(world, account)
    assert (code, out) == (0, f"Pod {world.namespace}/app: scheduling gate removed\n")


async def test_the_lease_of_a_killed_controller_is_waited_for(own_world: World, account: Path) -> None:
    world = own_world
    await lease_read_right(world)
    controller = await start_controller(world)
    lease = await eventually(
        lambda: world.admin.find("Lease", "pvc-prebinder", world.namespace),
        lambda lease: lease and lease["spec"].get("holderIdentity"),
        "it leads",
    )
    await controller.kill()
    await waits_behind_a_gate(world)
    code, out, error = await uninstall(world, account)
    assert lease is not None
    holder = lease["spec"]["holderIdentity"]
    assert error == (
        f"pvc-prebinder: waiting 15 s to see whether {holder} still renews the Lease {world.namespace}/pvc-prebinder\n"
    )
    assert (code, out) == (0, f"Pod {world.namespace}/app: scheduling gate removed\n")
