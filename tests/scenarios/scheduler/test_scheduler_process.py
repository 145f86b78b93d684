"""`pvc-prebinder scheduler` as a process on a real control plane, with the rights of its manifests and no others."""

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from devcluster.control_plane.nodes import spread
from tests.command_process import command
from tests.controller_process import running
from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.scheduler_pods import pod
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World, lived_in
from tests.scenarios.processes.controller import SYSTEM, apply_manifests
from tests.scenarios.processes.scheduler_process import (
    ACCOUNT,
    HEAD,
    LEASE,
    ended,
    event_about,
    flags,
    is_leading,
    leads,
    preempts,
    schedules_with_volumes,
    stopped,
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def account(cluster: DevCluster) -> Path:
    """A kubeconfig with the rights that the component grants."""
    await apply_manifests(cluster, ["scheduler"])
    return await cluster.kubeconfig_for_service_account(SYSTEM, ACCOUNT)


async def test_the_manifests_grant_all_that_scheduling_takes(
    cluster: DevCluster, own_world: World, account: Path
) -> None:
    code, out, _ = await command("doctor", "--scheduler", "-o", "json", f"--kubeconfig={account}")
    assert [check for check in json.loads(out)["items"] if check["state"] != "ok"] == []
    assert code == 0
    async with running("scheduler", account, *flags(own_world)) as process:
        await is_leading(process)
        await schedules_with_volumes(own_world)
        await preempts(own_world)
        _, metrics = await process.page("/metrics")
        await stopped(process)
    assert "scheduler_preemption_attempts_total 1.0" in metrics
    assert f'scheduler_schedule_attempts_total{{profile="{own_world.namespace}",result="error"}} 0.0' in metrics
    assert 'pvc_prebinder_scheduler_node_requested_ratio{resource="cpu",stat="max",zone="zone-a"}' in metrics
    lease = await own_world.admin.get("Lease", LEASE, SYSTEM)
    assert not lease["spec"].get("holderIdentity"), "the Lease was not given back"


async def test_a_changed_configuration_is_applied_and_a_wrong_one_is_reported(
    own_world: World, account: Path, tmp_path: Path
) -> None:
    file, profile = tmp_path / "scheduler.yaml", f"- schedulerName: {own_world.namespace}\n"
    file.write_text(HEAD + profile)
    successful = "pvc_prebinder_config_last_reload_successful"
    chosen = [f"--config={file}", *flags(own_world)[2:]]
    async with running("scheduler", account, *chosen) as process:
        await is_leading(process)
        file.write_text(HEAD + profile + "  scores: {BinPack: heavy}\n")
        rejected = await event_about(own_world, SYSTEM, "ConfigRejected", LEASE)
        assert 'profiles[0].scores.BinPack: expected a whole number, found "heavy" (line 5)' in rejected["note"]
        await eventually(lambda: process.measured(f"{successful} 0.0"), bool, "the metric says that it failed")
        await own_world.admin.create(pod(own_world, "meanwhile"))
        await own_world.all_run("meanwhile")
        # Without filters the first pod fits although no node has what its selector names.
        nowhere = pod(own_world, "nowhere", nodeSelector={"none": "such"})
        await own_world.admin.create(nowhere)
        await event_about(own_world, own_world.namespace, "FailedScheduling", "nowhere")
        file.write_text(HEAD + profile + "  filters: [TaintToleration]\n")
        await event_about(own_world, SYSTEM, "ConfigReloaded", LEASE)
        await eventually(lambda: process.measured(f"{successful} 1.0"), bool, "the metric says that it worked")

        async def placed() -> object:
            return (await own_world.pods())["nowhere"]["spec"].get("nodeName")

        await eventually(placed, bool, "the pod that fitted nowhere is tried by the new rules")
        log = await stopped(process)
    assert "Configuration rejected; the previous one stays in force" in log


async def test_claims_that_are_never_bound_are_given_up_in_time(own_world: World, account: Path) -> None:
    made = await own_world.storage_class(None, "made", provisioner="none.example")
    await own_world.admin.create(documents.claim(own_world.namespace, "new", claim_spec(made)))
    await own_world.admin.create(pod(own_world, "waits", "new"))
    async with running("scheduler", account, *flags(own_world), "--bind-timeout", "1s") as process:
        rejected = await event_about(own_world, own_world.namespace, "FailedScheduling", "waits")
        await stopped(process)
    assert "claims bound within 1 s" in rejected["note"]


async def test_a_standby_takes_over(own_world: World, account: Path) -> None:
    chosen = flags(own_world)
    async with running("scheduler", account, *chosen) as first, running("scheduler", account, *chosen) as second:
        await eventually(first.ready, bool, "the first is ready", 120)
        await eventually(second.ready, bool, "the second is ready", 120)

        async def leaders() -> int:
            return await leads(first) + await leads(second)

        await eventually(leaders, lambda count: count == 1, "one of them leads")
        leader, standby = (first, second) if await leads(first) else (second, first)
        await own_world.admin.create(pod(own_world, "before"))
        await own_world.all_run("before")
        await stopped(leader)
        await own_world.admin.create(pod(own_world, "after"))
        await own_world.all_run("after")
        assert "scheduler_pending_pods" in (await standby.page("/metrics"))[1]
        await stopped(standby)


async def test_a_leader_that_was_asleep_gives_way_and_leads_again_later(own_world: World, account: Path) -> None:
    chosen = flags(own_world)
    async with running("scheduler", account, *chosen) as first:
        await is_leading(first)
        await own_world.admin.create(pod(own_world, "before"))
        await own_world.all_run("before")
        async with running("scheduler", account, *chosen) as second:
            await eventually(second.ready, bool, "the second is ready", 120)
            first.process.send_signal(signal.SIGSTOP)
            await own_world.admin.create_at_once(pod(own_world, f"asleep-{number}") for number in range(5))
            await is_leading(second)
            first.process.send_signal(signal.SIGCONT)
            await own_world.all_run(*(f"asleep-{number}" for number in range(5)))

            async def stands_by() -> bool:
                return await first.ready() and not await leads(first)

            await eventually(stands_by, bool, "the first has given way")
            await stopped(second)
        await is_leading(first)
        await own_world.admin.create_at_once(pod(own_world, f"after-{number}") for number in range(5))
        await own_world.all_run(*(f"after-{number}" for number in range(5)))
        assert "Lost the lease" in await stopped(first)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fragile() -> AsyncIterator[DevCluster]:
    """A control plane of its own, which the stories of others do not have to share."""
    async with DevCluster(Options()) as cluster:
        await cluster.add_nodes(spread(3))
        await apply_manifests(cluster, ["scheduler"])
        yield cluster


@pytest.mark.cluster
async def test_it_continues_when_the_api_server_is_back(fragile: DevCluster) -> None:
    kubeconfig = await fragile.kubeconfig_for_service_account(SYSTEM, ACCOUNT)
    async with (
        Admin(fragile) as admin,
        lived_in(World(fragile, admin)) as world,
        running("scheduler", kubeconfig, *flags(world)) as process,
    ):
        await is_leading(process)
        await admin.create_at_once(pod(world, f"before-{number}") for number in range(20))
        await fragile.apiserver.kill()
        assert (await process.page("/livez"))[0] == 200
        await fragile.apiserver.start()
        await world.all_run(*(f"before-{number}" for number in range(20)), seconds=120)
        await admin.create_at_once(pod(world, f"after-{number}") for number in range(20))
        await world.all_run(*(f"after-{number}" for number in range(20)), seconds=120)
        # An API server that has just started forbids everything until it has read the roles.
        await ended(process)
