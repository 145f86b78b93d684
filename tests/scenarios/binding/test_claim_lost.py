"""A claim whose PersistentVolume object was deleted: the Event about a gated pod says so, and its advice helps."""

from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World


async def phase(world: World) -> str:
    claims = await world.claims()
    return str(claims["data"]["status"]["phase"])


async def test_a_lost_claim_is_bound_again_when_its_volume_object_is_created_again(world: World) -> None:
    disks = await world.storage_class("complete")
    await world.volumes(disks, world.volume("v", disks, zone="zone-a"))
    await world.pod("app", {"data": claim_spec(disks)}, gated=True)
    await world.all_run("app")
    (name,) = (await world.bound()).values()
    kept = (await world.own_volumes())[name]
    # In this order: a volume that is not being deleted is given its finalizer again.
    await world.admin.delete("PersistentVolume", name)
    await world.admin.patch("PersistentVolume", name, {"metadata": {"finalizers": None}})
    await eventually(lambda: phase(world), lambda phase: phase == "Lost", "the claim is Lost")
    # Only a pod that kube-scheduler does not see is told by us.
    await world.admin.create(world.pod_documents("next", {"data": claim_spec(disks)}, gated=True)[-1])
    event = await world.event("ClaimLost", "next")
    assert "Do not delete the claim" in event["note"]
    assert (await world.pods())["next"]["spec"]["schedulingGates"]
    again = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            **kept["spec"],
            "claimRef": {key: kept["spec"]["claimRef"][key] for key in ("namespace", "name", "uid")},
        },
    }
    await world.admin.create(again)
    await eventually(lambda: phase(world), lambda phase: phase == "Bound", "the claim is Bound again")
    assert await world.bound() == {"data": name}
    await world.all_run("next")
