"""Pods that write to their volumes, and what they say they found there."""

from collections.abc import Mapping
from typing import Final

from tests.e2e.installation import SECONDS
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import stateful_set
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

TEMPLATES: Final = ("data", "log")
EMPTY: Final = "empty\nempty\ndone\n"
# Says what each volume holds, then writes to each whose it is.
SCRIPT: Final = """
for volume in data log; do
  if [ -e /$volume/owner ]; then cat /$volume/owner; else echo empty; echo "$volume of $HOSTNAME" > /$volume/owner; fi
done
echo done
exec sleep 100000
"""


def writers(namespace: str, name: str, claims: Mapping[str, Document], replicas: int) -> Document:
    """Return a StatefulSet of gated pods, each of which writes to its volumes for the claims of TEMPLATES."""
    return running(stateful_set(namespace, name, claims, replicas=replicas, gated=True), SCRIPT)


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
