"""Volumes that pods really write to: what was written is there after the pods, and after the node, were restarted."""

import pytest

from devcluster.cluster import DevCluster
from tests.e2e.driver import Driver
from tests.e2e.installation import SECONDS
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import claim_spec, stateful_set
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

TEMPLATES = ("data", "log")
# Says what each volume holds, then writes to each whose it is.
SCRIPT = """
for volume in data log; do
  if [ -e /$volume/owner ]; then cat /$volume/owner; else echo empty; echo "$volume of $HOSTNAME" > /$volume/owner; fi
done
echo done
exec sleep 100000
"""
EMPTY = "empty\nempty\ndone\n"


@pytest.mark.parametrize("mode", ["complete", "prebind"])
async def test_files_written_before_a_restart_are_read_after_it(
    world: World, real: DevCluster, driver: Driver, mode: str
) -> None:
    disks = await world.storage_class(mode)
    await world.volumes(disks, *(driver.volume(world, f"v{number}", disks) for number in range(4)))
    await world.admin.create(writers(world.namespace, disks, "web", 2))
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


def writers(namespace: str, storage_class: str, name: str, replicas: int) -> Document:
    """Return a StatefulSet of gated pods, which write to two volumes each."""
    templates = {template: claim_spec(storage_class) for template in TEMPLATES}
    return running(stateful_set(namespace, name, templates, replicas=replicas, gated=True), SCRIPT)


def running(owner: Document, script: str) -> Document:
    """Return the StatefulSet with pods that run this script, non-root."""
    spec = owner["spec"]["template"]["spec"]
    spec |= {"terminationGracePeriodSeconds": 1, "securityContext": {"runAsUser": 65532, "fsGroup": 65532}}
    spec["containers"][0] |= {"image": "pvc-prebinder:0.1.0", "command": ["sh", "-c", script]}
    return owner


def written_by(pod: str) -> str:
    return f"data of {pod}\nlog of {pod}\ndone\n"


async def logs_become(world: World, pod: str, log: str) -> None:
    """Wait until the pod's container has looked at its volumes, and compare what it saw."""

    async def look() -> str:
        phases = await world.pod_phases()
        return await logs(world, pod) if phases.get(pod) == "Running" else str(phases)

    assert await eventually(look, lambda seen: seen.endswith("done\n"), f"{pod} has looked", SECONDS) == log


async def logs(world: World, pod: str) -> str:
    try:
        return await world.cluster.run_kubectl("-n", world.namespace, "logs", pod)
    except AssertionError as error:  # the container is not there yet, or was not told to the kubelet
        return str(error)


async def restarted(world: World, pod: str) -> None:
    def again(pods: dict[str, Document]) -> bool:
        statuses = pods.get(pod, {}).get("status", {}).get("containerStatuses", [])
        return any(each["restartCount"] > 0 and "running" in each["state"] for each in statuses)

    await eventually(world.pods, again, f"the container of {pod} runs again", SECONDS)
