"""Reserving, seen from the API server: what is written, in which order, and what is taken back on a loss."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from binder.model.decision import Applied, Lost, Mode, Placement, Reserve
from binder.reporting.metrics import ConflictKind
from binder.reservation.contract import DEFAULT_PREFIX, Annotations, ClaimReservation
from binder.reservation.release import Cause
from binder.writers.attempt import LostPlacement
from binder.writers.rollback import Held
from kube.client.api import nothing
from kube.client.transport import Request, Response
from kube.errors import LeadershipLost
from tests.binder.stories import three_claims
from tests.binder.world import Process, World, bind, reservation
from tests.fake_clock import START
from tests.fakes.kube_api import failure
from tests.fakes.objects import claim_object, pod_object, volume_object

OTHER = {"kind": "PersistentVolumeClaim", "namespace": "elsewhere", "name": "thief", "uid": "uid-thief"}


async def decided(world: World, volume: str) -> tuple[Process, Reserve]:
    """Return a process that has chosen this volume for the claim and found it healthy, and has written nothing."""
    process = world.process()
    world.server.feed(process.store)
    seen = process.store.snapshot()
    placement = Placement(seen.claims["default/data"], seen.volumes[volume])
    decision = Reserve(seen.pods["default/web"], Mode.ANNOTATE, "a", "node-a1", (), (placement,))
    await process.reconciler.gate.probe(decision.volumes, world.clock.now())
    return process, decision


async def test_annotate_says_on_both_sides_what_is_held_until_when() -> None:
    world = World(Mode.ANNOTATE)
    world.put(volume_object("pv-1", zone="b"), claim_object("data"), pod_object("web", ["data"], unschedulable=True))
    async with world.process(transition=7) as process:
        await process.run()
    assert world.annotations("persistentvolumes", "pv-1") == {
        "reserved-for": "default/data",
        "reserved-for-uid": "uid-persistentvolumeclaims-default/data",
        "reserved-for-pod-uid": "uid-pods-default/web",
        "bound-at": "2026-01-01T12:00:00Z",
        "expires-at": "2026-01-01T12:10:00Z",
        "reserved-by": "host/7",
    }
    assert world.annotations("persistentvolumeclaims", "default/data") == {
        "reserved-volume": "pv-1",
        "reserved-zone": "b",
        "bound-at": "2026-01-01T12:00:00Z",
        "expires-at": "2026-01-01T12:10:00Z",
    }
    assert "claimRef" not in world.volume("pv-1")["spec"]
    assert process.metrics.counted["reserved", "fast"] == 1


async def test_volumes_are_written_before_claims() -> None:
    world = three_claims()
    async with world.process() as process:
        await process.run()
    kinds = ["persistentvolumes"] * 3 + ["persistentvolumeclaims"] * 3 + ["pods"]
    assert [write.plural for write in world.server.writes] == kinds
    assert {world.reserved(f"data-{number}") for number in (1, 2, 3)} == {"pv-1", "pv-2", "pv-3"}


async def test_nothing_changes_nothing_is_written() -> None:
    world = three_claims()
    async with world.process() as process:
        await process.run()
        written, requests = len(world.server.writes), process.connection.requests
        await process.run(300)
    assert (len(world.server.writes), process.connection.requests) == (written, requests)


async def test_prebind_commits_the_volume_as_kube_scheduler_does_and_leaves_the_claim_as_it_is() -> None:
    world = World(Mode.PREBIND)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], unschedulable=True))
    seen = world.claim("data")
    async with world.process() as process:
        await process.run()
    assert world.volume("pv-1")["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "data",
        "uid": seen["metadata"]["uid"],
        "resourceVersion": seen["metadata"]["resourceVersion"],
    }
    assert world.volume("pv-1")["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert world.annotations("persistentvolumes", "pv-1")["reserved-zone"] == "a"
    assert world.claim("data") == seen
    assert len(world.server.writes) == 1


def deleted_with_its_claim(name: str) -> dict[str, Any]:
    """A volume that mode prebind commits to the claim's name alone."""
    volume = volume_object(name)
    volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete"
    return volume


async def test_prebind_commits_a_volume_that_would_be_deleted_with_its_claim_to_the_name_alone() -> None:
    world = World(Mode.PREBIND, allow_delete_policy=True)
    world.put(deleted_with_its_claim("pv-1"), claim_object("data"), pod_object("web", ["data"], unschedulable=True))
    async with world.process() as process:
        await process.run()
    assert world.volume("pv-1")["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "data",
    }
    assert "pv.kubernetes.io/bound-by-controller" not in world.volume("pv-1")["metadata"]["annotations"]
    assert world.reserved("data") == "pv-1"
    assert "volumeName" not in world.claim("data")["spec"]
    assert len(world.server.writes) == 2


def steal(world: World, name: str, at_write_of: str) -> None:
    """Have another claim take the volume right before our write of `at_write_of` arrives."""

    def taken(request: Request) -> None:
        if request.path.endswith(at_write_of):
            world.server.before_write = None
            world.server.change("persistentvolumes", name, lambda document: document["spec"].update(claimRef=OTHER))

    world.server.before_write = taken


@pytest.mark.parametrize("mode", [Mode.ANNOTATE, Mode.PREBIND])
async def test_losing_one_volume_rolls_back_the_others_and_plans_again(mode: Mode) -> None:
    world = three_claims(mode)
    steal(world, "pv-3", at_write_of="pv-3")
    async with world.process() as process:
        await process.run()
    for name in ("pv-1", "pv-2", "pv-3"):
        assert world.annotations("persistentvolumes", name) == {}
        assert world.volume(name)["spec"].get("claimRef") == (OTHER if name == "pv-3" else None)
    assert [world.reserved(f"data-{number}") for number in (1, 2, 3)] == [None, None, None]
    assert process.metrics.counted["conflicted", "persistentvolumes", ConflictKind.ALREADY_CLAIMED] == 1
    assert process.sink.reasons_of("Pod", "web") == ["ReservationLost", "NoJointAssignment"]


async def test_a_lost_volume_is_replaced_by_another_at_once() -> None:
    world = three_claims()
    world.put(volume_object("pv-4", "20Gi"))
    steal(world, "pv-2", at_write_of="pv-2")
    async with world.process() as process:
        await process.run()
    assert {world.reserved(f"data-{number}") for number in (1, 2, 3)} == {"pv-1", "pv-3", "pv-4"}
    assert world.violations() == []


async def test_a_change_that_does_not_concern_us_is_no_loss() -> None:
    world = three_claims()

    def touched(request: Request) -> None:
        if request.path.endswith("pv-2"):
            world.server.before_write = None
            annotate = {"somebody.example/note": "hello"}
            world.server.change(
                "persistentvolumes", "pv-2", lambda document: document["metadata"].update(annotations=annotate)
            )

    world.server.before_write = touched
    async with world.process() as process:
        await process.run()
    assert world.volume("pv-2")["metadata"]["annotations"]["somebody.example/note"] == "hello"
    assert world.reserved("data-2") == "pv-2"
    assert process.metrics.counted["conflicted", "persistentvolumes", ConflictKind.RESOURCE_VERSION] == 1
    assert process.sink.reasons_of("Pod", "web") == ["VolumeReserved"]


@pytest.mark.parametrize("mode", [Mode.ANNOTATE, Mode.PREBIND])
async def test_a_claim_that_was_bound_elsewhere_gives_its_volume_back(mode: Mode) -> None:
    world = World(mode)
    world.put(volume_object("pv-1"), volume_object("pv-9", "20Gi"), claim_object("data"), pod_object("web", ["data"]))

    def bound(request: Request) -> None:
        if request.path.endswith("data"):
            world.server.before_write = None
            bind(world, "data", "pv-9")

    world.server.before_write = bound
    async with world.process() as process:
        await process.run()
    assert world.annotations("persistentvolumes", "pv-1") == {}
    assert "claimRef" not in world.volume("pv-1")["spec"]
    assert world.claim("data")["spec"]["volumeName"] == "pv-9"
    assert world.violations() == []


async def test_a_bind_that_completed_meanwhile_is_never_undone() -> None:
    """Two claims: the first is bound by the PV controller while the second loses its volume."""
    world = World(Mode.PREBIND)
    world.put(*(volume_object(name) for name in ("pv-1", "pv-2")), *(claim_object(name) for name in ("one", "two")))
    world.put(pod_object("web", ["one", "two"], gated=True))
    first: dict[str, str] = {}

    def raced(request: Request) -> None:
        name = request.path.rsplit("/", 1)[-1]
        if first and name not in first:
            world.server.before_write = None
            held, claim = first.popitem()
            bind(world, claim, held)
            world.server.change("persistentvolumes", name, lambda document: document["spec"].update(claimRef=OTHER))
        else:
            first[name] = json.loads(request.body or b"")["spec"]["claimRef"]["name"]

    world.server.before_write = raced
    async with world.process() as process:
        await process.run()
    bound = [claim for claim in ("one", "two") if world.claim(claim)["spec"].get("volumeName")]
    assert len(bound) == 1
    volume = world.volume(world.claim(bound[0])["spec"]["volumeName"])
    assert volume["spec"]["claimRef"]["name"] == bound[0]
    assert world.violations() == []


async def test_an_error_of_the_api_server_is_rolled_back_and_retried() -> None:
    world = three_claims()
    for method in ("PATCH", "GET"):
        world.server.reject_next.append((f"{method} /api/v1/persistentvolumes/pv-2", failure(500, "InternalError")))
    async with world.process() as process:
        await process.run(0.06)
        assert world.annotations("persistentvolumes", "pv-1") == {}
        await process.run()
    assert {world.reserved(f"data-{number}") for number in (1, 2, 3)} == {"pv-1", "pv-2", "pv-3"}


async def test_a_claim_on_two_volumes_keeps_the_older() -> None:
    world = World(Mode.ANNOTATE)
    world.put(claim_object("data"), pod_object("web", ["data"]), volume_object("pv-1"), volume_object("pv-2"))
    older = reservation("data", minutes=-1)

    def raced(request: Request) -> None:
        world.server.before_write = None
        world.server.change(
            "persistentvolumes", "pv-2", lambda document: document["metadata"].update(annotations=older)
        )

    world.server.before_write = raced
    async with world.process() as process:
        await process.run()
    assert world.annotations("persistentvolumes", "pv-1") == {}
    assert world.reserved("data") == "pv-2"
    assert process.metrics.counted["conflicted", "persistentvolumes", ConflictKind.DOUBLE_RESERVED] == 1
    assert process.metrics.counted["released", Cause.SUPERSEDED] == 1
    assert world.violations() == []


async def test_a_volume_that_was_released_unseen_does_not_count_as_held() -> None:
    """A crash left the volume's side alone, and the watch does not show yet that it was released."""
    world = World(Mode.ANNOTATE)
    world.put(claim_object("data"), pod_object("web", ["data"], gated=True))
    world.put(volume_object("pv-1", annotations=reservation("data", minutes=-1)))
    process, decision = await decided(world, "pv-1")
    world.server.lagging = True
    world.server.change("persistentvolumes", "pv-1", lambda volume: volume["metadata"]["annotations"].clear())
    outcome = await process.reconciler.actor.act(decision)
    assert isinstance(outcome, Applied) == (world.annotations("persistentvolumes", "pv-1") != {})


async def test_a_volume_that_is_released_while_its_claim_waits_for_its_turn_is_lost() -> None:
    world = World(Mode.ANNOTATE)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], unschedulable=True))
    process, decision = await decided(world, "pv-1")
    applier = process.reconciler.actor.applier
    volumes = await applier.reserve_volumes(decision, [], nothing)
    world.server.change("persistentvolumes", "pv-1", lambda document: document["metadata"].pop("annotations"))
    world.server.feed(process.store)
    with pytest.raises(LostPlacement, match="released before its claim was written"):
        await applier.reserve_claims(decision, volumes)
    assert world.reserved("data") is None


async def test_what_is_held_for_a_claim_recreated_under_the_name_is_not_rolled_back_with_its_predecessor() -> None:
    """Another pod with the claim was served while this one waited for its turn."""
    world = World(Mode.PREBIND, allow_delete_policy=True)
    world.put(deleted_with_its_claim("pv-1"), claim_object("data"), pod_object("web", ["data"], gated=True))
    process, planned = await decided(world, "pv-1")
    applier, decision = process.reconciler.actor.applier, replace(planned, mode=Mode.PREBIND)
    held: list[Held] = []
    volumes = await applier.reserve_volumes(decision, held, nothing)
    world.server.remove("persistentvolumeclaims", "default/data")
    recreated = claim_object("data")
    recreated["metadata"]["uid"] = "uid-2"
    world.put(recreated)
    later = {DEFAULT_PREFIX + "reserved-for-uid": "uid-2", DEFAULT_PREFIX + "claim-ref": "default/data/uid-2"}
    world.server.change("persistentvolumes", "pv-1", lambda volume: volume["metadata"]["annotations"].update(later))
    reserved = world.volume("pv-1")
    with pytest.raises(LostPlacement):
        await applier.reserve_claims(decision, volumes)
    await process.reconciler.actor.rollback.roll_back(held)
    assert world.volume("pv-1") == reserved


async def test_a_volume_planned_in_place_of_an_unhealthy_one_stays() -> None:
    """The plan saw the older reservation and passed it over; that is no race."""
    world = World(Mode.ANNOTATE)
    world.put(claim_object("data"), pod_object("web", ["data"]), volume_object("pv-2"))
    world.put(volume_object("pv-1", annotations=reservation("data", minutes=-1)))
    process, decision = await decided(world, "pv-2")
    assert isinstance(await process.reconciler.actor.act(decision), Applied)
    assert world.reserved("data") == "pv-2"
    assert world.annotations("persistentvolumes", "pv-1") == {}
    assert [write.name for write in world.server.writes] == ["pv-1", "pv-2", "default/data"], (
        "one volume held at any moment"
    )
    assert world.violations() == []


async def test_a_process_that_lost_its_lease_writes_nothing() -> None:
    world = three_claims()
    async with world.process() as process:
        process.leadership.end()
        with pytest.raises(LeadershipLost):
            await process.run()
    assert world.server.writes == []


async def test_an_answer_without_our_reservation_is_no_success() -> None:
    """Something between us and etcd, such as an admission webhook, has taken our annotations off."""
    world = World(Mode.ANNOTATE)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], unschedulable=True))
    process, decision = await decided(world, "pv-1")
    world.server.reject_next.append(
        ("persistentvolumes/pv-1", Response(200, json.dumps(world.volume("pv-1")).encode()))
    )
    outcome = await process.reconciler.actor.act(decision)
    assert isinstance(outcome, Lost)
    assert "does not show our reservation" in outcome.why
    assert world.reserved("data") is None


async def test_an_expired_reservation_on_the_claim_is_renewed_with_the_volumes() -> None:
    world = World(Mode.ANNOTATE)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], unschedulable=True))
    long_ago = START - timedelta(hours=1)
    expired = Annotations().for_claim(ClaimReservation("pv-1", long_ago, long_ago + timedelta(minutes=10)))
    world.server.change(
        "persistentvolumeclaims",
        "default/data",
        lambda document: document["metadata"].update(annotations={key: text for key, text in expired.items() if text}),
    )
    process, decision = await decided(world, "pv-1")
    assert isinstance(await process.reconciler.actor.act(decision), Applied)
    for plural, key in (("persistentvolumes", "pv-1"), ("persistentvolumeclaims", "default/data")):
        assert world.annotations(plural, key)["expires-at"] == "2026-01-01T12:10:00Z"
