"""A term of the Lease: it ends when it is told to, and begins no more than the rate limit serves soon."""

import asyncio
from datetime import timedelta

from binder.model.decision import Mode
from binder.reservation.contract import parse_time
from tests.binder.world import World
from tests.fake_clock import settle
from tests.fakes.objects import claim_object, pod_object, volume_object


async def test_a_stopped_term_ends_although_late_nodes_are_looked_for_all_the_time() -> None:
    world = World(Mode.PREBIND)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], gated=True))
    process = world.process()
    world.server.feed(process.store)
    running = asyncio.create_task(process.term.run())
    await settle()
    process.term.stop()
    for _ in range(3):
        await world.clock.advance(10)
    assert running.done()
    await running


async def test_a_volume_is_written_soon_after_its_checks_where_requests_are_few() -> None:
    """Thirty pods that were checked at once would wait half a minute for the last write: a driver may be dead by then,
    and a node full.
    """
    world, numbers = World(Mode.PREBIND, qps=1.0), range(30)
    for number in numbers:
        world.put(volume_object(f"pv-{number}"), claim_object(f"data-{number}"))
        world.put(pod_object(f"web-{number}", [f"data-{number}"], gated=True))
    waited: dict[int, timedelta] = {}
    async with world.process() as process:
        for _ in range(400):
            await process.run(0.5)
            for number in numbers:
                checked = parse_time(world.annotations("persistentvolumes", f"pv-{number}").get("bound-at"))
                if checked is not None:
                    waited.setdefault(number, world.clock.now() - checked)
    assert len(waited) == len(numbers)
    assert max(waited.values()) <= timedelta(seconds=6)
