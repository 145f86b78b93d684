"""All claims of a pod get volumes of one zone, or none do; and no claim gets what another got."""

import pytest

from tests.scenarios.environment.documents import ZONES, claim, claim_spec, pod, pod_spec, stateful_set
from tests.scenarios.environment.waiting import eventually, never
from tests.scenarios.environment.world import World
from tests.scenarios.processes.why_command import Asker, typed

MODES = ["annotate", "prebind", "complete"]


async def zones_of_claims(world: World) -> dict[str, str | None]:
    zones = await world.zones()
    return {claim: zones[volume] for claim, volume in (await world.reserved()).items()}


@pytest.mark.parametrize("mode", MODES)
async def test_three_claims_get_volumes_of_the_one_zone_that_has_all(world: World, mode: str) -> None:
    """Zones a and c hold smaller volumes, which claim by claim would be taken first."""
    disks = await world.storage_class(mode)
    sizes = {"zone-a": ("1Gi", "1Gi"), "zone-b": ("3Gi", "3Gi", "3Gi"), "zone-c": ("2Gi",)}
    volumes = [
        world.volume(f"{zone}-{number}", disks, zone=zone, size=size)
        for zone, all_sizes in sizes.items()
        for number, size in enumerate(all_sizes)
    ]
    await world.volumes(disks, *volumes)
    async with world.scheduler_paused():
        await world.pod("app", {f"data-{number}": claim_spec(disks) for number in range(3)}, gated=True)
        chosen = await eventually(world.reserved, lambda reserved: len(reserved) == 3, "all three claims have a volume")
        assert len(set(chosen.values())) == 3
        assert set((await zones_of_claims(world)).values()) == {"zone-b"}
        assert {claim: [volume] for claim, volume in chosen.items()} == await world.held()
    if mode != "annotate":
        await world.all_run("app")
        assert await world.bound() == chosen


async def test_no_zone_has_all_so_nothing_is_reserved_and_pod_and_claims_get_events(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    disks = await world.storage_class("prebind")
    volumes = [world.volume(f"{zone}-{n}", disks, zone=zone) for zone in ZONES for n in range(2)]
    names = await world.volumes(disks, *volumes)
    before = await world.own_volumes()
    async with world.scheduler_paused():
        await world.pod("app", {f"data-{number}": claim_spec(disks) for number in range(3)}, gated=True)
        event = await world.event("NoJointAssignment", about="app")
        assert event["type"] == "Warning"
        assert "Add a volume so that one zone has a volume for each claim of the pod." in event["note"]
        for number in range(3):
            await world.event("NoJointAssignment", about=f"data-{number}")
        item = await Asker(world, capsys).names("pod/app", "NoJointAssignment")  # And not the gate that hides it.
        assert "Add a volume so that one zone has a volume for each claim of the pod." in item["message"]
        await typed(world, item["next"][0])
        await never(world.reserved, bool, "a claim of a pod that cannot have all got a volume")
        assert await world.own_volumes() == before
        # A seventh volume makes one zone whole.
        await world.volumes(disks, world.volume("seventh", disks, zone="zone-c"))
        await eventually(world.reserved, lambda reserved: len(reserved) == 3, "all three claims have a volume")
        assert set((await zones_of_claims(world)).values()) == {"zone-c"}
    await world.all_run("app")
    assert len(names) == 6


async def test_an_assignment_that_smallest_first_misses_is_found(world: World) -> None:
    """The smaller claim would take the 1Gi volume, the only one that is offered for the modes of the larger."""
    disks = await world.storage_class("prebind")
    both = ("ReadWriteOnce", "ReadOnlyMany")
    await world.volumes(
        disks,
        world.volume("one", disks, zone="zone-a", size="2Gi", access_modes=both),
        world.volume("two", disks, zone="zone-a", size="3Gi"),
    )
    async with world.scheduler_paused():
        small, large = claim_spec(disks, "1Gi"), claim_spec(disks, "2Gi", ("ReadOnlyMany",))
        await world.pod("app", {"small": small, "large": large}, gated=True)
        chosen = await eventually(world.reserved, lambda reserved: len(reserved) == 2, "both claims have a volume")
        assert chosen == {"small": world.name("two"), "large": world.name("one")}
    await world.all_run("app")
    assert await world.bound() == chosen


@pytest.mark.parametrize("mode", ["prebind", "complete"])
async def test_two_pods_race_for_the_last_volume(world: World, mode: str) -> None:
    disks = await world.storage_class(mode)
    await world.volumes(disks, world.volume("last", disks, zone="zone-a"))
    async with world.scheduler_paused():
        claims = {name: {f"{name}-data": claim_spec(disks)} for name in ("one", "other")}
        pods = [world.pod_documents(name, claims[name], gated=True) for name in claims]
        await world.admin.create_at_once(document for documents in pods for document in documents[:1])
        await world.admin.create_at_once(document for documents in pods for document in documents[1:])
        held = await eventually(world.held, bool, "one claim holds the volume")
        (winner,) = (claim.removesuffix("-data") for claim in held)
        loser = {"one": "other", "other": "one"}[winner]
        assert (await world.noted(loser, world.name("last")))["reason"] == "StaticOnlyNoMatch"
    await world.all_run(winner)
    assert await world.bound() == {f"{winner}-data": world.name("last")}
    assert (await world.pod_phases())[loser] == "Pending"


async def test_claims_of_a_stateful_set(world: World) -> None:
    disks = await world.storage_class("prebind")
    await world.volumes(
        disks,
        *(world.volume(f"{zone}-{word}", disks, zone=zone) for zone in ZONES[:2] for word in ("one", "two")),
        world.volume("stray", disks, zone="zone-c"),
    )
    async with world.scheduler_paused():
        templates = {"data": claim_spec(disks), "wal": claim_spec(disks)}
        await world.admin.create(stateful_set(world.namespace, "db", templates, replicas=2, gated=True))
        await eventually(
            world.reserved, lambda reserved: len(reserved) == 4, "the claims of both replicas have volumes"
        )
        zones = await zones_of_claims(world)
        assert zones["data-db-0"] == zones["wal-db-0"] != zones["data-db-1"] == zones["wal-db-1"]
    await world.all_run("db-0", "db-1")


async def test_a_generic_ephemeral_volume_beside_a_claim(world: World) -> None:
    disks = await world.storage_class("prebind")
    await world.volumes(
        disks,
        world.volume("alone", disks, zone="zone-a", size="1Gi"),
        *(world.volume(f"pair-{n}", disks, zone="zone-b", size="2Gi") for n in range(2)),
    )
    async with world.scheduler_paused():
        spec = pod_spec(("data",), ephemeral={"scratch": claim_spec(disks)}, gated=True)
        await world.admin.create(claim(world.namespace, "data", claim_spec(disks)), pod(world.namespace, "app", spec))
        chosen = await eventually(world.reserved, lambda reserved: len(reserved) == 2, "both claims have a volume")
        assert chosen.keys() == {"data", "app-scratch"}
        assert set(chosen.values()) == {world.name("pair-0"), world.name("pair-1")}
    await world.all_run("app")
