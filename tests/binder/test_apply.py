"""Reserving, seen from the API server: what is written, in which order, and what is taken back on a loss."""

import pytest

from binder.decision import Mode
from tests.binder.world import World
from tests.fakes.objects import claim_object, pod_object, volume_object


def three_claims(mode: Mode = Mode.ANNOTATE) -> World:
    world = World(mode)
    world.put(*(volume_object(f"pv-{number}", zone="a") for number in (1, 2, 3)))
    world.put(*(claim_object(f"data-{number}") for number in (1, 2, 3)))
    world.put(pod_object("web", ["data-1", "data-2", "data-3"]))
    return world


async def test_annotate_says_on_both_sides_what_is_held_until_when() -> None:
    world = World(Mode.ANNOTATE)
    world.put(volume_object("pv-1", zone="b"), claim_object("data"), pod_object("web", ["data"]))
    async with world.process(transition=7) as process:
        await process.run()
    assert world.annotations("persistentvolumes", "pv-1") == {
        "reserved-for": "default/data",
        "reserved-for-uid": "uid-persistentvolumeclaims-default/data",
        "bound-at": "2026-01-01T12:00:00Z",
        "expires-at": "2026-01-01T12:10:00Z",
        "reserved-by": "host/7",
    }
    assert world.annotations("persistentvolumeclaims", "default/data") == {
        "reserved-volume": "pv-1",
        "reserved-zone": "b",
        "bound-at": "2026-01-01T12:00:00Z",
        "expires-at": "2026-01-01T12:10:00Z",
    }
    assert "claimRef" not in world.volume("pv-1")["spec"]
    assert process.metrics.counted["reserved", "fast"] == 1


async def test_volumes_are_written_before_claims() -> None:
    world = three_claims()
    async with world.process() as process:
        await process.run()
    assert [write.plural for write in world.server.writes] == ["persistentvolumes"] * 3 + ["persistentvolumeclaims"] * 3
    assert {world.reserved(f"data-{number}") for number in (1, 2, 3)} == {"pv-1", "pv-2", "pv-3"}


async def test_nothing_changes_nothing_is_written() -> None:
    world = three_claims()
    async with world.process() as process:
        await process.run()
        written, asked = len(world.server.writes), process.connection.requests
        await process.run(300)
    assert (len(world.server.writes), process.connection.requests) == (written, asked)


async def test_prebind_commits_the_volume_by_name_alone() -> None:
    world = World(Mode.PREBIND)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"]))
    async with world.process() as process:
        await process.run()
    assert world.volume("pv-1")["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "data",
    }
    assert "pv.kubernetes.io/bound-by-controller" not in world.volume("pv-1")["metadata"]["annotations"]
    assert "volumeName" not in world.claim("data")["spec"]
    assert len(world.server.writes) == 2


@pytest.mark.parametrize(("policy", "uid"), [("Retain", True), ("Delete", False)])
async def test_a_uid_is_written_only_for_retained_volumes_and_with_its_mark(policy: str, uid: bool) -> None:
    world = World(Mode.PREBIND, write_uid=True)
    world.put(volume_object("pv-1", reclaim_policy=policy), claim_object("data"), pod_object("web", ["data"]))
    async with world.process() as process:
        await process.run()
    volume = world.volume("pv-1")
    assert ("uid" in volume["spec"]["claimRef"]) is uid
    assert ("pv.kubernetes.io/bound-by-controller" in volume["metadata"]["annotations"]) is uid
