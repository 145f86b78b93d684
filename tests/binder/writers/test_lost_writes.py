"""A response is lost after its write, or the Lease before the next one.

A write whose response is lost is read, and rolled back with the others if that is due; without the Lease none follows.
"""

from datetime import timedelta

import pytest

from binder.model.decision import Mode
from csi.health.verdict import Verdict
from kube.client.transport import Request
from kube.errors import LeadershipLost
from tests.binder.stories import STORIES
from tests.binder.world import Doctor, Process, World
from tests.fakes.lease_ends import LeaseEnds
from tests.fakes.objects import claim_object, pod_object, volume_object

LONG = 60.0
THIEF = {"kind": "PersistentVolumeClaim", "namespace": "elsewhere", "name": "thief", "uid": "uid-thief"}
CLAIMS = ("one", "two", "three")


def one_pod(mode: Mode) -> World:
    """A gated pod with three claims, and exactly as many volumes."""
    world = World(mode, binds=True)
    world.put(*(volume_object(f"pv-{number}", f"{number}0Gi") for number in (1, 2, 3)))
    world.put(*(claim_object(name) for name in CLAIMS), pod_object("web", CLAIMS, gated=True))
    return world


def claimed(world: World) -> dict[str, str]:
    """Return which claim each volume names."""
    volumes = {volume["metadata"]["name"]: volume["spec"] for volume in world.server.all("persistentvolumes")}
    return {name: spec["claimRef"]["name"] for name, spec in volumes.items() if "claimRef" in spec}


@pytest.mark.parametrize("mode", [Mode.PREBIND, Mode.COMPLETE])
@pytest.mark.parametrize("lost", [1, 2])
async def test_all_or_none_holds_although_it_was_not_known_that_a_volume_was_written(mode: Mode, lost: int) -> None:
    world = one_pod(mode)
    world.server.lose_responses = {lost}

    def take_the_last(request: Request) -> None:
        if request.path.endswith("/pv-3"):
            world.server.before_write = None
            world.server.put(volume_object("pv-3", "30Gi", claim=THIEF, phase="Bound"))

    world.server.before_write = take_the_last
    async with world.process() as process:
        await process.run(30)
        assert claimed(world) == {"pv-3": "thief"}
        assert all(world.annotations("persistentvolumes", name) == {} for name in ("pv-1", "pv-2"))
        assert world.violations() == []


@pytest.mark.parametrize("mode", [Mode.ANNOTATE, Mode.PREBIND, Mode.COMPLETE])
@pytest.mark.parametrize("lost", range(1, 14))
async def test_the_pod_gets_its_volumes_if_any_response_is_lost(mode: Mode, lost: int) -> None:
    world = one_pod(mode)
    world.server.lose_responses = {lost}
    async with world.process() as process:
        await process.run(60)
    assert world.violations() == []
    assert world.server.get("pods", "default/web")["spec"].get("schedulingGates") is None
    held = claimed(world)
    if mode is Mode.ANNOTATE:
        held = {name: world.annotations("persistentvolumes", name)["reserved-for"] for name in ("pv-1", "pv-2", "pv-3")}
    assert len(set(held.values())) == len(CLAIMS)


class LosesLease(Doctor):
    """The Lease is lost while a driver is probed, which is after the plan and before the first write."""

    process: Process

    async def verdict(self, driver: str, handle: str, max_age: timedelta) -> Verdict:
        self.process.leadership.end()
        return await super().verdict(driver, handle, max_age)


async def writes_of(world: World) -> int:
    async with world.process() as process:
        await process.run(LONG)
    return len(world.server.writes)


@pytest.mark.parametrize("story", STORIES)
async def test_no_write_follows_the_loss_of_the_lease_at_any_write(story: str) -> None:
    everything = await writes_of(STORIES[story]())
    assert everything > 1
    for number in range(1, everything):
        world = STORIES[story]()
        process = world.process()
        sent = process.connection.on_write = LeaseEnds(process.leadership, number)
        with pytest.raises(LeadershipLost):
            async with process:
                await process.run(LONG)
        assert sent.writes == number, "a write was sent without the Lease"
        assert [problem for problem in world.violations() if "still reserved" not in problem] == []


@pytest.mark.parametrize("story", [name for name in STORIES if name.startswith("three-claims")])
async def test_nothing_is_written_when_the_lease_is_lost_between_plan_and_write(story: str) -> None:
    world = STORIES[story]()
    world.doctor = doctor = LosesLease(world.clock)
    doctor.process = process = world.process()
    with pytest.raises(LeadershipLost):
        async with process:
            await process.run(LONG)
    assert doctor.probed, "it was not planned"
    assert world.server.writes == []
