"""Immediate claims and dynamic classes are left to Kubernetes: nothing is written on them, and all end well."""

from tests.scenarios.environment.bindings import PRODUCT, pairs, writers
from tests.scenarios.environment.documents import IMMEDIATE, claim, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World


async def nothing_of_ours(world: World, *claims: str) -> None:
    """No writer's trace on these claims, nor on their volumes."""
    objects, bound = await world.claims(), await pairs(world)
    for name in claims:
        assert PRODUCT not in writers(objects[name]), name
        assert name not in bound or PRODUCT not in writers(bound[name][1]), name


async def work_was_done(world: World) -> None:
    """A claim that is ours is served afterwards, and carries the trace that the others must not have."""
    disks = await world.storage_class("annotate", "ours")
    await world.volumes(disks, world.volume("ours", disks, zone="zone-a"))
    await world.pod("ours", {"ours": claim_spec(disks)}, gated=True)
    await world.all_run("ours")
    claim, volume = (await pairs(world))["ours"]
    assert PRODUCT in writers(claim)
    assert PRODUCT in writers(volume)


async def test_immediate_claims(world: World) -> None:
    """One is bound by the PV controller at once; one finds no volume; a gated pod is not kept from running."""
    now = await world.storage_class("complete", "now", binding=IMMEDIATE)
    await world.volumes(now, world.volume("now", now, zone="zone-a"))
    await world.pod("app", {"data": claim_spec(now)}, gated=True)
    await world.pod("poor", {"poor": claim_spec(now, "5Gi")})
    await world.all_run("app")
    await work_was_done(world)
    await nothing_of_ours(world, "data", "poor")
    assert (await world.claims())["poor"]["status"]["phase"] == "Pending"


async def test_a_claim_without_a_consumer(world: World) -> None:
    disks = await world.storage_class("complete")
    await world.volumes(disks, world.volume("free", disks, zone="zone-a"))
    await world.admin.create(claim(world.namespace, "data", claim_spec(disks)))
    await work_was_done(world)
    await nothing_of_ours(world, "data")
    assert PRODUCT not in writers((await world.own_volumes())[world.name("free")])


async def test_a_dynamic_class(world: World) -> None:
    """kube-scheduler selects a node, a provisioner (the test) makes the volume, the PV controller binds."""
    made = await world.storage_class("complete", "made", provisioner="provisioner.example.com")
    await world.pod("app", {"data": claim_spec(made)})
    claims = await eventually(
        world.claims,
        lambda claims: "volume.kubernetes.io/selected-node" in claims["data"]["metadata"].get("annotations", {}),
        "kube-scheduler selects a node",
    )
    await work_was_done(world)
    await nothing_of_ours(world, "data")
    volume = world.volume("made", made, reclaim_policy="Delete")
    reference = {"namespace": world.namespace, "name": "data", "uid": claims["data"]["metadata"]["uid"]}
    volume["spec"]["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference}
    volume["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": "provisioner.example.com"}
    await world.admin.create(volume)
    await world.all_run("app")
    await nothing_of_ours(world, "data")


async def test_a_gated_pod_of_a_dynamic_class_is_released(world: World) -> None:
    made = await world.storage_class("prebind", "made", provisioner="provisioner.example.com")
    await world.pod("app", {"data": claim_spec(made)}, gated=True)
    await eventually(
        world.claims,
        lambda claims: "volume.kubernetes.io/selected-node" in claims["data"]["metadata"].get("annotations", {}),
        "kube-scheduler selects a node",
    )


async def test_a_selector_of_a_megabyte(world: World) -> None:
    """The API server accepts it: etcd takes 1.5 MiB in one request. Others are served meanwhile."""
    disks = await world.storage_class("prebind")
    await world.volumes(disks, world.volume("one", disks, zone="zone-a"), world.volume("two", disks, zone="zone-a"))
    hostile = claim_spec(disks)
    requirements = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(20_000)]
    await world.pod("hostile", {"greedy": {**hostile, "selector": {"matchExpressions": requirements}}}, gated=True)
    await world.pod("other", {"data": claim_spec(disks)}, gated=True)
    await world.all_run("other")
    event = await world.event("SelectorTooLarge", "hostile")
    assert "a selector of at most 16,384 bytes" in event["note"]
    assert PRODUCT not in writers((await world.claims())["greedy"])
    assert "data" in await pairs(world)
