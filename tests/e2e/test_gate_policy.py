"""Pods are gated by the API server itself, and then bound and run like any other."""

import json

from devcluster.cluster import DevCluster
from tests.e2e.driver import Driver
from tests.e2e.installation import SECONDS
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import PREFIX, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World


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
