"""How reservations end: whatever happens to claim, pod, node, volume or annotations, the end is correct and clean."""

from collections.abc import Callable
from typing import Any

import pytest

from binder.controllers.clean_up import CALM, RECHECK_SECONDS
from binder.model.decision import Mode
from binder.reservation.release import Cause
from tests.binder.world import World, bind, reservation
from tests.fakes.kube_api import failure
from tests.fakes.objects import claim_object, class_object, pod_object, volume_object

PREFIX = "scheduler.cloud.example/"
OTHER = {"kind": "PersistentVolumeClaim", "namespace": "elsewhere", "name": "thief", "uid": "uid-thief"}


def reserved_world(mode: Mode = Mode.PREBIND, **volume: Any) -> World:
    world = World(mode)
    world.put(volume_object("pv-1", **volume), claim_object("data"), pod_object("web", ["data"]))
    return world


def is_free(world: World, name: str = "pv-1") -> bool:
    volume = world.volume(name)
    return "claimRef" not in volume["spec"] and "annotations" not in volume["metadata"]


def delete_pod(world: World) -> None:
    world.server.remove("pods", "default/web")


def finish_pod(world: World) -> None:
    world.server.change("pods", "default/web", lambda document: document["status"].update(phase="Failed"))


def delete_claim(world: World) -> None:
    world.server.remove("persistentvolumeclaims", "default/data")


def terminate_claim(world: World) -> None:
    terminating = {"deletionTimestamp": "2026-01-01T12:00:00Z"}
    world.server.change(
        "persistentvolumeclaims", "default/data", lambda document: document["metadata"].update(terminating)
    )


@pytest.mark.parametrize("mode", [Mode.ANNOTATE, Mode.PREBIND])
@pytest.mark.parametrize(
    ("event", "cause"),
    [
        pytest.param(delete_pod, Cause.POD_DELETED, id="pod deleted"),
        pytest.param(finish_pod, Cause.POD_DELETED, id="pod finished"),
        pytest.param(delete_claim, Cause.CLAIM_DELETED, id="claim deleted"),
        pytest.param(terminate_claim, Cause.CLAIM_DELETED, id="claim terminating"),
    ],
)
async def test_the_volume_is_available_again_when_no_pod_needs_it(
    mode: Mode, event: Callable[[World], None], cause: Cause
) -> None:
    world = reserved_world(mode)
    async with world.process() as process:
        await process.run()
        assert not is_free(world)
        event(world)
        await process.run()
    assert is_free(world)
    assert process.metrics.counted["released", cause] == 1


async def test_another_pod_of_the_claim_keeps_the_reservation() -> None:
    world = reserved_world()
    world.put(pod_object("second", ["data"]))
    async with world.process() as process:
        await process.run()
        delete_pod(world)
        await process.run()
    assert world.reserved("data") == "pv-1"


async def test_a_recreated_claim_is_served_under_its_own_uid() -> None:
    world = reserved_world(Mode.ANNOTATE)
    async with world.process() as process:
        await process.run()
        delete_claim(world)
        world.put(claim_object("data", uid="uid-second"))
        await process.run()
    assert world.annotations("persistentvolumes", "pv-1")["reserved-for-uid"] == "uid-second"
    assert world.reserved("data") == "pv-1"
    assert world.violations() == []


async def test_a_bound_reservation_leaves_only_what_kubernetes_wrote() -> None:
    world = reserved_world()
    async with world.process() as process:
        await process.run()
        bind(world, "data", "pv-1")
        await process.run()
    assert world.annotations("persistentvolumes", "pv-1") == {}
    assert world.annotations("persistentvolumeclaims", "default/data") == {}
    assert world.volume("pv-1")["spec"]["claimRef"]["name"] == "data"
    assert process.metrics.counted["released", Cause.BOUND] == 1
    assert [write.plural for write in world.server.writes[-2:]] == ["persistentvolumeclaims", "persistentvolumes"]


@pytest.mark.parametrize("mode", [Mode.ANNOTATE, Mode.PREBIND])
async def test_nothing_is_written_between_two_writes_of_a_bind(mode: Mode) -> None:
    """The PV controller's next write names the version that it saw, and would fail."""
    world = reserved_world(mode)
    async with world.process() as process:
        await process.run()
        written = len(world.server.writes)
        claim, key = world.claim("data"), "default/data"
        reference = {"namespace": "default", "name": "data", "uid": claim["metadata"]["uid"]}
        completed = {"pv.kubernetes.io/bind-completed": "yes"}
        for plural, name, change in (
            ("persistentvolumes", "pv-1", lambda document: document["spec"].update(claimRef=reference)),
            ("persistentvolumes", "pv-1", lambda document: document["status"].update(phase="Bound")),
            ("persistentvolumeclaims", key, lambda document: document["metadata"]["annotations"].update(completed)),
            ("persistentvolumeclaims", key, lambda document: document["spec"].update(volumeName="pv-1")),
        ):
            world.server.change(plural, name, change)
            await process.run()
        assert len(world.server.writes) == written
        world.server.change("persistentvolumeclaims", key, lambda document: document["status"].update(phase="Bound"))
        await process.run()
    assert world.annotations("persistentvolumes", "pv-1") == world.annotations("persistentvolumeclaims", key) == {}


async def test_annotations_of_kept_reservations_wait_until_no_more_claims_are_bound() -> None:
    world = World(Mode.PREBIND)
    names = [f"data-{number}" for number in range(4)]
    for number, name in enumerate(names):
        world.put(volume_object(f"pv-{number}"), claim_object(name), pod_object(f"web-{number}", [name]))
    async with world.process() as process:
        await process.run()
        written, volumes = len(world.server.writes), {name: world.reserved(name) or "" for name in names}
        for name in names:
            bind(world, name, volumes[name])
            await process.run(CALM - 0.5)
        assert len(world.server.writes) == written
        await process.run(RECHECK_SECONDS + CALM)
    assert len(world.server.writes) == written + 2 * len(names)
    assert process.metrics.counted["released", Cause.BOUND] == len(names)


async def test_a_bind_in_progress_is_left_alone() -> None:
    world = reserved_world()
    async with world.process() as process:
        await process.run()
        written = len(world.server.writes)
        world.server.change(
            "persistentvolumeclaims", "default/data", lambda document: document["spec"].update(volumeName="pv-1")
        )
        delete_pod(world)
        await process.run()
    assert len(world.server.writes) == written


async def test_a_claim_bound_elsewhere_frees_its_reserved_volume() -> None:
    world = reserved_world()
    world.put(volume_object("pv-9", "20Gi"))
    async with world.process() as process:
        await process.run()
        bind(world, "data", "pv-9")
        await process.run()
    assert is_free(world)
    assert world.annotations("persistentvolumeclaims", "default/data") == {}
    assert process.metrics.counted["released", Cause.LOST] == 1


async def test_a_volume_taken_by_another_claim_is_given_up_and_replaced() -> None:
    world = reserved_world(Mode.ANNOTATE)
    world.put(volume_object("pv-9", "20Gi"))
    async with world.process() as process:
        await process.run()
        world.server.change("persistentvolumes", "pv-1", lambda document: document["spec"].update(claimRef=OTHER))
        await process.run()
    assert world.volume("pv-1")["spec"]["claimRef"] == OTHER
    assert world.annotations("persistentvolumes", "pv-1") == {}
    assert world.reserved("data") == "pv-9"


@pytest.mark.parametrize("mode", [Mode.ANNOTATE, Mode.PREBIND])
async def test_a_deleted_volume_is_replaced(mode: Mode) -> None:
    world = reserved_world(mode)
    world.put(volume_object("pv-9", "20Gi"))
    async with world.process() as process:
        await process.run()
        world.server.remove("persistentvolumes", "pv-1")
        await process.run()
    assert world.reserved("data") == "pv-9"
    assert world.violations() == []


async def test_a_volume_that_no_node_reaches_any_more_is_released() -> None:
    world = reserved_world(Mode.ANNOTATE, zone=None, node="node-a1")
    world.put(volume_object("pv-9", "20Gi", zone="b"))
    async with world.process() as process:
        await process.run()
        assert world.annotations("persistentvolumeclaims", "default/data")["reserved-nodes"] == "node-a1"
        world.server.remove("nodes", "node-a1")
        await process.run()
    assert is_free(world)
    assert world.reserved("data") == "pv-9"
    assert process.metrics.counted["released", Cause.NODE_GONE] == 1


async def test_a_reservation_expires_and_is_written_again_while_the_pod_waits() -> None:
    world = reserved_world(Mode.ANNOTATE)
    async with world.process() as process:
        await process.run()
        await process.run(world.ttl.total_seconds())
    assert process.metrics.counted["released", Cause.EXPIRED] == 1
    assert world.annotations("persistentvolumes", "pv-1")["bound-at"] > "2026-01-01T12:09:59Z"
    assert world.reserved("data") == "pv-1"
    assert world.violations() == []


async def test_a_dead_holders_reservation_is_adopted_if_it_still_fits() -> None:
    world = World(Mode.ANNOTATE)
    world.put(volume_object("pv-1"), volume_object("pv-2", annotations=reservation("data", minutes=-5)))
    world.put(claim_object("data"), pod_object("web", ["data"]))
    async with world.process() as process:
        await process.run()
        assert world.reserved("data") == "pv-2"
        assert world.annotations("persistentvolumes", "pv-2")["reserved-by"] == "dead-host/1"
        assert len(world.server.writes) == 1
        await process.run(300)
    assert world.violations() == []


async def test_a_dead_holders_expired_reservation_is_released_at_start() -> None:
    world = World(Mode.OFF)
    world.put(volume_object("pv-1", annotations=reservation("gone", minutes=-20)))
    async with world.process() as process:
        await process.run(0)
    assert is_free(world)


GARBAGE = [
    pytest.param({"expires-at": "soon"}, id="no time"),
    pytest.param({"reserved-for": "???"}, id="no claim"),
    pytest.param({"reserved-for": "???", "reserved-for-uid": ""}, id="neither claim nor uid"),
    pytest.param({"reserved-by": "me"}, id="no holder"),
]


@pytest.mark.parametrize("changes", GARBAGE)
@pytest.mark.parametrize("mode", [Mode.ANNOTATE, Mode.PREBIND])
async def test_a_user_breaking_the_volumes_annotations_breaks_nothing_else(mode: Mode, changes: dict[str, str]) -> None:
    world = reserved_world(mode)
    async with world.process() as process:
        await process.run()
        broken = {PREFIX + word: text for word, text in changes.items()}
        world.server.change(
            "persistentvolumes", "pv-1", lambda document: document["metadata"]["annotations"].update(broken)
        )
        await process.run()
        assert world.reserved("data") == "pv-1"
        assert world.annotations("persistentvolumes", "pv-1")["reserved-for"] == "default/data"
        assert process.metrics.counted["garbage", next(iter(changes))] == 1
        delete_pod(world)
        await process.run()
    assert is_free(world)
    assert "annotations" not in world.claim("data")["metadata"]


@pytest.mark.parametrize("word", ["reserved-volume", "expires-at"])
async def test_annotations_of_a_claim_that_a_user_breaks_are_written_again(word: str) -> None:
    world = reserved_world(Mode.ANNOTATE)
    async with world.process() as process:
        await process.run()
        annotations = world.annotations("persistentvolumeclaims", "default/data")
        broken = {PREFIX + word: ""}
        world.server.change(
            "persistentvolumeclaims",
            "default/data",
            lambda document: document["metadata"]["annotations"].update(broken),
        )
        await process.run()
    assert world.annotations("persistentvolumeclaims", "default/data") == annotations
    assert process.metrics.counted["garbage", word] == 1


@pytest.mark.parametrize("led_before", [True, False])
async def test_an_unknown_mode_on_a_class_is_counted(*, led_before: bool) -> None:
    world = World(Mode.ANNOTATE)
    odd = class_object("odd", mode="yes please")
    world.put(*[] if led_before else [odd])
    async with world.process() as process:
        world.put(*[odd] if led_before else [])
        await process.run()
        assert process.metrics.counted["garbage", "mode"] == 1
        world.server.change("storageclasses", "odd", lambda document: document["metadata"].pop("annotations"))
        await process.run()
    assert process.metrics.counted["garbage", "mode"] == 1


async def test_an_administrators_claim_reference_beside_garbage_stays() -> None:
    world = World(Mode.OFF)
    theirs = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "later"}
    world.put(volume_object("pv-1", claim=theirs, annotations={PREFIX + "expires-at": "soon"}))
    async with world.process() as process:
        await process.run()
    assert world.volume("pv-1")["spec"]["claimRef"] == theirs
    assert "annotations" not in world.volume("pv-1")["metadata"]


async def test_a_bind_completed_right_before_the_release_is_not_undone() -> None:
    world = reserved_world()

    def bound(_: object) -> None:
        world.server.before_write = None
        bind(world, "data", "pv-1")

    async with world.process() as process:
        await process.run()
        world.server.before_write = bound
        delete_pod(world)
        await process.run()
    assert world.volume("pv-1")["spec"]["claimRef"]["name"] == "data"
    assert world.annotations("persistentvolumes", "pv-1") == {}
    assert world.violations() == []


async def test_a_lagging_watch_is_no_reason_to_release_or_to_reserve_twice() -> None:
    world = reserved_world()
    world.put(volume_object("pv-9", "20Gi"), claim_object("late"), pod_object("late", ["late"]))
    world.server.lagging = True
    async with world.process() as process:
        await process.run(30)
        world.server.catch_up()
        await process.run(30)
    assert (world.reserved("data"), world.reserved("late")) in {("pv-1", "pv-9"), ("pv-9", "pv-1")}
    assert len(world.server.writes) == 4


@pytest.mark.parametrize("status", [403, 422, 500])
async def test_a_release_that_the_server_rejects_is_tried_ever_more_slowly(status: int) -> None:
    world = reserved_world()
    async with world.process() as process:
        await process.run()
        before = process.connection.requests
        world.server.reject_next += [("PATCH", failure(status, "No"))] * 1000
        delete_pod(world)
        await process.run(600)
        assert process.connection.requests - before < 60
        world.server.reject_next.clear()
        await process.run(60)
    assert is_free(world)


async def test_rejections_that_others_resolved_do_not_slow_a_later_release_down() -> None:
    world = reserved_world(Mode.ANNOTATE)
    async with world.process() as process:
        await process.run()
        world.server.reject_next += [("PATCH", failure(403, "No"))] * 1000
        delete_pod(world)
        await process.run(600)
        world.server.reject_next.clear()
        for plural, key in (("persistentvolumes", "pv-1"), ("persistentvolumeclaims", "default/data")):
            world.server.change(plural, key, lambda document: document["metadata"].pop("annotations"))
        await process.run(1)
        world.server.reject_next.append(("PATCH", failure(403, "No")))
        stale = reservation("data", minutes=-20)
        world.server.change("persistentvolumes", "pv-1", lambda pv: pv["metadata"].update(annotations=stale))
        await process.run(2)
    assert is_free(world)
