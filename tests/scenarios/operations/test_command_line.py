"""The command as its user meets it: what it says when it cannot start, in a dry run, and in its metrics."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import Controller, start_controller
from tests.scenarios.processes.proxy import Proxy

NOWHERE = """\
apiVersion: v1
kind: Config
current-context: %s
clusters: [{name: here, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {token: t}}]
"""

UNUSABLE = {
    "missing": (None, "does not exist"),
    "not-yaml": ("{", "flow node"),
    "not-a-config": ("[1, 2]", "not a kubeconfig"),
    "unknown-context": (NOWHERE % "there", "there"),
    "empty": ("", "not a kubeconfig"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_without_a_usable_kubeconfig_there_is_one_clear_error(tmp_path: Path, case: str) -> None:
    text, named = UNUSABLE[case]
    file = tmp_path / "kubeconfig"
    if text is not None:
        file.write_text(text)
    command = [sys.executable, "-m", "prebinder.cli", "controller", f"--kubeconfig={file}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    (line,) = [each for each in ended.stderr.splitlines() if each.startswith("pvc-prebinder: ")]
    assert "Traceback" not in ended.stderr
    assert named.lower() in line.lower()
    assert str(file) in line


async def test_a_dry_run_writes_nothing_at_all_and_says_what_it_would(own_world: World) -> None:
    world = own_world
    disks = {mode: await world.storage_class(mode, mode) for mode in ("annotate", "prebind", "complete")}
    for mode, name in disks.items():
        await world.volumes(name, world.volume(mode, name, zone="zone-a"))
        await world.pod(f"{mode}-app", {mode: claim_spec(name)}, gated=True)
        await world.pod(f"{mode}-big", {f"{mode}-big": claim_spec(name, "1Ti")}, gated=True)
    dynamic = await world.storage_class("complete", "dynamic", provisioner="csi.example.com")
    async with Proxy(world.cluster) as proxy:
        kubeconfig = proxy.kubeconfig_for(await read_only_account(world))
        controller = await start_controller(world, "--dry-run", kubeconfig=kubeconfig)
        await logged(controller, f"Claims of the class are not handled storage_class={dynamic} reason=DynamicClass")
        for mode in disks:
            verb = "would reserve for" if mode == "annotate" else "would bind"
            line = f"{verb} {world.namespace}/{mode}-app in zone-a: {mode} → {world.name(mode)}\n"
            await logged(controller, line)
        await logged(controller, "3 pods would get volumes, 3 would not.\n")
        await logged(controller, f"  3 StaticOnlyNoMatch, such as {world.namespace}/annotate-big. Add a volume")
        await logged(controller, "Nothing was written.\n")
        await world.pod("later", {"later": claim_spec(disks["prebind"], "1Ti")}, gated=True)
        await logged(controller, f"no volumes for {world.namespace}/later: StaticOnlyNoMatch: Add a volume")
        await controller.stop()
        assert "Would write" not in controller.log()
        assert "Publishing Event" not in controller.log()
        assert [(call.method, call.path) for call in proxy.calls if call.writes] == []
    assert await world.admin.find("Lease", "pvc-prebinder", world.namespace) is None
    assert await world.reserved() == {}
    assert await world.held() == {}
    assert "Traceback" not in controller.log()


@pytest.mark.parametrize(("size", "code"), [("1Gi", 0), ("1Ti", 3)])
async def test_a_dry_run_of_one_pass_ends_with_an_exit_code(own_world: World, size: str, code: int) -> None:
    world = own_world
    disks = await world.storage_class("complete")
    await world.volumes(disks, world.volume("v", disks, zone="zone-b"))
    await eventually(world.volume_phases, lambda phases: set(phases.values()) == {"Available"}, "it is Available")
    await world.pod("app", {"data": claim_spec(disks, size)}, gated=True)
    command = [sys.executable, "-m", "prebinder.cli", "controller", "--dry-run", "--once", "--mode=off"]
    command += [f"--kubeconfig={world.cluster.kubeconfig}", f"--annotation-prefix={world.prefix}"]
    command += ["--health-bind-address=127.0.0.1:0", "--metrics-bind-address=127.0.0.1:0"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    assert process.returncode == code, out.decode()
    served = f"would bind {world.namespace}/app in zone-b: data → {world.name('v')}\n"
    assert (served in out.decode()) == (code == 0)
    assert out.decode().endswith("Nothing was written.\n")
    assert await world.reserved() == {}


async def read_only_account(world: World) -> Path:
    """Return a kubeconfig of a user who may read everything and write nothing."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{world.namespace}-reads"}
    about = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": role["name"]}}
    subject = {"kind": "ServiceAccount", "name": "reads", "namespace": world.namespace}
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    documents = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reads", "namespace": world.namespace}},
        {**about, "kind": "ClusterRole", "rules": [rule]},
        {**about, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
    ]
    await world.cluster.run_kubectl("apply", "-f", "-", given=yaml.safe_dump_all(documents))
    return await world.cluster.kubeconfig_for_service_account(world.namespace, "reads")


async def logged(controller: Controller, text: str) -> None:
    async def log() -> str:
        return controller.log()

    await eventually(log, lambda output: text in output, f"it says: {text}")


NAMES = frozenset(
    {
        "pvc_prebinder_reservation_attempts_total",
        "pvc_prebinder_reservation_failures_total",
        "pvc_prebinder_bind_duration_seconds_count",
        "pvc_prebinder_pending_claims",
        "pvc_prebinder_oldest_pending_claim_seconds",
        "pvc_prebinder_reservations",
        "pvc_prebinder_reservations_created_total",
        "pvc_prebinder_reservation_releases_total",
        "pvc_prebinder_reservation_hold_seconds_count",
        "pvc_prebinder_write_conflicts_total",
        "pvc_prebinder_malformed_objects_total",
        "pvc_prebinder_watch_restarts_total",
        "pvc_prebinder_cache_synced",
        "pvc_prebinder_cache_last_event_timestamp_seconds",
        "pvc_prebinder_cache_drift_objects",
        "pvc_prebinder_events_total",
        "pvc_prebinder_build_info",
        "pvc_prebinder_event_loop_lag_seconds",
        "pvc_prebinder_jobs_skipped_total",
        "leader_election_master_status",
        "rest_client_requests_total",
        "rest_client_request_duration_seconds_count",
        "workqueue_depth",
        "workqueue_adds_total",
        "workqueue_queue_duration_seconds_count",
        "workqueue_work_duration_seconds_count",
        "workqueue_retries_total",
        "workqueue_unfinished_work_seconds",
        "workqueue_longest_running_processor_seconds",
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
    }
)


async def missing(controller: Controller) -> frozenset[str]:
    return NAMES - {name for name, _, _ in await controller.samples()}


async def test_the_metrics_of_a_working_controller(own_world: World) -> None:
    world = own_world
    controller = await start_controller(world)
    disks = await world.storage_class("annotate")
    await world.volumes(disks, world.volume("one", disks, zone="zone-a"))
    await world.pod("app", {"data": claim_spec(disks)}, extra={"schedulerName": "nobody"})
    await world.pod("big", {"big": claim_spec(disks, "1Ti")})
    of_class = {"storage_class": disks}
    await eventually(
        lambda: controller.metric("pvc_prebinder_pending_claims", **of_class),
        lambda pending: pending == 2,
        "two claims wait",
    )
    await eventually(lambda: missing(controller), lambda names: not names, "all metrics are there")
    assert await controller.metric("pvc_prebinder_reservations_created_total", **of_class) == 1
    assert await controller.metric("pvc_prebinder_reservations", **of_class, zone="zone-a") == 1
    assert (
        await controller.metric("pvc_prebinder_reservation_failures_total", **of_class, reason="StaticOnlyNoMatch") >= 1
    )
    assert await controller.metric("leader_election_master_status") == 1
    await controller.stop()
