"""The standalone scheduler with plugins of other distributions: the example of docs/plugins.md, and one that raises."""

from pathlib import Path

import pytest_asyncio

from devcluster.cluster import DevCluster
from tests.controller_process import running
from tests.prebinder.distributions import FILES, environment, install
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import HOSTNAME
from tests.scenarios.environment.scheduler_pods import condition, pod, rejected
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import SYSTEM, apply_manifests

ACCOUNT = "pvc-prebinder-scheduler"
"""The name of the Lease, too."""

MOODY = """\
from scheduler.framework.plugin import Filter


class Moody(Filter):
    name = "Moody"

    def rule(self, info, cluster):
        if any(key == "annoying" for key, _ in info.pod.labels):
            raise KeyError("mood")
        return None
"""
CONFIGURATION = FILES["scheduler.yaml"].replace("Licenses]", "Licenses, Moody]").replace("perNode: 2", "perNode: 1")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def account(cluster: DevCluster) -> Path:
    """A kubeconfig with the rights that the component grants."""
    await apply_manifests(cluster, ["scheduler"])
    return await cluster.kubeconfig_for_service_account(SYSTEM, ACCOUNT)


def labelled(world: World, name: str, label: str) -> Document:
    document = pod(world, name, nodeSelector={HOSTNAME: "node-1"})
    document["metadata"]["labels"] = {label: ""}
    return document


async def test_installed_plugins_decide_and_one_that_raises_delays_no_pod(
    own_world: World, account: Path, tmp_path: Path
) -> None:
    site, file = tmp_path / "site", tmp_path / "scheduler.yaml"
    install(site, FILES["pyproject.toml"], {"licenses.py": FILES["licenses.py"]})
    moody = FILES["pyproject.toml"].replace('"licenses"', '"moody"').replace("Licenses = ", "Moody = ")
    install(site, moody.replace("licenses:Licenses", "moody:Moody"), {"moody.py": MOODY})
    file.write_text(CONFIGURATION.replace("zone-scheduler", own_world.namespace))
    chosen = [f"--config={file}", "--lease-namespace", SYSTEM, "--lease-name", ACCOUNT]
    chosen += ["--annotation-prefix", own_world.prefix]
    async with running("scheduler", account, *chosen, env=environment(site)) as process:
        await own_world.admin.create(labelled(own_world, "solver-1", "licensed"))
        await own_world.all_run("solver-1")
        await own_world.admin.create(labelled(own_world, "solver-2", "licensed"))
        await rejected(own_world, "solver-2", "1 node(s) had no license left")

        await own_world.admin.create(labelled(own_world, "bad", "annoying"))

        def failed(condition: Document | None) -> bool:
            return condition is not None and condition["message"] == "plugin Moody failed in Filter: KeyError: 'mood'"

        reported = await eventually(lambda: condition(own_world, "bad"), failed, "the condition names the plugin")
        assert reported is not None
        assert (reported["status"], reported["reason"]) == ("False", "SchedulerError")

        await own_world.admin.create(labelled(own_world, "good", "plain"))
        await own_world.all_run("good")
        await own_world.admin.delete("Pod", "solver-1", own_world.namespace)
        await own_world.all_run("solver-2")
        _, metrics = await process.page("/metrics")
        code, log = await process.stop()
    assert code == 0, log
    assert log.count("Plugin failed") == 1, log
    assert 'pvc_prebinder_scheduler_plugin_failures_total{extension_point="Filter",plugin="Moody"}' in metrics
