"""What is done when a source other than a probed driver reports an unhealthy volume, on an API server in memory."""

import json

from binder.model.decision import Mode
from csi.health.verdict import HealthState
from kube.decoding.decode_health import ADDONS_PREFIX
from tests.binder.world import World, bind
from tests.fakes.objects import claim_object, csi_node_object, pod_object, volume_object

PV, PVC, CSI_NODES = "persistentvolumes", "persistentvolumeclaims", "csinodes"
PREFIX = "scheduler.cloud.example/"
CUT = {"storageHealth": [{"name": "disk.csi.example", "healthConditions": [{"status": "StorageUnreachable"}]}]}


def annotate(world: World, plural: str, key: str, annotations: dict[str, str]) -> None:
    world.server.change(plural, key, lambda document: document["metadata"]["annotations"].update(annotations))


async def test_what_a_claim_says_of_its_bound_volume_costs_no_write() -> None:
    """Events and annotations show it, and a bind is never undone."""
    world = World(Mode.PREBIND, quarantine=True)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], node="node-a1"))
    bind(world, "data", "pv-1")
    world.observe(HealthState.HEALTHY, "pv-1")
    async with world.process() as process:
        for minute in range(5):
            report = {"state": "unhealthy", "node": "n1", "lastChecked": f"2026-01-01T00:0{minute}:00Z"}
            annotate(world, PVC, "default/data", {f"{ADDONS_PREFIX}uid": json.dumps(report)})
            await process.run(60)
        world.server.change(PVC, "default/data", lambda document: document["status"].update(healthStatus="nonsense"))
        await process.run(60)
    assert world.server.writes == []
    assert process.sink.events == []


async def test_a_local_volume_whose_node_lost_its_storage_is_passed_over_until_it_is_back() -> None:
    world = World(Mode.ANNOTATE, quarantine=True)
    world.put(volume_object("pv-1", node="node-a1"), volume_object("pv-2", node="node-a2"))
    world.put(claim_object("data"), pod_object("web", ["data"]), csi_node_object("node-a1"))
    async with world.process() as process:
        await process.run()
        assert world.reserved("data") == "pv-1"
        world.server.change(CSI_NODES, "node-a1", lambda document: document.update(status=CUT))
        await process.run()
        assert world.reserved("data") == "pv-2"
        world.put(claim_object("more"), pod_object("app", ["more"]))
        await process.run()
        assert world.reserved("more") is None
        # Nothing says that the volume itself is unhealthy, so nothing would say that it is well again.
        assert "quarantine" not in world.annotations(PV, "pv-1")
        world.server.change(CSI_NODES, "node-a1", lambda document: document.update(status={}))
        await process.run()
        assert world.reserved("more") == "pv-1"
    assert world.violations() == []


def published(state: str) -> dict[str, str]:
    return {f"{PREFIX}health": state, f"{PREFIX}health-reason": "Gone", f"{PREFIX}health-since": "2026-01-01T00:00:00Z"}


async def test_an_agent_publishes_and_the_controller_reacts() -> None:
    world = World(Mode.PREBIND, quarantine=True, drivers=frozenset())
    world.put(volume_object("pv-1"), volume_object("pv-2"), claim_object("data"), pod_object("web", ["data"]))
    async with world.process() as process:
        await process.run()
        assert world.reserved("data") == "pv-1"
        annotate(world, PV, "pv-1", published("DataLoss"))
        await process.run()
        assert world.reserved("data") == "pv-2"
        assert world.volume("pv-1")["spec"]["claimRef"]["name"] == "quarantine-pv-1"
        assert world.annotations(PV, "pv-1")["health-since"] == "2026-01-01T00:00:00Z"
        annotate(world, PV, "pv-1", published("Healthy"))
        await process.run()
        assert "claimRef" not in world.volume("pv-1")["spec"]
    reasons = process.sink.reasons_of("PersistentVolume", "pv-1")
    # The agent tells of the change itself.
    assert reasons == ["Quarantined", "QuarantineReleased"]


async def test_volumes_of_other_drivers_are_not_updated() -> None:
    world = World(Mode.PREBIND, quarantine=True, drivers=frozenset(), only_probed=True)
    world.put(volume_object("pv-1", annotations=published("DataLoss")))
    async with world.process() as process:
        await process.run()
    assert world.server.writes == []
