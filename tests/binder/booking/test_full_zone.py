"""Far more pods than the nodes of a zone can take: planning goes on."""

import logging

import pytest

from binder.model.decision import Mode
from tests.binder.world import World
from tests.fakes.objects import claim_object, pod_object, volume_object

PODS_OF_ZONE = 2 * 110
"""Two nodes."""


async def test_a_chain_of_moves_ends_before_the_stack_does(caplog: pytest.LogCaptureFixture) -> None:
    """Each pod could make room for another one by moving to the other node, which is full as well."""
    caplog.set_level(logging.ERROR)
    world = World(Mode.PREBIND)
    for number in range(PODS_OF_ZONE + 80):
        name = f"web-{number:03}"
        world.put(volume_object(f"pv-{number:03}"), claim_object(name), pod_object(name, [name], gated=True))
    async with world.process() as process:
        await process.run(5)
    committed = [volume for volume in world.server.all("persistentvolumes") if "claimRef" in volume["spec"]]
    assert len(committed) == PODS_OF_ZONE
    assert caplog.records == []
