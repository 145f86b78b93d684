"""The controller on a real control plane, as a process with the rights of its service account and no others.

Not faked: API server, scheduler, PV controller, RBAC, the CSI driver of Kubernetes' own tests. Pods carry our
scheduling gate, so that who is first is not a matter of chance.
"""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from devcluster.cluster import DevCluster
from devcluster.driver.process import Driver
from tests import driver_process
from tests.controller_process import controller
from tests.prebinder.story import PREFIX, Story
from tests.scenarios.processes.controller import COMPONENTS

MANIFESTS = Path(__file__).parents[3] / "manifests"
NAMESPACE = "pvc-prebinder-system"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/pvc-prebinder"
HANDLES = {"a-lost": "99", "b": "1", "c": "2", "d": "3"}
"""The driver has no volume 99, which would be taken first by its name."""


async def eventually(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait long: on a busy machine a process alone takes many seconds to start."""
    await driver_process.eventually(condition, what, seconds=120)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def account(cluster: DevCluster) -> Path:
    """A kubeconfig with the rights that the manifests give the controller, those of its components included."""
    base, components = MANIFESTS / "base", MANIFESTS / "components"
    files = [base / f"{name}.yaml" for name in ("namespace", "service_account", "cluster_role", "lease_role")]
    for file in [*files, *(components / name / "cluster_role.yaml" for name in COMPONENTS)]:
        await asyncio.to_thread(apply, cluster, file)
    return await cluster.kubeconfig_for_service_account(NAMESPACE, "pvc-prebinder")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def driver(cluster: DevCluster) -> AsyncIterator[Driver]:
    started = await cluster.start_mock_driver("prebinder-test.csi.example", volumes=8)
    yield started
    await started.stop()


def apply(cluster: DevCluster, file: Path) -> None:
    command: list[str | Path] = [cluster.kubectl, "--kubeconfig", cluster.kubeconfig]
    command += ["apply", "-n", NAMESPACE, "-f", file]
    subprocess.run(command, check=True, capture_output=True)


async def new_story(cluster: DevCluster, name: str, driver: Driver) -> Story:
    story = Story(cluster, name, driver.driver_name)
    await story.set_up(HANDLES)
    return story


@pytest.mark.parametrize("mode", ["annotate", "prebind", "complete"])
async def test_a_pod_runs_on_the_healthy_volumes_reserved_for_it(
    cluster: DevCluster, account: Path, driver: Driver, mode: str
) -> None:
    story = await new_story(cluster, f"story-{mode}", driver)
    flags = ["--annotation-prefix", PREFIX, "--mode", mode, "--lease-namespace", NAMESPACE]
    flags += ["--csi-endpoint", f"{driver.driver_name}={driver.endpoint}"]
    async with controller(account, *flags) as process:
        await eventually(process.ready, "ready")
        await story.create_pod("x", "y")
        created = f'pvc_prebinder_reservations_created_total{{storage_class="{story.name}"}} 2.0'
        await eventually(lambda: process.measured(created), created)
        await eventually(lambda: process.measured('leader_election_master_status{name="pvc-prebinder"} 1.0'), "leading")
        await eventually(story.running, "the pod runs")
        if mode != "annotate":
            bound = {(await story.claim(name))["spec"]["volumeName"] for name in ("x", "y")}
            assert bound == {f"{story.name}-b", f"{story.name}-c"}
        code, log = await process.stop()
    assert code == 0, log
    assert not (await story.get(LEASE))["spec"].get("holderIdentity"), "the Lease was not given back"
    assert "Traceback" not in log


async def test_a_dry_run_says_what_it_would_write_and_writes_nothing(
    cluster: DevCluster, account: Path, driver: Driver
) -> None:
    story = await new_story(cluster, "story-dry", driver)
    async with controller(account, "--annotation-prefix", PREFIX, "--dry-run", "--mode", "complete") as process:
        await eventually(process.ready, "ready")
        await story.create_pod("x")
        attempt = "pvc_prebinder_reservation_attempts_total{"
        attempt += 'binding_mode="WaitForFirstConsumer",dry_run="true",result="success"'
        await eventually(lambda: process.measured(f'{attempt},storage_class="story-dry"}} 1.0'), "an attempt")
        code, log = await process.stop()
    assert code == 0, log
    assert "would bind story-dry/" in log
    assert "x → story-dry-a-lost" in log
    claim, volume = await story.claim("x"), await story.volume("a-lost")
    assert PREFIX not in str(claim) + str(volume)
    assert "claimRef" not in volume["spec"]


async def test_a_standby_is_ready_and_takes_over(cluster: DevCluster, account: Path) -> None:
    leads = 'leader_election_master_status{name="takeover"} 1.0'
    flags = ["--lease-name", "takeover", "--lease-namespace", "default"]
    async with controller(cluster.kubeconfig, *flags) as first, controller(cluster.kubeconfig, *flags) as second:
        await eventually(first.ready, "the first is ready")
        await eventually(second.ready, "the second is ready")

        async def one_leads() -> bool:
            return await first.measured(leads) != await second.measured(leads)

        await eventually(one_leads, "one of them leads")
        leader, standby = (first, second) if await first.measured(leads) else (second, first)
        await leader.stop()
        await eventually(lambda: standby.measured(leads), "the other one leads")


async def test_without_an_api_server_it_lives_is_not_ready_and_says_why(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n"
    )
    async with controller(kubeconfig) as process:

        async def answers() -> bool:
            return (await process.page("/livez"))[0] == 200

        await eventually(answers, "/livez answers")
        status, text = await process.page("/readyz")
        assert status == 503
        assert "waiting for the API server to list" in text
        code, log = await process.stop()
    assert code == 0, log
    assert "Traceback" not in log
    assert "127.0.0.1:1" in log
