"""The provisioner is named on claims when the nodes of all of them are selected, as the PV controller would do."""

import pytest

from tests.binder.provisioner import BEGUN, DRIVER, Provisioner, gated, is_gated, pool_world, selected
from tests.binder.world import World
from tests.fakes.objects import volume_object

POOLS = {"node-a1": "100Gi"}
BETA = "volume.beta.kubernetes.io/storage-provisioner"


def named(world: World) -> list[str]:
    """The claims on which the provisioner is named, under both names of the annotation."""
    claims: list[str] = []
    for claim in world.server.all("persistentvolumeclaims"):
        notes = claim["metadata"].get("annotations", {})
        assert notes.get(BEGUN) == notes.get(BETA)
        if BEGUN in notes:
            assert notes[BEGUN] == DRIVER
            claims.append(claim["metadata"]["name"])
    return claims


def claims_of(world: World) -> list[str]:
    return [claim["metadata"]["name"] for claim in world.server.all("persistentvolumeclaims")]


async def test_it_is_named_on_all_claims_once_their_node_is_selected() -> None:
    world = pool_world(POOLS)
    provisioner = Provisioner(world, POOLS)
    gated(world, "db", "30Gi", "20Gi", "10Gi")
    async with world.process() as process:
        await process.run()
        assert named(world) == sorted(selected(world)) == ["db-0", "db-1", "db-2"]
        provisioner.work()
        await process.run()
        assert not is_gated(world, "db")


async def test_it_is_named_on_none_before_all_nodes_are_selected() -> None:
    """Until then each selection can be taken back: here the last claim is gone when it is written."""
    world = pool_world(POOLS)
    gated(world, "db", "30Gi", "20Gi", "10Gi")

    def last_is_gone(_: object) -> None:
        if len(selected(world)) == 2 and "db-2" in claims_of(world):
            assert named(world) == []
            world.server.remove("persistentvolumeclaims", "default/db-2")

    world.server.before_write = last_is_gone
    async with world.process() as process:
        await process.run()
    assert selected(world) == {}
    assert named(world) == []


async def test_what_the_pv_controller_has_named_already_is_not_written_again() -> None:
    world = pool_world(POOLS)
    provisioner = Provisioner(world, POOLS)
    gated(world, "db", "30Gi", "20Gi")

    def is_faster(_: object) -> None:
        if set(selected(world)) == {"db-0"} and BEGUN not in world.claim("db-0")["metadata"]["annotations"]:
            provisioner.begin("db-0")

    world.server.before_write = is_faster
    async with world.process() as process:
        await process.run()
    assert set(selected(world)) == {"db-0", "db-1"}
    assert BETA not in world.claim("db-0")["metadata"]["annotations"]


@pytest.mark.parametrize(("size", "by_us"), [("20Gi", ["db-0"]), ("50Gi", [])], ids=["too small", "fits"])
async def test_it_is_not_where_the_pv_controller_may_bind_an_existing_volume(size: str, by_us: list[str]) -> None:
    world = pool_world(POOLS)
    world.put(volume_object("kept", size, zone=None, node="node-a2", storage_class="made"))
    gated(world, "db", "30Gi", "10Gi")
    async with world.process() as process:
        await process.run()
    assert set(selected(world)) == {"db-0", "db-1"}
    assert named(world) == by_us


async def test_and_where_no_csi_driver_has_the_name_of_the_provisioner() -> None:
    """The class of a migrated driver has another name than the driver, which the PV controller translates."""
    world = pool_world(POOLS)
    world.server.remove("csidrivers", DRIVER)
    gated(world, "db", "30Gi")
    async with world.process() as process:
        await process.run()
    assert set(selected(world)) == {"db-0"}
    assert named(world) == []
