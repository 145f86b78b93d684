"""What the controller of holds writes, and what is left of it whatever fails, changes or dies meanwhile."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from binder.controllers.hold_controller import PASS_SECONDS
from binder.holds.ending import KEPT_WITHOUT_SET
from binder.model.decision import Mode
from binder.reporting.hold_reports import REPEATED
from binder.reservation.contract import DEFAULT_PREFIX
from csi.health.verdict import HealthState
from kube.client.transport import Request
from prebinder.config.settings import HoldSettings
from tests.binder.world import Process, World, bind
from tests.fakes.kube_api import failure
from tests.fakes.objects import Object, claim_object, node_object, volume_object

TEMPLATES = {"data": "10Gi", "log": "5Gi"}
PASS = PASS_SECONDS + 1


def set_object(
    name: str = "db", *, hold: int = 1, uid: str = "uid-set", templates: Iterable[str] = TEMPLATES
) -> Object:
    claims = [{"metadata": {"name": each}, "spec": claim_object(each, TEMPLATES[each])["spec"]} for each in templates]
    notes = {f"{DEFAULT_PREFIX}hold-replicas": str(hold)}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default", "uid": uid, "annotations": notes},
        "spec": {
            "replicas": 0,
            "volumeClaimTemplates": claims,
            "template": {"spec": {"containers": [{"name": "main"}]}},
        },
    }


def world_of(*sets: Object, volumes: int = 2, **limits: Any) -> World:
    """Zones a and b with as many volumes for each template, and the sets."""
    holds = HoldSettings(enabled=True, **{"max_share": 1.0, **limits})
    world = World(Mode.PREBIND, holds=holds)
    world.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    for zone in ("a", "b"):
        for number in range(volumes):
            for template, size in TEMPLATES.items():
                world.put(volume_object(f"{template}-{zone}{number}", size, zone=zone))
    world.put(*(sets or (set_object(),)))
    return world


def held(world: World) -> dict[str, list[str]]:
    """The volumes with the annotation of a hold, by the claim that it names."""
    by_claim: dict[str, list[str]] = {}
    for volume in world.server.all("persistentvolumes"):
        text = volume["metadata"].get("annotations", {}).get(f"{DEFAULT_PREFIX}held-for")
        if text is not None:
            by_claim.setdefault(text.removeprefix("default/"), []).append(volume["metadata"]["name"])
    return by_claim


def named(world: World) -> set[str]:
    """The volumes with a claimRef."""
    return {
        volume["metadata"]["name"] for volume in world.server.all("persistentvolumes") if "claimRef" in volume["spec"]
    }


def zones_of(world: World, *claims: str) -> set[str]:
    return {held(world)[claim][0].split("-")[1][0] for claim in claims}


def on_write(world: World, change: Callable[[], object], part: str = "/persistentvolumes/") -> None:
    """Do that once, right before the next write of such an object arrives."""

    def hook(request: Request) -> None:
        if part in request.path:
            world.server.before_write = None
            change()

    world.server.before_write = hook


async def one_pass(process: Process) -> None:
    await process.run(PASS)


def assert_held_whole(world: World, *ordinals: int) -> None:
    """Exactly these replicas have a volume for each template, in one zone, and nothing else is held or named."""
    claims = {f"{template}-db-{ordinal}" for ordinal in ordinals for template in TEMPLATES}
    assert held(world).keys() == claims
    assert all(len(volumes) == 1 for volumes in held(world).values())
    assert named(world) == {volumes[0] for volumes in held(world).values()}
    for ordinal in ordinals:
        assert len(zones_of(world, *(f"{template}-db-{ordinal}" for template in TEMPLATES))) == 1


async def test_a_hold_names_the_claim_without_a_uid_and_says_whose_it_is() -> None:
    world = world_of()
    async with world.process() as process:
        await process.run(1)
    assert_held_whole(world, 0)
    (name,) = held(world)["data-db-0"]
    volume = world.volume(name)
    assert volume["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "data-db-0",
    }
    notes = world.annotations("persistentvolumes", name)
    assert notes == {"held-for": "default/data-db-0", "held-set-uid": "uid-set", "held-by": "host/1"}
    assert process.sink.reasons_of("StatefulSet", "db") == ["VolumesHeld"]


@pytest.mark.parametrize("dies_after", range(1, 9))
async def test_whenever_it_dies_the_next_one_holds_whole_replicas_and_the_same_volumes(dies_after: int) -> None:
    world = world_of(set_object(hold=4))
    async with world.process(dies_after=dies_after) as process:
        await process.run()
    before = held(world)
    async with world.process(transition=2) as process:
        await one_pass(process)
        await one_pass(process)
    assert_held_whole(world, 0, 1, 2, 3)
    assert before.items() <= held(world).items()


@pytest.mark.parametrize("number", range(1, 5))
async def test_a_response_that_is_lost_leaves_no_second_volume_for_a_claim(number: int) -> None:
    world = world_of(set_object(hold=2))
    world.server.lose_responses = {number}
    async with world.process() as process:
        await one_pass(process)
        await one_pass(process)
    assert_held_whole(world, 0, 1)


async def test_what_may_have_been_held_is_read_before_another_volume_is_held_for_the_claim() -> None:
    """The answer to the first write is lost, its event late, and then its zone has no volume for the other claim."""
    world = world_of(volumes=1)
    world.server.lose_responses = {1}
    on_write(world, lambda: setattr(world.server, "lagging", True))
    async with world.process() as process:
        (first,) = named(world)
        world.server.lagging = False
        place = first.partition("-")[2]
        world.server.remove("persistentvolumes", f"log-{place}")
        await one_pass(process)
        await one_pass(process)
    assert_held_whole(world, 0)
    assert not any(name.endswith(place) for name in named(world))


async def test_a_replica_whose_second_volume_is_taken_gives_the_first_one_back() -> None:
    world = world_of(volumes=1)
    thief = {"namespace": "default", "name": "thief"}

    def take_all_logs() -> None:
        for zone in ("a", "b"):
            world.server.change("persistentvolumes", f"log-{zone}0", lambda each: each["spec"].update(claimRef=thief))

    on_write(world, take_all_logs, "/persistentvolumes/log")
    async with world.process() as process:
        await process.run(1)
        assert held(world) == {}
        await one_pass(process)
    assert held(world) == {}
    assert named(world) == {"log-a0", "log-b0"}
    assert process.sink.reasons_of("StatefulSet", "db")[-1] == "VolumesNotHeld"


async def test_nothing_is_held_for_a_replica_whose_claim_was_created_meanwhile() -> None:
    """Only the claim's own read right before the write shows it."""
    world = world_of(volumes=1)
    on_write(world, lambda: world.put(claim_object("log-db-0", "5Gi")), "/persistentvolumes/data")
    async with world.process() as process:
        await process.run(1)
        assert_held_whole(world)
        await one_pass(process)
    assert_held_whole(world)
    assert "claim log-db-0 exists and is not bound" in process.sink.events[-1].note


async def test_a_volume_that_turns_out_unhealthy_right_before_the_write_is_not_held() -> None:
    world = world_of(set_object(templates=["data"]))
    world.doctor.states["handle-data-a0"] = HealthState.DATA_LOSS
    async with world.process() as process:
        await process.run(1)
        assert held(world) == {}
        await one_pass(process)
    assert held(world) == {"data-db-0": ["data-a1"]}


async def test_a_claim_that_is_bound_while_its_hold_ends_keeps_its_volume() -> None:
    """Mode complete binds by the claim, in one update; the volume then names it, whatever we have just removed."""
    world = world_of(set_object(templates=["data"]))
    async with world.process() as process:
        await process.run(1)
        (name,) = held(world)["data-db-0"]

        def bind_by_claim() -> None:
            claim = claim_object("data-db-0")
            claim["spec"]["volumeName"] = name
            claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            world.put(claim)

        on_write(world, bind_by_claim)
        world.server.remove("statefulsets", "default/db")
        world.put(set_object(templates=["data"], hold=0))
        await one_pass(process)
    reference = world.volume(name)["spec"]["claimRef"]
    assert (reference["name"], reference["uid"]) == ("data-db-0", world.claim("data-db-0")["metadata"]["uid"])
    assert held(world) == {}
    assert world.violations() == []


async def test_a_claim_that_was_bound_before_its_hold_ends_keeps_its_volume() -> None:
    world = world_of(set_object(templates=["data"]))
    async with world.process() as process:
        await process.run(1)
        (name,) = held(world)["data-db-0"]
        world.put(claim_object("data-db-0"))
        bind(world, "data-db-0", name)
        await one_pass(process)
    assert held(world) == {}
    assert world.volume(name)["spec"]["claimRef"]["uid"] == world.claim("data-db-0")["metadata"]["uid"]


async def test_no_pass_is_awaited_when_the_annotation_changes() -> None:
    world = world_of(set_object(hold=1))
    async with world.process() as process:
        await process.run(1)
        world.server.change("statefulsets", "default/db", lambda each: wants(each, 2))
        await process.run(1)
        assert_held_whole(world, 0, 1)
        world.server.change("statefulsets", "default/db", lambda each: wants(each, 0))
        await process.run(1)
    assert_held_whole(world)


def wants(owner: Object, hold: int) -> None:
    owner["metadata"]["annotations"][f"{DEFAULT_PREFIX}hold-replicas"] = str(hold)


async def test_holds_outlive_their_set_by_ten_minutes_of_one_leader() -> None:
    world = world_of()
    almost = KEPT_WITHOUT_SET.total_seconds() - 60
    async with world.process() as process:
        await process.run(1)
        world.server.remove("statefulsets", "default/db")
        await process.run(almost)
    async with world.process(transition=2) as process:
        await process.run(almost)
        assert_held_whole(world, 0)
        await process.run(120)
    assert_held_whole(world)


async def test_holds_end_at_once_with_their_namespace() -> None:
    world = world_of()
    async with world.process() as process:
        await process.run(1)
        ends = {"deletionTimestamp": "2026-01-01T12:00:00Z"}
        world.server.change("namespaces", "default", lambda each: each["metadata"].update(ends))
        await process.run(1)
    assert_held_whole(world)


async def test_a_set_created_again_takes_its_holds_over() -> None:
    world = world_of()
    async with world.process() as process:
        await process.run(1)
        before = held(world)
        world.server.remove("statefulsets", "default/db")
        await one_pass(process)
        world.put(set_object(uid="uid-again"))
        await one_pass(process)
    assert held(world) == before
    assert world.annotations("persistentvolumes", before["data-db-0"][0])["held-set-uid"] == "uid-again"


@pytest.mark.parametrize(("limits", "most"), [({"max_per_namespace": 3}, 1), ({"max_share": 0.5}, 2)])
async def test_never_more_is_held_than_the_limits_allow_whoever_leads(limits: dict[str, Any], most: int) -> None:
    world = world_of(set_object(hold=4), **limits)
    for transition in range(1, 5):
        async with world.process(dies_after=transition, transition=transition) as process:
            await one_pass(process)
        assert len(named(world)) <= 2 * most
    async with world.process(transition=9) as process:
        await one_pass(process)
    assert_held_whole(world, *range(most))


async def test_a_hold_that_another_writer_changed_is_judged_again_as_it_is_now() -> None:
    """A user gives the volume to another claim while the hold ends: that claimRef stays."""
    world = world_of(set_object(templates=["data"]))
    other = {"namespace": "default", "name": "restored", "uid": ""}
    async with world.process() as process:
        await process.run(1)
        (name,) = held(world)["data-db-0"]
        on_write(
            world,
            lambda: world.server.change("persistentvolumes", name, lambda each: each["spec"].update(claimRef=other)),
        )
        world.server.change("statefulsets", "default/db", lambda each: wants(each, 0))
        await one_pass(process)
    assert world.volume(name)["spec"]["claimRef"] == other
    assert held(world) == {}


async def test_a_replica_that_gets_none_is_reported_once_and_again_while_it_lasts() -> None:
    world = world_of(set_object(hold=2), volumes=1, max_per_namespace=2)
    async with world.process() as process:
        for _ in range(10):
            await one_pass(process)
        assert process.sink.reasons_of("StatefulSet", "db") == ["VolumesNotHeld"]
        assert "none for replica 1" in process.sink.events[-1].note
        await process.run((REPEATED + timedelta(minutes=1)).total_seconds())
        assert process.sink.reasons_of("StatefulSet", "db") == ["VolumesNotHeld"] * 2
        world.server.change("statefulsets", "default/db", lambda each: wants(each, 1))
        await process.run((REPEATED + REPEATED).total_seconds())
        assert process.sink.reasons_of("StatefulSet", "db")[2:] == ["VolumesHeld"]
        world.server.change("statefulsets", "default/db", lambda each: wants(each, 0))
        await one_pass(process)
    assert process.sink.events[-1].note == "No volumes are held: no replica to come needs any"


async def test_gauges_count_replicas_and_sets_until_the_term_ends() -> None:
    world = world_of(set_object(hold=2), volumes=1, max_per_namespace=2)
    async with world.process() as process:
        await one_pass(process)
        assert gauges(process) == {"pvc_prebinder_held_replicas": 1, "pvc_prebinder_unheld_stateful_sets": 1}


def gauges(process: Process) -> dict[str, float]:
    samples = (sample for metric in process.metrics.registry.collect() for sample in metric.samples)
    return {each.name: each.value for each in samples if each.name.endswith(("held_replicas", "_stateful_sets"))}


async def test_what_is_rejected_for_good_is_taken_back() -> None:
    """The API server's policy accepts no claimRef on one of the volumes."""
    world = world_of(volumes=1)
    world.server.reject_next = [("PATCH /api/v1/persistentvolumes/log", failure(409, "Conflict"))] * 2
    async with world.process() as process:
        await process.run(1)
        assert_held_whole(world)
        await one_pass(process)
        await one_pass(process)
    assert_held_whole(world, 0)


async def test_a_node_that_leaves_moves_the_hold_to_a_zone_that_has_one() -> None:
    world = world_of(set_object(templates=["data"]), volumes=1)
    async with world.process() as process:
        await process.run(1)
        assert held(world) == {"data-db-0": ["data-a0"]}
        for name in ("node-a1", "node-a2"):
            world.server.remove("nodes", name)
        await one_pass(process)
        await one_pass(process)
        assert held(world) == {"data-db-0": ["data-b0"]}
        assert named(world) == {"data-b0"}
        world.put(node_object("node-a1", "a"))
        await one_pass(process)
    assert held(world) == {"data-db-0": ["data-b0"]}
