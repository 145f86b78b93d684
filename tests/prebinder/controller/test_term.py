"""A term of the Lease: it ends when it is told to stop, whatever runs beside its loops."""

import asyncio

from binder.model.decision import Mode
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
