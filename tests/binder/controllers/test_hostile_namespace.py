"""What a user who may do everything in one namespace, and nothing outside it, cannot bring about."""

from typing import Any

import pytest

from binder.model.decision import Mode
from binder.reservation.contract import DEFAULT_PREFIX
from csi.health.verdict import HealthState
from tests.binder.world import World, reservation
from tests.fake_clock import START
from tests.fakes.objects import claim_object, pod_object, volume_object

EVIL = "evil"
FOR_EVER = "9999-12-31T00:00:00Z"


def forged(name: str, volume: str, **changes: str) -> dict[str, Any]:
    """A claim in the hostile namespace that says that a volume is held for it until the end of time."""
    words = {
        "reserved-volume": volume,
        "bound-at": START.isoformat().replace("+00:00", "Z"),
        "expires-at": FOR_EVER,
        "reserved-zone": "a",
        "reserved-nodes": "node-a1",
    }
    document = claim_object(name, namespace=EVIL)
    document["metadata"]["annotations"] = {f"{DEFAULT_PREFIX}{key}": text for key, text in (words | changes).items()}
    return document


def holder(world: World, volume: str) -> str:
    """The claim for which a volume is held, by its reservation or its claimRef."""
    annotations = world.annotations("persistentvolumes", volume)
    reference = world.volume(volume)["spec"].get("claimRef")
    named = f"{reference['namespace']}/{reference['name']}" if reference else ""
    assert named in {"", annotations.get("reserved-for", named)}
    return annotations.get("reserved-for", named)


@pytest.mark.parametrize("mode", [Mode.ANNOTATE, Mode.PREBIND, Mode.COMPLETE])
async def test_a_claim_that_says_it_has_anothers_volume_does_not_get_it(mode: Mode) -> None:
    world = World(mode)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], gated=True))
    async with world.process() as process:
        await process.run()
        assert holder(world, "pv-1") == "default/data"
        world.put(forged("thief", "pv-1"), pod_object("thief", ["thief"], namespace=EVIL, gated=True))
        await process.run(120)
        assert holder(world, "pv-1") == "default/data"
    assert world.violations() == []


async def test_a_claim_that_says_it_has_a_volume_keeps_it_from_no_other_claim() -> None:
    world = World(Mode.PREBIND)
    world.put(volume_object("pv-1"), *(forged(f"thief-{number}", "pv-1") for number in range(10)))
    world.put(claim_object("data"), pod_object("web", ["data"], gated=True))
    async with world.process() as process:
        await process.run()
        assert holder(world, "pv-1") == "default/data"
        annotations = world.annotations("persistentvolumeclaims", f"{EVIL}/thief-0")
        assert annotations == {}, "what a claim says and no volume confirms is taken off it"


@pytest.mark.parametrize("expires", ["2000-01-01T00:00:00Z", FOR_EVER, "never"])
async def test_what_a_claim_says_ends_no_reservation_of_another(expires: str) -> None:
    world = World()
    annotations = reservation("data")
    world.put(volume_object("pv-1", annotations=annotations), claim_object("data"), pod_object("web", ["data"]))
    async with world.process() as process:
        await process.run()
        before = world.annotations("persistentvolumes", "pv-1")
        world.put(forged("thief", "pv-1", **{"expires-at": expires}))
        await process.run(60)
        world.server.remove("persistentvolumeclaims", f"{EVIL}/thief")
        await process.run(60)
        assert world.annotations("persistentvolumes", "pv-1") == before


async def test_a_claim_named_like_a_placeholder_frees_no_volume_from_quarantine() -> None:
    world = World(Mode.PREBIND, quarantine=True)
    world.put(volume_object("pv-1"))
    async with world.process() as process:
        world.observe(HealthState.DATA_LOSS, "pv-1")
        await process.run()
        assert holder(world, "pv-1") == "pvc-prebinder-system/quarantine-pv-1"
        world.put(claim_object("quarantine-pv-1", namespace=EVIL))
        world.put(pod_object("thief", ["quarantine-pv-1"], namespace=EVIL, gated=True))
        await process.run(60)
        assert holder(world, "pv-1") == "pvc-prebinder-system/quarantine-pv-1"


async def test_a_deleted_pod_gives_its_volumes_back_at_once() -> None:
    world = World(Mode.PREBIND)
    world.put(volume_object("pv-1"), claim_object("grab", namespace=EVIL))
    world.put(pod_object("grab", ["grab"], namespace=EVIL, gated=True))
    async with world.process() as process:
        await process.run()
        assert holder(world, "pv-1") == f"{EVIL}/grab"
        world.server.remove("pods", f"{EVIL}/grab")
        await process.run()
        assert holder(world, "pv-1") == ""


async def test_a_rejection_names_the_claim_that_has_the_volume() -> None:
    """Not a defect but a fact to know: names of others' claims, volumes and nodes are seen in one's own Events."""
    world = World(Mode.PREBIND)
    world.put(volume_object("pv-1"), claim_object("secret-project"), pod_object("web", ["secret-project"], gated=True))
    async with world.process() as process:
        await process.run()
        world.put(claim_object("data", namespace=EVIL), pod_object("curious", ["data"], namespace=EVIL, gated=True))
        await process.run(10)
        notes = [event.note for event in process.sink.events if event.regarding.namespace == EVIL]
    assert any("pv-1" in note and "secret-project" in note for note in notes)
