"""The Lease is lost at every moment there is: no write follows, and the term ends."""

from datetime import timedelta

import pytest

from csi.health.verdict import Verdict
from kube.errors import LeadershipLost
from tests.binder.stories import STORIES
from tests.binder.world import Doctor, Process, World
from tests.fakes.lease_ends import LeaseEnds

LONG = 60.0


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
