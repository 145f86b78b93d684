"""Killed after any single write: the next process, from the server's state alone, ends where an undisturbed one does.

Frame: the server and the clock live on, the process and all it knew are gone. No PV controller is at work, so whatever
converges does so by our own doing.
"""

from datetime import timedelta

import pytest

from binder.model.decision import Mode
from binder.reservation.release import Cause
from tests.binder.world import World
from tests.fakes.objects import claim_object, pod_object, volume_object

CLAIMS = ("one", "two", "three")


CRASHES = [
    *(pytest.param(Mode.ANNOTATE, "Retain", writes, id=f"annotate-{writes}") for writes in range(1, 15)),
    *(pytest.param(Mode.PREBIND, "Retain", writes, id=f"prebind-{writes}") for writes in range(1, 7)),
    *(pytest.param(Mode.PREBIND, "Delete", writes, id=f"prebind-by-name-{writes}") for writes in range(1, 13)),
]
"""After each write of two pods with three claims: volumes, claims unless they are left untouched, gates where they do
not wait for the PV controller.
"""


def two_pods(mode: Mode, policy: str = "Retain") -> World:
    """Volumes for exactly one of the two pods in zone a, and for the other in zone b, where one of three is large."""
    world = World(mode, allow_delete_policy=True)
    volumes = [
        *(volume_object(f"pv-a{number}", zone="a") for number in (1, 2, 3)),
        *(volume_object(f"pv-b{number}", f"{number}0Gi", zone="b") for number in (1, 2, 3)),
    ]
    for volume in volumes:
        volume["spec"]["persistentVolumeReclaimPolicy"] = policy
    world.put(*volumes)
    for pod in ("red", "blue"):
        world.put(*(claim_object(f"{pod}-{name}") for name in CLAIMS))
        world.put(pod_object(pod, [f"{pod}-{name}" for name in CLAIMS], gated=True))
    return world


def zones(world: World, pod: str, mode: Mode) -> set[str]:
    """Return the zones of the volumes the pod holds, read from the volumes' side, and require that it holds three."""
    held = []
    for volume in world.server.all("persistentvolumes"):
        named = volume["spec"].get("claimRef", {}).get("name", "")
        reserved_for = world.annotations("persistentvolumes", volume["metadata"]["name"]).get("reserved-for", "/")
        if f"{pod}-" in (named if mode is not Mode.ANNOTATE else reserved_for):
            held.append(volume["metadata"]["name"])
    assert len(held) == 3, held
    return {name[3] for name in held}


@pytest.mark.parametrize(("mode", "policy", "writes"), CRASHES)
async def test_reservations_are_finished_after_a_crash(mode: Mode, policy: str, writes: int) -> None:
    world = two_pods(mode, policy)
    async with world.process(dies_after=writes) as process:
        await process.run()
        assert process.killed
    assert len(world.server.writes) == writes
    async with world.process(transition=2) as process:
        await process.run()
        assert world.violations() == []
    assert {frozenset(zones(world, pod, mode)) for pod in ("red", "blue")} == {frozenset("a"), frozenset("b")}


async def test_gates_are_removed_from_pods_with_bound_claims_after_a_crash_between_two_of_them() -> None:
    world = two_pods(Mode.PREBIND)
    world.binds = True
    async with world.process(dies_after=7) as process:
        await process.run()
        assert process.killed
    assert [write.plural for write in world.server.writes] == [*["persistentvolumes"] * 6, "pods"]
    async with world.process(transition=2) as process:
        await process.run()
    assert not any(pod["spec"].get("schedulingGates") for pod in world.server.all("pods"))


@pytest.mark.parametrize(("mode", "policy", "writes"), CRASHES)
async def test_nothing_is_left_after_a_crash_if_the_pods_are_gone(mode: Mode, policy: str, writes: int) -> None:
    world = two_pods(mode, policy)
    async with world.process(dies_after=writes) as process:
        await process.run()
    for pod in ("red", "blue"):
        world.server.remove("pods", f"default/{pod}")
    async with world.process(transition=2) as process:
        await process.run()
    assert_untouched(world)


@pytest.mark.parametrize(
    ("policy", "writes"),
    [*(("Retain", writes) for writes in range(1, 4)), *(("Delete", writes) for writes in range(1, 7))],
)
async def test_a_crash_while_releasing_is_finished_too(policy: str, writes: int) -> None:
    world = two_pods(Mode.PREBIND, policy)
    world.server.remove("pods", "default/blue")
    async with world.process() as process:
        await process.run()
    world.server.writes.clear()
    world.server.remove("pods", "default/red")
    async with world.process(dies_after=writes, transition=2) as process:
        await process.run()
        assert process.killed
    async with world.process(transition=3) as process:
        await process.run()
    assert_untouched(world)


@pytest.mark.parametrize("writes", range(1, 15))
async def test_an_unfinished_reservation_expires(writes: int) -> None:
    world = two_pods(Mode.ANNOTATE)
    async with world.process(dies_after=writes) as process:
        await process.run()
    world.mode = Mode.OFF
    async with world.process(transition=2) as process:
        await process.run((world.ttl + timedelta(seconds=2)).total_seconds())
    assert_untouched(world)


@pytest.mark.parametrize("writes", range(1, 5))
async def test_a_bind_cut_off_leaves_nothing_of_ours_behind(writes: int) -> None:
    """The next holder, or the PV controller, finishes such a bind; what we must not do is to undo or to double it."""
    world = World(Mode.COMPLETE)
    world.put(
        volume_object("pv-1"),
        volume_object("pv-2"),
        claim_object("data"),
        pod_object("web", ["data"], unschedulable=True),
    )
    async with world.process(dies_after=writes) as process:
        await process.run()
        assert process.killed
    async with world.process(transition=2) as process:
        await process.run(1000)
    assert world.volume("pv-1")["spec"]["claimRef"]["uid"] == world.claim("data")["metadata"]["uid"]
    assert "claimRef" not in world.volume("pv-2")["spec"]
    assert world.annotations("persistentvolumes", "pv-1") == {}
    assert world.claim("data")["status"]["phase"] == "Bound"
    assert len(world.server.writes) == 4
    assert world.violations() == []


async def test_a_claim_that_names_the_volume_unseen_keeps_it() -> None:
    """The watch lags: the claim was given the volume's name, and only reading it right before the write shows that."""
    world = World(Mode.PREBIND)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], unschedulable=True))
    async with world.process(dies_after=1) as process:
        await process.run()
    async with world.process(transition=2) as process:
        world.server.lagging = True
        named = {"volumeName": "pv-1"}
        world.server.change("persistentvolumeclaims", "default/data", lambda document: document["spec"].update(named))
        process.store.pods.delete("default/web")
        await process.run()
        assert process.metrics.counted["released", Cause.POD_DELETED] == 1
    assert world.volume("pv-1")["spec"]["claimRef"]["name"] == "data"


def assert_untouched(world: World) -> None:
    for volume in world.server.all("persistentvolumes"):
        assert "claimRef" not in volume["spec"]
        assert "annotations" not in volume["metadata"]
    for claim in world.server.all("persistentvolumeclaims"):
        assert "annotations" not in claim["metadata"]


async def test_a_pod_half_committed_by_a_process_that_died_comes_before_a_more_urgent_one() -> None:
    world = World(Mode.COMPLETE)
    for name in ("pv-1", "pv-2"):
        world.put(volume_object(name, zone=None, node="node-a1"))
    world.put(*(claim_object(name) for name in ("first", "second", "other")))
    world.put(pod_object("half", ["first", "second"], gated=True))
    async with world.process(dies_after=1) as process:
        await process.run()
        assert process.killed
    urgent = pod_object("urgent", ["other"], gated=True)
    urgent["spec"]["priority"] = 1000
    world.put(urgent)
    async with world.process(transition=2) as process:
        await process.run()
    assert {world.claim(name)["spec"].get("volumeName") for name in ("first", "second")} == {"pv-1", "pv-2"}
    assert "volumeName" not in world.claim("other")["spec"]
