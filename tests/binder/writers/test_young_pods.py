"""A new gated pod, and in mode prebind its claims, are taken from the cache: what that does not show costs nothing."""

from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

import pytest

from binder.model.decision import Mode
from binder.reservation.contract import format_time
from binder.writers.preconditions import YOUNG
from kube.client.transport import Request
from tests.binder.world import World, bind
from tests.fake_clock import START
from tests.fakes.objects import claim_object, pod_object, volume_object

SECOND = timedelta(seconds=1)


def created(moment: datetime, document: dict[str, Any]) -> dict[str, Any]:
    document["metadata"]["creationTimestamp"] = format_time(moment)
    return document


def waiting(mode: Mode = Mode.PREBIND, *, pod: datetime = START, claim: datetime = START, gated: bool = True) -> World:
    """A pod and its claim, created at these times, and a volume that fits; kube-scheduler could not serve the pod."""
    world = World(mode)
    world.put(created(claim, claim_object("data")), volume_object("pv-1"), volume_object("pv-9", "100Gi"))
    world.put(created(pod, pod_object("web", ["data"], gated=gated, unschedulable=not gated)))
    return world


def claim_ref(world: World, name: str) -> dict[str, Any] | None:
    reference: dict[str, Any] | None = world.volume(name)["spec"].get("claimRef")
    return reference


async def reserved_although_the_claim_is_gone(world: World) -> bool:
    """Whether the volume is committed to a claim that was deleted without the cache knowing it."""
    async with world.process() as process:
        world.server.lagging = True
        world.server.remove("persistentvolumeclaims", "default/data")
        await process.run(1)
    return claim_ref(world, "pv-1") is not None


@pytest.mark.parametrize(
    "moment", [START, START - YOUNG + SECOND, START + YOUNG - SECOND], ids=["now", "before", "clock late"]
)
async def test_a_new_pod_is_reserved_without_reading_it_and_its_claims(moment: datetime) -> None:
    assert await reserved_although_the_claim_is_gone(waiting(pod=moment, claim=moment))


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(lambda: waiting(pod=START - YOUNG), id="an older pod"),
        pytest.param(lambda: waiting(claim=START - YOUNG), id="an older claim"),
        pytest.param(lambda: waiting(pod=START + YOUNG + 2 * SECOND), id="a clock that is late by more"),
        pytest.param(lambda: waiting(Mode.COMPLETE), id="mode complete"),
    ],
)
async def test_all_others_are_read_first(world: Any) -> None:
    assert not await reserved_although_the_claim_is_gone(world())


async def test_a_new_pod_that_kube_scheduler_may_be_placing_is_read() -> None:
    world = waiting(gated=False)
    async with world.process() as process:
        world.server.lagging = True
        bind(world, "data", "pv-9")
        await process.run()
    assert claim_ref(world, "pv-1") is None


@pytest.mark.parametrize(
    ("mode", "age", "reads"),
    [
        pytest.param(Mode.PREBIND, timedelta(), set[str](), id="prebind"),
        pytest.param(Mode.COMPLETE, timedelta(), {"persistentvolumeclaims"}, id="complete"),
        pytest.param(Mode.COMPLETE, YOUNG, {"persistentvolumeclaims", "pods"}, id="complete, an older pod"),
    ],
)
async def test_what_is_read_before_the_first_write(mode: Mode, age: timedelta, reads: set[str]) -> None:
    world = waiting(mode, pod=START - age, claim=START - age)
    requests: list[Request] = []
    async with world.process() as process:
        process.connection.on_read = process.connection.on_write = requests.append
        await process.run()
    assert claim_ref(world, "pv-1") is not None
    before = takewhile(lambda request: request.method == "GET", requests)
    assert {request.path.split("/")[-2] for request in before} == reads


async def test_a_volume_committed_to_a_claim_that_was_gone_is_free_again() -> None:
    world = waiting()
    async with world.process() as process:
        world.server.lagging = True
        world.server.remove("persistentvolumeclaims", "default/data")
        await process.run(1)
        world.server.remove("pods", "default/web")
        world.server.change("persistentvolumes", "pv-1", lambda document: document["status"].update(phase="Released"))
        world.server.lagging = False
        world.server.catch_up()
        await process.run()
        assert claim_ref(world, "pv-1") is None
        assert process.sink.reasons_of("PersistentVolume", "pv-1") == ["VolumeMadeAvailable"]


@pytest.mark.parametrize("mode", [Mode.PREBIND, Mode.COMPLETE])
async def test_a_claim_that_kube_scheduler_bound_unseen_keeps_one_volume(mode: Mode) -> None:
    """The gate was removed by another hand. What is left of ours the PV controller unbinds, as for kube-scheduler's."""
    world = waiting(mode)
    async with world.process() as process:
        world.server.lagging = True
        world.server.change("pods", "default/web", lambda pod: pod["spec"].pop("schedulingGates"))
        bind(world, "data", "pv-9")
        await process.run(1)
        world.server.lagging = False
        world.server.catch_up()
        await process.run()
    assert world.claim("data")["spec"]["volumeName"] == "pv-9"
    assert world.violations() == []
    left = world.volume("pv-1")
    assert left["status"]["phase"] == "Available"
    if "claimRef" in left["spec"]:
        assert left["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
