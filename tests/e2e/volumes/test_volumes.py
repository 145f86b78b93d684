"""Volumes that pods really write to: what was written is there after the pods, and after the node, were restarted."""

import pytest

from devcluster.cluster import DevCluster
from tests.e2e.driver import Driver
from tests.e2e.installation import SECONDS
from tests.e2e.volumes.writers import EMPTY, TEMPLATES, logs_become, writers, written_by
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World


@pytest.mark.parametrize("mode", ["complete", "prebind"])
async def test_files_written_before_a_restart_are_read_after_it(
    world: World, real: DevCluster, driver: Driver, mode: str
) -> None:
    disks = await world.storage_class(mode)
    await world.volumes(disks, *(driver.volume(world, f"v{number}", disks) for number in range(4)))
    claims = dict.fromkeys(TEMPLATES, claim_spec(disks))
    await world.admin.create(writers(world.namespace, "web", claims, replicas=2))
    for number in range(2):
        await logs_become(world, f"web-{number}", EMPTY)
    await world.all_run("web-0", "web-1", seconds=SECONDS)

    await real.run_kubectl("-n", world.namespace, "delete", "pods", "web-0", "web-1")
    for number in range(2):
        await logs_become(world, f"web-{number}", written_by(f"web-{number}"))

    await real.node.kill()
    await real.node.start()
    for number in range(2):
        await restarted(world, f"web-{number}")
        await logs_become(world, f"web-{number}", written_by(f"web-{number}"))


async def restarted(world: World, pod: str) -> None:
    def again(pods: dict[str, Document]) -> bool:
        statuses = pods.get(pod, {}).get("status", {}).get("containerStatuses", [])
        return any(each["restartCount"] > 0 and "running" in each["state"] for each in statuses)

    await eventually(world.pods, again, f"the container of {pod} runs again", SECONDS)
