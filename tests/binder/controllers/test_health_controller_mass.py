"""A storage system that fails with 2,000 volumes at once: all is reported, at the stated rates, and the cap holds."""

import asyncio
import json
from collections import Counter

from binder.controllers.health_controller import WRITES_AT_ONCE, WRITES_PER_SECOND
from binder.model.decision import Mode
from csi.health.verdict import HealthState
from kube.client.api import KubeApi
from kube.client.event_recorder import BURST, QPS, EventRecorder
from kube.client.transport import Request
from tests.binder.world import World, bind
from tests.fakes.objects import claim_object, pod_object, volume_object
from tests.kube.counted import CountedEvents
from tests.kube.scripted_transport import Answer, ScriptedTransport, answer

BOUND, FREE = 1_900, 100
CAP = 30
EVENTS = 3 * BOUND + FREE + CAP
"""A bound volume, its claim and its pod; an Available volume; those put into quarantine once more."""


class EventServer:
    """Takes Events and counts by the kind of what they are about."""

    def __init__(self) -> None:
        self.about: Counter[str] = Counter()

    def __call__(self, request: Request) -> Answer:
        body = json.loads(request.body or b"")
        self.about[f"{body['regarding']['kind']} {body['reason']}"] += 1
        body["metadata"]["resourceVersion"] = "1"
        return answer(201, body)


def bound_and_free() -> World:
    world = World(Mode.PREBIND, quarantine=True)
    for number in range(BOUND):
        world.put(volume_object(f"pv-{number}", storage_class="used"), claim_object(f"data-{number}"))
        world.put(pod_object(f"web-{number}", [f"data-{number}"], node="node-a1"))
        bind(world, f"data-{number}", f"pv-{number}")
    for number in range(FREE):
        world.put(volume_object(f"free-{number}"))
    return world


async def test_two_thousand_volumes_become_unhealthy_at_once() -> None:
    world, server, events = bound_and_free(), EventServer(), CountedEvents()
    recorder = EventRecorder(
        KubeApi(ScriptedTransport(server)), world.clock, events, controller="pvc-prebinder", instance="host"
    )
    async with world.process() as process:
        process.sink.forward = recorder
        sending = asyncio.create_task(recorder.run())
        world.observe(HealthState.DATA_LOSS, *(f"pv-{n}" for n in range(BOUND)), *(f"free-{n}" for n in range(FREE)))
        for second in range(0, 125, 5):
            assert len(world.server.writes) <= WRITES_AT_ONCE + second * WRITES_PER_SECOND + 1
            assert server.about.total() <= BURST + second * QPS + 1
            await process.run(5)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        assert process.term.health_controller.counts()["fast"] == (CAP, FREE - CAP)
    assert len(world.server.writes) == BOUND + FREE
    assert not events.dropped
    assert server.about == {
        "PersistentVolume VolumeConditionAbnormal": BOUND + FREE,
        "PersistentVolumeClaim VolumeConditionAbnormal": BOUND,
        "Pod VolumeConditionAbnormal": BOUND,
        "PersistentVolume Quarantined": CAP,
    }
    assert server.about.total() == EVENTS
