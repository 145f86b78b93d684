"""A driver that answers again serves the pods it held up at once, however long they would have waited."""

import pytest

from binder.controllers.wakeups import WOKEN_AT_ONCE
from binder.model.decision import Mode
from csi.health.verdict import HealthState
from tests.binder.world import World
from tests.fakes.objects import claim_object, pod_object, volume_object

PODS = WOKEN_AT_ONCE + 5
"""More than one change of one volume would wake."""


def held_up(pods: int = 3) -> World:
    """No sweep looked at any volume yet: all that is known is what the gate's own probes returned."""
    world = World(Mode.ANNOTATE)
    for number in range(pods):
        world.put(volume_object(f"pv-{number}"), claim_object(f"data-{number}"))
        world.put(pod_object(f"web-{number}", [f"data-{number}"]))
        world.doctor.states[f"handle-pv-{number}"] = HealthState.UNKNOWN
    return world


def served(world: World) -> int:
    claims = world.server.all("persistentvolumeclaims")
    return sum(world.reserved(claim["metadata"]["name"]) is not None for claim in claims)


async def test_all_pods_are_served_when_the_driver_answers() -> None:
    world = held_up(PODS)
    async with world.process() as process:
        # Long enough for every pod to wait some seconds for its next look.
        await process.run(15)
        assert served(world) == 0
        world.doctor.states.clear()
        world.doctor.answers("disk.csi.example")
        await process.run(2)
        assert served(world) == PODS


async def test_the_answer_of_another_driver_changes_nothing() -> None:
    world = held_up()
    async with world.process() as process:
        await process.run(10)
        count = len(world.doctor.probed)
        world.doctor.answers("other")
        await process.run(0.5)
        assert len(world.doctor.probed) <= count + 5
        assert served(world) == 0


@pytest.mark.parametrize("now", [HealthState.HEALTHY, HealthState.UNSUPPORTED])
async def test_a_sweep_that_first_sees_a_volume_replaces_the_gates_verdict(now: HealthState) -> None:
    world = held_up()
    async with world.process() as process:
        await process.run(300)
        world.observe(now, "pv-0")
        await process.run(2)
        assert served(world) == 1


async def test_a_volume_that_goes_from_bad_to_worse_wakes_no_pod() -> None:
    world = held_up()
    async with world.process() as process:
        await process.run(300)
        before = len(world.doctor.probed)
        world.observe(HealthState.DEGRADED, "pv-0")
        await process.run(0.5)
        assert len(world.doctor.probed) <= before + 10
