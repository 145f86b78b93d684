"""The example of docs/quickstart.md: a pod with two claims gets both volumes in the only zone that has one for each."""

from functools import partial
from pathlib import Path

import pytest

from devcluster.cluster import DevCluster
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.processes.controller import Controller

pytestmark = pytest.mark.asyncio(loop_scope="session")

EXAMPLE = str(Path(__file__).parents[3] / "docs" / "examples" / "quickstart.yaml")


async def test_the_example_of_the_quick_start(cluster: DevCluster, admin: Admin, controller: Controller) -> None:
    await cluster.run_kubectl("apply", "-f", EXAMPLE)
    pods = await eventually(
        partial(admin.list, "Pod", "quickstart"),
        lambda pods: [pod["status"].get("phase") for pod in pods] == ["Running"],
        "the pod runs",
    )
    claims = await admin.list("PersistentVolumeClaim", "quickstart")
    bound = {claim["metadata"]["name"]: claim["spec"].get("volumeName") for claim in claims}
    assert bound == {"data-db-0": "quickstart-b-data", "log-db-0": "quickstart-b-log"}
    node = await admin.find("Node", pods[0]["spec"]["nodeName"])
    assert node is not None
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-b"
    await cluster.run_kubectl("delete", "--wait=false", "-f", EXAMPLE)
