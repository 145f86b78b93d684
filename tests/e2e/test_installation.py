"""manifests/base as it is shipped, on a node that runs containers."""

import asyncio
import json
from functools import partial

import pytest

from devcluster.cluster import DevCluster
from tests.e2e.driver import Driver
from tests.e2e.installation import CONTROLLER, SECONDS, controller_pods, leader, rolled_out
from tests.scenarios.environment.admin import Admin, Document
from tests.scenarios.environment.bindings import PRODUCT, writers
from tests.scenarios.environment.documents import PREFIX, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import SYSTEM

PODS, CLAIMS = 10, 5


def is_ready(pod: Document) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


async def test_two_replicas_run_under_restricted_with_the_projected_token(
    real: DevCluster, admin: Admin, installed: None
) -> None:
    namespace = await admin.get("Namespace", SYSTEM)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pods = await controller_pods(real)
    assert len(pods) == 2
    assert all(is_ready(pod) for pod in pods.values())
    assert [each["restartCount"] for pod in pods.values() for each in pod["status"]["containerStatuses"]] == [0, 0]
    sources = [list(each) for pod in pods.values() for volume in pod["spec"]["volumes"] for each in projected(volume)]
    assert sources.count(["serviceAccountToken"]) == 2
    assert await leader(admin) in pods


def projected(volume: Document) -> list[Document]:
    sources: list[Document] = volume.get("projected", {}).get("sources", [])
    return sources


async def test_metrics_are_served_by_every_replica(real: DevCluster, installed: None) -> None:
    for name in await controller_pods(real):
        path = f"/api/v1/namespaces/{SYSTEM}/pods/{name}:8080/proxy/metrics"
        assert "pvc_prebinder_" in await real.run_kubectl("get", "--raw", path)


@pytest.mark.parametrize("end", ["deleted", "killed"])
async def test_another_replica_continues_in_the_middle_of_fifty_binds(
    world: World, real: DevCluster, admin: Admin, driver: Driver, end: str
) -> None:
    disks = await storage(world, driver)
    first = await leader(admin)
    await pods_with_claims(world, disks, range(PODS // 2))
    await eventually(world.bound, lambda bound: bound, "the first claims are bound", SECONDS)
    grace = "30" if end == "deleted" else "0"
    flags = [f"--grace-period={grace}", "--wait=false", *(["--force"] if end == "killed" else [])]
    await real.run_kubectl("-n", SYSTEM, "delete", "pod", first, *flags)
    await pods_with_claims(world, disks, range(PODS // 2, PODS - 1))
    await eventually(partial(leader, admin), lambda name: name != first, "another replica leads", SECONDS)
    await pods_with_claims(world, disks, range(PODS - 1, PODS))
    await all_bound(world)
    await rolled_out(real, "deployment/pvc-prebinder")


async def test_a_rolling_upgrade_loses_no_bind(world: World, real: DevCluster, admin: Admin, driver: Driver) -> None:
    disks = await storage(world, driver)
    before = set(await controller_pods(real))
    await pods_with_claims(world, disks, range(PODS // 2))
    await real.run_kubectl("-n", SYSTEM, "rollout", "restart", "deployment/pvc-prebinder")
    creating = asyncio.create_task(pods_with_claims(world, disks, range(PODS // 2, PODS)))
    await rolled_out(real, "deployment/pvc-prebinder")
    await creating
    await all_bound(world)
    after = await eventually(
        lambda: controller_pods(real), lambda pods: len(pods) == 2 and not before & set(pods), "only new pods", SECONDS
    )
    assert await leader(admin) in after
    # A replica that is told to end does so by itself: nobody had to kill it.
    reasons = await real.run_kubectl(
        "-n", SYSTEM, "get", "events", "--output", "jsonpath={.items[*].reason}", "--selector", CONTROLLER
    )
    assert "ExceededGracePeriod" not in reasons


async def storage(world: World, driver: Driver) -> str:
    """Return a class of mode complete with fifty volumes."""
    disks = await world.storage_class("complete")
    await world.volumes(disks, *(driver.volume(world, f"v{number}", disks) for number in range(PODS * CLAIMS)))
    return disks


async def pods_with_claims(world: World, storage_class: str, numbers: range) -> None:
    for number in numbers:
        claims = {f"c{number}-{each}": claim_spec(storage_class) for each in range(CLAIMS)}
        await world.pod(f"p{number}", claims, gated=True)


async def all_bound(world: World) -> None:
    """Every claim has a volume of its own, and only the controller has bound it."""
    bound = await eventually(world.bound, lambda bound: len(bound) == PODS * CLAIMS, "all claims are bound", SECONDS)
    assert len(set(bound.values())) == PODS * CLAIMS
    # The PV controller helps: what it sees on a volume of ours it may write to the claim before we do.
    volumes = await world.own_volumes()
    assert [name for name in bound.values() if PRODUCT not in writers(volumes[name])] == []


async def test_pods_of_a_labelled_namespace_are_gated_bound_and_run(
    world: World, real: DevCluster, driver: Driver
) -> None:
    disks = await world.storage_class("complete")
    volumes = await world.volumes(disks, *(driver.volume(world, word, disks) for word in ("a", "b")))
    await world.admin.patch("Namespace", world.namespace, {"metadata": {"labels": {f"{PREFIX}gate": "enabled"}}})
    claims = {"data": claim_spec(disks), "log": claim_spec(disks)}
    documents = world.pod_documents("app", claims)
    pod = documents[-1]
    assert "schedulingGates" not in pod["spec"]

    # The API server heeds a new policy, and a new label, a moment after it has accepted them.
    async def gates() -> list[Document]:
        shown = await real.run_kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", given=json.dumps(pod))
        gates: list[Document] = json.loads(shown)["spec"].get("schedulingGates", [])
        return gates

    await eventually(gates, lambda gates: gates == [{"name": f"{PREFIX}volumes"}], "new pods are gated", SECONDS)
    created = (await world.admin.create(*documents))[-1]
    assert created["spec"]["schedulingGates"] == [{"name": f"{PREFIX}volumes"}]
    await world.all_run("app", seconds=SECONDS)
    assert set((await world.bound()).values()) == set(volumes)
