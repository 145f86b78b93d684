"""The walk of docs/architecture.md from a claim's event to the write, against the call stacks of one that is walked.

The change is handed over four times: a pod is queued, its volumes and node are chosen, a volume is probed, and the
write is sent. Whatever module of the product is on the stack then hands it on, so the page can leave none out.
"""

import asyncio
import sys
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from binder.assignment.placing import Placing
from binder.controllers.planner import Planner
from binder.model.decision import Mode
from binder.reservation.contract import Holder
from binder.writers.health_gate import HealthGate
from csi.client.endpoint import Endpoint
from csi.drivers import Drivers
from csi.health.verdict import HealthState
from csi.probe import DriverProbe
from kube.client.api import KubeApi
from kube.client.reflector import Reflector
from kube.client.transport import Transport
from kube.decoding.decode import decode_claim
from kube.leaderelection.leadership import Leadership
from kube.objects.api_resource import CLAIMS
from kube.store.store import Store
from kube.workqueue import WorkQueue
from prebinder.config.settings import ClusterSettings
from prebinder.controller.term import Term, compose
from prebinder.runtime.clients import Clients
from tests.binder.counts import Counts
from tests.binder.world import Sink, World
from tests.builders import volume
from tests.csi.observers import Recorder
from tests.csi.scripted_driver import NAME, ScriptedDriver
from tests.fake_clock import FakeClock
from tests.fakes.aside import at_once
from tests.fakes.kube_api import Connection
from tests.fakes.objects import claim_object, pod_object, volume_object
from tests.kube.counted import CountedRequests
from tests.kube.running_reflector import Held
from tests.kube.scripted_transport import ScriptedTransport, answer, event, listing
from tests.prebinder.call_stacks import Stack, modules_on, stacks_at
from tests.running_task import running
from tests.test_architecture import ARCHITECTURE, FLOWCHARTS, arrows_of, modules_in

EVENT: Stack = ("kube/client/reflector", "kube/store/collection", "binder/controllers/wakeups", "kube/workqueue")
DECIDING: Stack = ("kube/workqueue", "binder/controllers/reconciler")
PLANNING: Stack = (*DECIDING, "binder/controllers/planner")
PASS: Stack = (
    "binder/controllers/batcher",
    "binder/controllers/planner",
    "binder/planning/plan",
    "binder/assignment/placing",
)
CHECK: Stack = (*DECIDING, "binder/writers/health_gate")
PROBE: Stack = ("csi/drivers", "csi/probe")
"""It begins a task of its own, as does the gate."""
WORKER: Stack = ("kube/workqueue", "binder/controllers/reconciler", "binder/writers/actor")
SENDING: Stack = ("binder/writers/object_client", "kube/client/api")
RESERVING: Stack = (*WORKER, *SENDING)
COMPLETING: Stack = (*WORKER, "binder/writers/complete", *SENDING)
VERDICT: Stack = (
    "csi/records",
    "prebinder/controller/term",
    "binder/controllers/health_controller",
    "kube/workqueue",
)
ANNOTATING: Stack = ("kube/workqueue", "binder/controllers/health_controller", *SENDING)
NETWORK = "kube/client/connect"
"""What the stories replace, behind the last module on the stack."""


def term_of(world: World, store: Store, transport: Transport) -> Term:
    """Return the loops as the process composes them, with its client."""
    leadership = Leadership.unelected(world.clock, "host")
    return compose(
        world.settings(),
        Clients(transport, world.clock, ClusterSettings(), CountedRequests()).fenced(leadership),
        store=store,
        probes=world.doctor,
        known=world.records,
        events=Sink(),
        metrics=Counts(),
        clock=world.clock,
        rng=Random(1),
        holder=Holder(leadership.holder, leadership.transition),
        namespace="pvc-prebinder-system",
        aside=at_once,
    )


def test_the_page_draws_every_module_that_hands_the_change_on() -> None:
    stacks = (EVENT, PLANNING, PASS, CHECK, PROBE, RESERVING, COMPLETING)
    handing_on = {module for stack in stacks for module in stack} | {NETWORK}
    assert modules_in(FLOWCHARTS[0], shapes="[") == handing_on
    assert f"the {len(handing_on)} that hand the change on" in ARCHITECTURE
    arrows = {(source, target) for source, _, _, target in arrows_of(FLOWCHARTS[0])}
    assert {step for stack in stacks for step in pairwise(stack)} <= arrows


async def test_the_event_of_a_claim_queues_its_pod() -> None:
    world, store = World(), Store()
    world.put(pod_object("web", ["data"]))
    world.server.feed(store)
    seen = event("ADDED", world.server.put(claim_object("data")))
    store.claims.delete("default/data", 0)
    reconciler = term_of(world, store, Connection(world.server)).reconciler
    assert reconciler is not None
    wire = ScriptedTransport(lambda _: answer(200, listing(1)), lambda _: (200, [seen, asyncio.Event().wait]))
    reflector = Reflector(
        KubeApi(wire), CLAIMS, decode_claim, store.claims, clock=world.clock, observer=Held(), rng=Random(1)
    )
    with reconciler.wakeups.following(), stacks_at(WorkQueue.add) as stacks:
        async with running(reflector.run()):
            await world.clock.advance(1)
    assert stacks == {EVENT}


@pytest.mark.parametrize(("mode", "stack"), [(Mode.PREBIND, RESERVING), (Mode.COMPLETE, COMPLETING)])
async def test_a_queued_pod_is_planned_and_written_for(mode: Mode, stack: Stack) -> None:
    world, store = World(mode), Store()
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], gated=True))
    world.server.feed(store)
    connection, writes = Connection(world.server), list[Stack]()
    connection.on_write = lambda _: writes.append(modules_on(sys._getframe()))
    term = term_of(world, store, connection)
    with stacks_at(Planner.decide, Placing.in_topology, HealthGate.probe) as stacks:
        async with running(term.run()):
            await world.clock.advance(1)
    assert stacks == {PLANNING, PASS, CHECK}
    assert writes[0] == stack


async def test_a_chosen_volume_is_probed(tmp_path: Path) -> None:
    clock = FakeClock()
    chosen = volume("pv-1", driver=NAME)
    async with ScriptedDriver(tmp_path / "s.sock") as driver:
        drivers = Drivers([Endpoint(NAME, str(driver.socket))], clock, Recorder())
        with stacks_at(DriverProbe.probe) as stacks:
            assert await HealthGate(drivers, timedelta(minutes=1), clock).probe([chosen], clock.now())
        await drivers.close()
    assert stacks == {PROBE}


async def test_a_verdict_about_a_volume_is_handed_to_its_loop_and_written() -> None:
    world, store = World(), Store()
    world.put(volume_object("pv-1"))
    world.server.feed(store)
    connection, writes = Connection(world.server), list[Stack]()
    connection.on_write = lambda _: writes.append(modules_on(sys._getframe()))
    async with running(term_of(world, store, connection).run()):
        await world.clock.advance(1)
        with stacks_at(WorkQueue.add) as stacks:
            world.observe(HealthState.DATA_LOSS, "pv-1")
        await world.clock.advance(1)
    assert stacks == {VERDICT}
    assert writes[0] == ANNOTATING
